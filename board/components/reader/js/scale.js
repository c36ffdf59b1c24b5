// From a value to a colour: one robust scale per metric, fixed over the rollout or given from outside.

const SHADES = 15;
// One more for values beyond the range: the strongest shade, underlined.
const LEVELS = SHADES + 1;
const ABSENT = LEVELS + 1;
const NOT_A_NUMBER = LEVELS + 2;
// Under what-if masks a token has one of these instead: hit by the first rule, the second, or both.
const HIT_A = LEVELS + 3;
const HIT_B = LEVELS + 4;
const HIT_BOTH = LEVELS + 5;

// Blue against orange stays apart for every common colour blindness. `cap` is the opacity of the
// strongest level: above it text in the theme’s own colour falls below a contrast of 4.5.
const PALETTES = {
  light: { high: [230, 97, 0], low: [52, 132, 240], none: [235, 236, 240], cap: 0.78 },
  dark: { high: [255, 145, 60], low: [80, 155, 255], none: [32, 36, 48], cap: 0.56 },
};

// A log scale is for data whose largest value is so many times its smallest, or typical, one; it goes
// down to this part of the range's end, and ordinary tokens stay pale by the exponent.
const LOG_FROM = 1000;
const HEAVY_TAIL = 30;
const LOG_REACH = 1e-9;
const LOG_REACH_OF_A_SIDE = 1e-4;
const LOG_EXPONENT = 3.3;
const FEWEST_FOR_PERCENTILES = 8;

function shade(palette, level, cap = palette.cap) {
  const [r, g, b] = level < 0 ? palette.low : palette.high;
  const alpha = (cap * Math.min(Math.abs(level), SHADES)) / SHADES;
  return `rgb(${r} ${g} ${b} / ${alpha.toFixed(3)})`;
}

function paletteRules(palette) {
  const rules = [`.reader{--metric:${shade(palette, LEVELS, 1)};--metric-low:${shade(palette, -LEVELS, 1)}}`];
  for (let level = 1; level <= LEVELS; level++) {
    rules.push(`.high${level}{background-color:${shade(palette, level)}}`);
    rules.push(`.low${level}{background-color:${shade(palette, -level)}}`);
  }
  for (const [name, level] of [["high", LEVELS], ["low", -LEVELS]]) {
    rules.push(`.${name}${LEVELS}{box-shadow:inset 0 -2px ${shade(palette, level, 1)}}`);
  }
  rules.push(`.mask-a{background-color:${shade(palette, LEVELS)}}`);
  rules.push(`.mask-b{border-bottom:4px solid ${shade(palette, -LEVELS, 1)}}`);
  return rules.join("\n");
}

function levelClass(level) {
  if (level === ABSENT) return "absent";
  if (level === NOT_A_NUMBER) return "nan";
  if (level > NOT_A_NUMBER) return ["mask-a", "mask-b", "mask-a mask-b"][level - HIT_A];
  if (level === 0) return "";
  return level > 0 ? `high${level}` : `low${-level}`;
}

/** Finite values of the tokens in the loss (of all tokens where none is in the loss), sorted. */
function sortedValues(metric, inLoss) {
  const inside = finiteValues(metric, inLoss);
  return (inside.length ? inside : finiteValues(metric, null)).sort();
}

function finiteValues(metric, inLoss) {
  const { values, absent } = metric;
  const found = new Float32Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    const counts = Number.isFinite(values[i]) && !absent?.[i] && inLoss?.[i] !== OUTSIDE;
    if (counts) found[count++] = values[i];
  }
  return found.subarray(0, count);
}

function isAbsent(metric, i) {
  return metric.absent !== null && metric.absent[i] === 1;
}

/**
 * Robust range of a metric: 1st to 99th percentile, or all of it where those coincide. The smallest and
 * the largest of a few values lie outside as well, so that one outlier never sets the range.
 */
function robustRange(sorted) {
  const last = sorted.length - 1;
  const [low, high] = [sorted[Math.ceil(0.01 * last)], sorted[Math.floor(0.99 * last)]];
  if (sorted.length >= FEWEST_FOR_PERCENTILES && low < high) return { low, high, words: "p1–p99" };
  return { low: sorted[0], high: sorted[last], words: "min–max" };
}

/**
 * The scale of a metric. `sorted`: its finite values, empty where there are none. `place(x)`: -1..1,
 * within the range and clipped to it. `tint(place)`: -1..1, strength and side of the colour there.
 * `isBeyond(x)`: outside the range, on a side that has colour. `strength(x)`: for ranking, not clipped.
 * `span`: the places at the ends of the legend, and `ends` the texts there; neither where all is one
 * colour. `floor`: where a log scale begins. `caption`: what the range is, and how much lies beyond.
 */
function scaleOf(metric, inLoss) {
  const sorted = sortedValues(metric, inLoss);
  if (!sorted.length) return flatScale(sorted, absenceOf(metric));
  const { spec } = metric;
  if (spec.kind === "flag") return flagScale(sorted);
  const range = spec.span ?? robustRange(sorted);
  if (isTwoSided(spec, sorted)) return twoSidedScale(spec, range, sorted);
  if (range.low < range.high) return oneSidedScale(spec, range, sorted);
  return flatScale(sorted, `${withUnit(range.low, spec)} on every token`);
}

function absenceOf(metric) {
  const recorded = metric.values.some((_, i) => !isAbsent(metric, i));
  return recorded ? "no finite value in this rollout" : "not recorded for this rollout";
}

/** Two colours only where values lie on both sides of zero; a ratio always has 1 in its middle. */
function isTwoSided({ kind, centre }, sorted) {
  if (kind !== "diverging") return false;
  return centre !== 0 || (sorted[0] < 0 && sorted[sorted.length - 1] > 0);
}

function flatScale(sorted, caption) {
  const none = () => 0;
  return { sorted, isLog: false, place: none, tint: (place) => place, isBeyond: () => false, strength: none, caption };
}

function flagScale(sorted) {
  const set = sorted.length - bound(sorted, 0, true);
  const place = (x) => (x > 0 ? 1 : 0);
  const caption = `set on ${withThousands(set)} of ${counted(sorted.length, "token")}`;
  return { ...flatScale(sorted, caption), place, strength: place };
}

/** Colour at one end, the notable one: blue for the low end, orange for the high one. */
function oneSidedScale(spec, { low, high, words }, sorted) {
  const isLow = spec.notable === "low" || (spec.kind === "diverging" && sorted[sorted.length - 1] <= 0);
  const sign = isLow ? -1 : 1;
  const [least, most] = isLow ? [-high, -low] : [low, high];
  const isLog = least >= 0 && spansDecades(least, most, smallestAbove(sorted, isLow));
  const begin = isLog ? Math.max(least, most * LOG_REACH) : least;
  const along = between(begin, most, isLog);
  const ends = isLow ? [low, isLog ? -begin : high] : [begin, high];
  return {
    sorted,
    isLog,
    floor: begin,
    span: isLow ? [-1, 0] : [0, 1],
    place: (x) => sign * along(sign * x),
    tint: tintOf(isLog),
    isBeyond: (x) => sign * x > most,
    strength: (x) => Math.max(0, sign * x - begin),
    ends: [readable(ends[0]), withUnit(ends[1], spec)],
    caption: captionOf(words, isLog, countBeyond(sorted, (x) => sign * x > most), isLow ? "below" : "above"),
  };
}

/** Orange above the middle and blue below it, as strong on either side. */
function twoSidedScale(spec, { low, high, words }, sorted) {
  const { centre } = spec;
  const sizes = sorted.map((x) => Math.abs(x - centre)).sort();
  const widest = Math.max(Math.abs(low - centre), Math.abs(high - centre));
  if (!widest) return flatScale(sorted, `${withUnit(centre, spec)} on every token`);
  const isLog = widest > HEAVY_TAIL * sizes[sizes.length >> 1];
  const along = between(isLog ? widest * LOG_REACH_OF_A_SIDE : 0, widest, isLog);
  const isBeyond = (x) => Math.abs(x - centre) > widest;
  return {
    sorted,
    isLog,
    span: [-1, 1],
    place: (x) => Math.sign(x - centre) * along(Math.abs(x - centre)),
    tint: tintOf(isLog),
    isBeyond,
    strength: (x) => Math.abs(x - centre),
    ends: [readable(centre - widest), withUnit(centre + widest, spec)],
    caption: captionOf(words, isLog, countBeyond(sorted, isBeyond), "beyond"),
  };
}

/** Whether a linear scale would leave all but the largest values pale. */
function spansDecades(least, most, smallest) {
  return most > 0 && most >= LOG_FROM * (least > 0 ? least : smallest);
}

/** The smallest size above zero; Infinity where there is none. */
function smallestAbove(sorted, isLow) {
  const at = isLow ? bound(sorted, 0, false) - 1 : bound(sorted, 0, true);
  return at in sorted ? Math.abs(sorted[at]) : Infinity;
}

/** From a size to 0..1 between the two given. */
function between(begin, end, isLog) {
  const clipped = (share) => Math.max(0, Math.min(1, share));
  if (!isLog) return (size) => clipped((size - begin) / (end - begin));
  const decades = Math.log(end / begin);
  return (size) => (size > begin ? clipped(Math.log(size / begin) / decades) : 0);
}

/** Strength of the colour at a place; on a log scale ordinary tokens would be half as strong as the rare. */
function tintOf(isLog) {
  return isLog ? (place) => Math.sign(place) * Math.abs(place) ** LOG_EXPONENT : (place) => place;
}

function countBeyond(sorted, isBeyond) {
  return sorted.reduce((count, x) => count + (isBeyond(x) ? 1 : 0), 0);
}

function captionOf(words, isLog, count, where) {
  const range = isLog ? `${words}, log` : words;
  return count ? `${range} · ${withThousands(count)} ${where}` : range;
}

function withUnit(x, spec) {
  return `${readable(x)}${unitOf(spec)}`;
}

function unitOf(spec) {
  return spec.unit ? ` ${spec.unit}` : "";
}

function levelOf(metric, scale, i) {
  if (isAbsent(metric, i)) return ABSENT;
  const x = metric.values[i];
  if (Number.isNaN(x)) return NOT_A_NUMBER;
  const strength = scale.tint(scale.place(x));
  return scale.isBeyond(x) ? Math.sign(strength) * LEVELS : Math.round(strength * SHADES) || 0;
}

/** Level of every token; Int8Array, one entry per token. */
function levelsOf(metric) {
  const levels = new Int8Array(metric.values.length);
  for (let i = 0; i < levels.length; i++) levels[i] = levelOf(metric, metric.scale, i);
  return levels;
}
