// How the values of a row are written.

const MISSING = "–";
const ROUNDING = 1e-12; // what is left of sums that are zero
const TINY = 1e-3;
const LARGE = 1e3;

/** Up to four significant digits, three below 0.1; whole numbers in full. */
function numberText(value) {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  let text;
  if (size < ROUNDING) text = "0";
  else if (Number.isInteger(value) && size < 1e15) text = value.toLocaleString("en-US");
  else if (size < TINY || size >= 1e15) text = value.toExponential(2);
  else if (size >= LARGE) text = Math.round(value).toLocaleString("en-US");
  else text = String(Number(value.toPrecision(size < 0.1 ? 3 : 4)));
  return text.replaceAll("-", "−");
}

function valueText(value) {
  if (value === null || value === undefined) return MISSING;
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? numberText(value) : String(value);
}

/** A bar from zero to the value, between the column's bounds. */
function barOf(value, { low, high }) {
  const bar = make("span", "bar");
  if (typeof value !== "number" || !(low < high)) return bar;
  const place = (number) => Math.min(Math.max((number - low) / (high - low), 0), 1) * 100;
  const [from, to] = [place(0), place(value)].sort((a, b) => a - b);
  const fill = make("i");
  fill.style.left = `${from}%`;
  fill.style.width = `${to - from}%`;
  bar.append(fill);
  return bar;
}
