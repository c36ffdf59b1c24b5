// Numbers as people read them, and percentiles.

const SIGNIFICANT = 4;
const ROUNDING_NOISE = 1e-12;

/** About four significant digits; small ones in scientific notation, so nothing rounds to zero. */
function readable(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "-∞";
  // What is left of a sum that is zero, such as the advantages of a group of equal rewards.
  if (Math.abs(x) < ROUNDING_NOISE) return "0";
  if (!isPlain(x)) {
    const [digits, exponent] = x.toExponential(SIGNIFICANT - 1).split("e");
    return `${Number(digits)}e${Number(exponent)}`;
  }
  return Math.abs(x) >= 1000 ? String(Math.round(x)) : String(Number(x.toPrecision(SIGNIFICANT)));
}

/** A share of 1 in percent: one decimal below 10 % and above 90 %, else whole; as `core/shares.py` has it. */
function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1 %";
  if (share < 1 && share > 0.999) return ">99.9 %";
  const isWhole = Math.abs(share) >= 0.0995 && Math.abs(share) <= 0.9005;
  const steps = isWhole ? 1 : 10;
  return `${Math.floor(100 * share * steps + 0.5) / steps} %`;
}

/** The shortest decimal that is this float32 and no other. */
function exact(x) {
  if (x === 0 || !Number.isFinite(x)) return readable(x);
  let digits = 1;
  while (digits < 9 && Math.fround(Number(x.toPrecision(digits))) !== x) digits++;
  const decimal = Number(x.toPrecision(digits));
  return isPlain(x) ? String(decimal) : decimal.toExponential().replace("e+", "e");
}

/** Whether people would write this number without an exponent. */
function isPlain(x) {
  return Math.abs(x) >= 1e-3 && Math.abs(x) < 1e6;
}

const THOUSANDS = new Intl.NumberFormat("en-US");

function withThousands(n) {
  return THOUSANDS.format(n);
}

function counted(n, noun) {
  return `${withThousands(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** A place in an order: 1st, 2nd, 3rd, 11th. */
function ordinal(n) {
  const teens = n % 100 >= 11 && n % 100 <= 13;
  const ending = teens ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${withThousands(n)}${ending}`;
}

/** Index of the first entry of `sorted` that is not below x (`above` false) or is above x (true). */
function bound(sorted, x, above) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x || (above && sorted[middle] === x)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Share of `sorted` below x in percent, ties counted half. */
function percentile(sorted, x) {
  if (!sorted.length || Number.isNaN(x)) return null;
  return (50 * (bound(sorted, x, false) + bound(sorted, x, true))) / sorted.length;
}
