// Tiles of a number, its change and a line of the last values. All texts are text nodes.

const HEIGHT = 24;
const EDGE = 2;
const WIDEST_PIXELS = 300;
const SVG = "http://www.w3.org/2000/svg";
const ARROWS = { good: true, bad: true, change: true };

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".tiles");
  root.style.maxWidth = `${WIDEST_PIXELS * data.tiles.length}px`;
  root.replaceChildren(...data.tiles.map(tileOf));
}

function tileOf(tile) {
  const element = make("div", "tile");
  element.setAttribute("role", "listitem");
  element.title = tile.help;
  const head = make("div", "head");
  head.append(make("span", "label", tile.label), make("span", "unit", tile.unit));
  const change = make("div", `change ${tile.tone === "change" ? "neutral" : tile.tone}`);
  change.append(make("b", "", arrowOf(tile) + tile.change), make("span", "note", tile.note));
  const isNumber = /\d/.test(tile.value);
  const value = make("div", isNumber ? "value" : "value absent", tile.value);
  if (tile.error) value.append(" ", make("span", "note", tile.error));
  element.append(head, value, change);
  if (tile.history.length > 1) element.append(lineOf(tile));
  return element;
}

function arrowOf({ tone, change }) {
  if (!ARROWS[tone]) return "";
  return change.startsWith("−") ? "↓ " : "↑ ";
}

function lineOf({ history, ink }) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  const attributes = { d: `M${placed(history, HEIGHT, EDGE).join("L")}`, fill: "none", stroke: ink, "stroke-width": 1.5, "stroke-linejoin": "round", "vector-effect": "non-scaling-stroke" };
  for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
  picture.append(line);
  return picture;
}
