// Rows of a name, a bar with a tick on it, and the bar's share in figures. Names are text, never markup.

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".bars");
  const reach = data.high - data.low;
  const at = (share) => `${(100 * (share - data.low)) / reach}%`;
  root.style.setProperty("--ink", data.ink);
  root.replaceChildren(legendOf(data), ...data.rows.map((row) => rowOf(row, data, at)));
}

function legendOf({ of_bars, of_ticks }) {
  const legend = make("div", "legend");
  legend.append(make("i", "bar"), make("span", "", of_bars), make("i", "tick"), make("span", "", of_ticks));
  return legend;
}

function rowOf(row, { of_bars, of_ticks }, at) {
  const element = make("div", "row");
  const [metric, tokens] = [percent(row.of_metric), percent(row.of_tokens)];
  element.setAttribute("role", "listitem");
  element.title = `${row.name}: ${metric} ${of_bars}, ${tokens} ${of_ticks}`;
  const track = make("div", "track");
  const zero = make("i", "zero");
  zero.style.left = at(0);
  const bar = make("i", "bar");
  const [left, right] = [Math.min(row.of_metric, 0), Math.max(row.of_metric, 0)];
  bar.style.left = at(left);
  bar.style.width = `calc(${at(right)} - ${at(left)})`;
  const tick = make("i", "tick");
  tick.style.left = at(row.of_tokens);
  const told = make("b", "", metric);
  told.style.left = at(Math.max(row.of_metric, row.of_tokens, 0));
  track.append(zero, bar, tick, told);
  element.append(make("span", "name", row.name), track);
  return element;
}

function percent(share) {
  const value = 100 * share;
  const shown = value.toFixed(value === 0 || Math.abs(value) >= 1 ? 0 : 1);
  return `${shown.replace(/^-(?=0\.0$)/, "").replace("-", "−")} %`;
}

function make(tag, name = "", text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.textContent = text;
  return element;
}
