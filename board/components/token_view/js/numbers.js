// Numbers as people read them, and percentiles.

const SIGNIFICANT = 4;

/** About four significant digits; small ones in scientific notation, so nothing rounds to zero. */
function readable(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "-∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-3) {
    const [digits, exponent] = x.toExponential(SIGNIFICANT - 1).split("e");
    return `${Number(digits)}e${Number(exponent)}`;
  }
  return size >= 1000 ? String(Math.round(x)) : String(Number(x.toPrecision(SIGNIFICANT)));
}

/** The shortest decimal that is this float32 and no other. */
function exact(x) {
  if (x === 0 || !Number.isFinite(x)) return readable(x);
  for (let digits = 1; digits < 9; digits++) {
    const candidate = Number(x.toPrecision(digits));
    if (Math.fround(candidate) === x) return String(candidate);
  }
  return String(Number(x.toPrecision(9)));
}

function withThousands(n) {
  return n.toLocaleString("en-US");
}

function counted(n, noun) {
  return `${withThousands(n)} ${noun}${n === 1 ? "" : "s"}`;
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
