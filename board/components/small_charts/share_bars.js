// Rows of a name, the share in figures, and its bar with a tick on it. The figures have a column of their
// own: at the end of a bar they would be read as the value of the tick. Names are text, never markup.

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
  track.append(zero, bar, tick);
  element.append(make("span", "name", row.name), make("b", "share", metric), track);
  return element;
}

/** As `core/shares.py` has it: one decimal below 10 % and above 90 %, else whole. */
function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1 %";
  if (share < 1 && share > 0.999) return ">99.9 %";
  const isWhole = Math.abs(share) >= 0.0995 && Math.abs(share) <= 0.9005;
  const steps = isWhole ? 1 : 10;
  return `${Math.floor(100 * share * steps + 0.5) / steps} %`;
}
