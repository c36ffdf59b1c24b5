// One line above the charts of a page: what lines and marks are in all of them, which steps are shown, the way back.

const BARS = new WeakMap();
const KINDS = ["resumed", "finding", "evaluation"];

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".bar");
  const bar = BARS.get(root) ?? {};
  BARS.set(root, bar);
  bar.render = () => root.replaceChildren(...partsOf(data));
  PAGE.bars.add(bar);
  PAGE.zoom = zoomOfUrl();
  bar.render();
  return () => PAGE.bars.delete(bar);
}

function partsOf({ kinds, lines, first, last }) {
  const marks = KINDS.filter((kind) => kinds.includes(kind)).map((kind) => {
    const part = make("span", "kind");
    part.append(make("i", `mark ${kind}`), make("span", "", kind));
    return part;
  });
  const zoom = PAGE.zoom && PAGE.zoom[0] <= last && PAGE.zoom[1] >= first ? PAGE.zoom : null;
  const [low, high] = zoom ?? [first, last];
  const steps = make("span", "steps", low === high ? `Step ${low}` : `Steps ${low}–${high}`);
  const parts = [...lines.map(nameOf), ...marks, steps];
  if (!zoom) return first < last ? [...parts, make("span", "hint", "drag to zoom")] : parts;
  const out = make("button", "out", "whole run");
  out.type = "button";
  out.title = "Show all steps (double click or Esc)";
  out.addEventListener("click", () => zoomTo(null));
  return [...parts, out];
}

function nameOf({ name, ink, dash }) {
  const part = make("span", "kind");
  const line = make("i", "line");
  line.style.borderTop = `2px ${dash === "dot" ? "dotted" : "dashed"} ${ink}`;
  part.append(line, make("span", "", name));
  return part;
}
