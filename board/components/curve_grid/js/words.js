// Numbers of the axes, and the texts that Python escaped for plotly: shown as text, never as markup.

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };
const SUFFIXES = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "k"],
];

// Below it numbers have an exponent, as those that Python writes with four significant digits.
const TINY = 1e-4;
const MOST_DIGITS = 18;

function unescaped(text) {
  return text.replace(/&(?:lt|gt|amp);/g, (sign) => ENTITIES[sign]);
}

/** The lines of a hover text as elements; <b> is the one sign that is read. */
function written(text) {
  return text.split("<br>").map((line) => {
    const row = make("div");
    line.split(/<\/?b>/).forEach((part, i) => row.append(make(i % 2 ? "b" : "span", "", unescaped(part))));
    return row;
  });
}

/** Labels of the value axis, told apart by as many digits as the distance between them needs. */
function valueLabels(axis, values, distance) {
  if (!axis.labels) return values.map(() => "");
  if (axis.percent) {
    const digits = digitsOf(100 * distance);
    return values.map((value) => `${signed(String(Number((100 * value).toFixed(digits))))} %`);
  }
  const largest = Math.max(...values.map(Math.abs));
  if (largest > 0 && largest < TINY) return values.map((value) => withExponent(value, distance));
  const [size, suffix] = (!axis.digits && largest >= 1e4 && SUFFIXES.find(([from]) => largest >= from)) || [1, ""];
  const digits = digitsOf(distance / size);
  return values.map((value) => {
    const shown = withDigits(value / size, digits, axis.digits);
    return Number(shown.replaceAll(",", "")) === 0 ? "0" : signed(shown) + suffix;
  });
}

function signed(text) {
  return text.replace(/^-/, "−");
}

/** As many digits of the mantissa as reach two places below the distance, without zeros at the end. */
function withExponent(value, distance) {
  if (Math.abs(value) < distance / 2) return "0";
  const digits = Math.floor(Math.log10(Math.abs(value))) - Math.floor(Math.log10(distance)) + 2;
  const [mantissa, power] = value.toExponential(Math.min(20, Math.max(0, digits))).split("e");
  return signed(`${Number(mantissa)}e${Number(power)}`);
}

/** As many as tell apart 0.025, 0.05 and 0.075, say: rounded to two they would not be what they are. */
function digitsOf(distance) {
  let digits = Math.min(MOST_DIGITS, Math.max(0, -Math.floor(Math.log10(distance) + 1e-9)));
  while (digits < MOST_DIGITS && Math.abs(distance * 10 ** digits - Math.round(distance * 10 ** digits)) > 1e-6) digits++;
  return digits;
}

function withDigits(value, digits, grouped) {
  const shown = value.toFixed(digits);
  return grouped ? Number(shown).toLocaleString("en", { minimumFractionDigits: digits }) : shown;
}

/** A number of the charts as the tiles write it, with four significant digits; a percentage as it is. */
function shortNumber(text) {
  const value = Number(text.replaceAll(",", ""));
  const size = Math.abs(value);
  if (!Number.isFinite(value) || size >= 1e15) return text;
  const short = Number(value.toPrecision(4));
  const shown = size >= 1e3 ? Math.round(value).toLocaleString("en") : 0 < size && size < TINY ? short.toExponential() : String(short);
  return shown.replace(/^-/, "−");
}

function logLabels(values) {
  return values.map((value) => {
    if (value === null) return "";
    const short = Number(value.toPrecision(3));
    return short >= 1e4 || short < 1e-3 ? short.toExponential().replace("e+", "e") : String(short);
  });
}
