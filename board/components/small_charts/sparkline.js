// A line of a few values, with the area below it, as wide as its place; the colour is the style's.

const HEIGHT = 30;
const EDGE = 1.5;

export default function ({ data, parentElement }) {
  const [area, line] = parentElement.querySelector("svg").children;
  const points = placed(data.values, HEIGHT, EDGE);
  line.setAttribute("d", `M${points.join("L")}`);
  area.setAttribute("d", `M0,${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z`);
}
