// A line of a few values, with the area below it, as wide as its place; the colour is the style's.

const WIDTH = 100;
const HEIGHT = 30;
const EDGE = 1.5;

export default function ({ data, parentElement }) {
  const picture = parentElement.querySelector("svg");
  const [area, line] = [...picture.children];
  picture.style.color = `var(--st-${data.tone}-color)`;
  const points = placed(data.values);
  line.setAttribute("d", `M${points.join("L")}`);
  area.setAttribute("d", `M0,${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z`);
}

function placed(values) {
  const low = Math.min(...values);
  const reach = Math.max(...values) - low || 1;
  const along = WIDTH / Math.max(values.length - 1, 1);
  return values.map((value, i) => {
    const height = ((value - low) / reach) * (HEIGHT - 2 * EDGE) + EDGE;
    return `${(i * along).toFixed(2)},${(HEIGHT - height).toFixed(2)}`;
  });
}
