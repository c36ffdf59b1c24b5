// What stands in a cell. Texts of logs are text nodes.

const LONG_PART = 14;
const SVG = "http://www.w3.org/2000/svg";
const LINE = [100, 40]; // board/components/run_table/__init__.py
const SECONDS = [
  ["s", 60],
  ["min", 60],
  ["h", 48],
];

/** A time span as the server says it: 14 s, 3 min, 5 h, 2 days. */
function agoText(seconds) {
  let span = Math.max(seconds, 0);
  for (const [unit, length] of SECONDS) {
    if (span < length) return `${Math.floor(span)} ${unit}`;
    span /= unit === "h" ? 24 : length;
  }
  return `${Math.floor(span)} days`;
}

/** The clocks of browser and server are taken to agree: both are set by the network. */
function ageText({ at, text }) {
  const ago = agoText(Date.now() / 1000 - at);
  return text ? `${text} ${ago.replace(" ", "\u00a0")}` : ago;
}

/** Names break at _ and /; long parts anywhere. */
function fillName(element, name) {
  for (const part of name.split(/(?<=[_/])/)) {
    element.append(make("span", part.length > LONG_PART ? "" : "part", part), make("wbr"));
  }
}

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Lines in one box, and the last point of a single one. */
function lineOf(lines, ink) {
  const [width, height] = LINE;
  const look = { viewBox: `0 0 ${width} ${height}`, width: width / 2, height: height / 2, "aria-hidden": "true" };
  const drawing = svg("svg", look);
  drawing.style.color = ink;
  for (const points of lines) {
    if (points.length > 2) drawing.append(svg("polyline", { points: points.join(" ") }));
  }
  if (lines.length > 1) drawing.classList.add("several");
  const [x, y] = lines[0].slice(-2);
  if (lines.length === 1 && lines[0].length) drawing.append(svg("circle", { cx: x, cy: y, r: 4 }));
  return drawing;
}

/** Where nothing is known yet. */
function skeleton(column) {
  const widths = { line: [40, 56], chip: [80] }[column.kind] ?? [Math.min(column.width * 0.6, 40)];
  return widths.map((width) => {
    const bar = make("i", "skeleton");
    bar.style.width = `${width}px`;
    return bar;
  });
}

function cellOf(view, column, row) {
  const cell = make("div", `cell ${column.kind}`);
  cell.setAttribute("role", "gridcell");
  if (column.kind === "name") {
    (isGroup(row) ? groupNameCell : fillNameCell)(view, cell, row);
    return cell;
  }
  const value = row.cells[column.name];
  if (!value) {
    if (row.error || isGroup(row)) return cell;
    if (row.waits && column.kind === "chip") cell.append(make("span", "faint", row.waits));
    else cell.append(...skeleton(column));
    return cell;
  }
  if (value.help) cell.title = value.help;
  if (column.kind === "age") {
    cell.dataset.at = value.at;
    cell.dataset.text = value.text ?? "";
    cell.textContent = ageText(value);
    return cell;
  }
  const text = make("span", `value ${value.tone ?? ""}`, value.text);
  const note = value.note ? make("small", value.noteTone ?? "", value.note) : "";
  if (value.text) cell.append(text);
  if (column.kind === "chip") cell.append(note);
  else if (note) text.append(" ", note);
  const lines = value.lines ?? (value.line ? [value.line] : []);
  if (lines.length) cell.append(lineOf(lines, column.ink));
  return cell;
}

function fillNameCell(view, cell, row) {
  const link = make("a", "run-name");
  link.href = `./${searchWith(view.data.parameters, { run: row.name, step: null, index: null })}`;
  link.tabIndex = -1; // Tab leads to the row
  fillName(link, row.label);
  const words = make("div", "words");
  words.append(link);
  if (row.error) words.append(make("div", "error", row.error));
  if (row.cells.note) words.append(noteLine(row.cells.note));
  cell.append(markOf(row.state, row.words), words);
  link.onclick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return event.stopPropagation();
    event.preventDefault(); // the row opens it
  };
}

function noteLine({ text, help }) {
  const line = make("div", "note", text);
  line.title = help;
  return line;
}
