// From a value to a colour: one robust scale per metric, fixed over the rollout or given from outside.

const SHADES = 15;
// Values beyond the range have full colours, underlined, that rise to the furthest value: it alone has the last.
const BEYOND = 4;
const LEVELS = SHADES + BEYOND;
const ABSENT = LEVELS + 1;
const NOT_A_NUMBER = LEVELS + 2;
// Under what-if masks a token has one of these instead: hit by the first rule, the second, or both.
const HIT_A = LEVELS + 3;
const HIT_B = LEVELS + 4;
const HIT_BOTH = LEVELS + 5;

// Blue against orange stays apart for every common colour blindness. `cap` is the opacity of the
// strongest shade: above it text in the theme’s own colour falls below a contrast of 4.5. Full colours
// (`beyondHigh`, `beyondLow`) stand out more from the page the further they are, under text in `text`.
const PALETTES = {
  light: {
    ...{ high: [230, 97, 0], low: [52, 132, 240], none: [235, 236, 240], cap: 0.78, text: [255, 255, 255] },
    beyondHigh: [[190, 60, 0], [168, 28, 20], [138, 8, 58], [88, 0, 78]],
    beyondLow: [[0, 98, 204], [0, 78, 166], [12, 56, 124], [10, 26, 74]],
  },
  dark: {
    ...{ high: [255, 145, 60], low: [80, 155, 255], none: [32, 36, 48], cap: 0.56, text: [14, 18, 32] },
    beyondHigh: [[255, 145, 60], [255, 176, 72], [255, 212, 98], [255, 244, 176]],
    beyondLow: [[80, 155, 255], [122, 190, 255], [164, 222, 255], [214, 246, 255]],
  },
};

// A log scale is for data whose largest value is so many times its smallest, or typical, one; it goes
// down to this part of the range's end, and ordinary tokens stay pale by the exponent.
const LOG_FROM = 1000;
const HEAVY_TAIL = 30;
const LOG_REACH = 1e-9;
const LOG_REACH_OF_A_SIDE = 1e-4;
const LOG_EXPONENT = 3.3;
// Of fewer values the 99th percentile is the largest but one or two: no bound of the ordinary.
const FEWEST_FOR_PERCENTILES = 100;

/** Red, green, blue and opacity (0..1) of a level, which may be a fraction of one. */
function inkOf(palette, level, cap = palette.cap) {
  const size = Math.abs(level);
  if (size > SHADES) return [...(level < 0 ? palette.beyondLow : palette.beyondHigh)[size - SHADES - 1], 1];
  return [...(level < 0 ? palette.low : palette.high), (cap * size) / SHADES];
}

function shade(palette, level, cap) {
  const [r, g, b, alpha] = inkOf(palette, level, cap);
  return `rgb(${r} ${g} ${b} / ${alpha.toFixed(3)})`;
}

function paletteRules(palette) {
  const rules = [`.reader{--metric:${shade(palette, SHADES, 1)};--metric-low:${shade(palette, -SHADES, 1)}}`];
  // White text without its background would be lost on paper.
  const beyond = `;color:rgb(${palette.text.join(" ")});text-decoration:underline 2px;text-underline-offset:2px;print-color-adjust:exact`;
  for (let level = 1; level <= LEVELS; level++) {
    const more = level > SHADES ? beyond : "";
    rules.push(`.high${level}{background-color:${shade(palette, level)}${more}}`);
    rules.push(`.low${level}{background-color:${shade(palette, -level)}${more}}`);
  }
  rules.push(`.mask-a{background-color:${shade(palette, SHADES)}}`);
  rules.push(`.mask-b{border-bottom:4px solid ${shade(palette, -SHADES, 1)}}`);
  return rules.join("\n");
}

function levelClass(level) {
  if (level === ABSENT) return "absent";
  if (level === NOT_A_NUMBER) return "nan";
  if (level > NOT_A_NUMBER) return ["mask-a", "mask-b", "mask-a mask-b"][level - HIT_A];
  if (level === 0) return "";
  return level > 0 ? `high${level}` : `low${-level}`;
}

/** Finite values of the tokens in the loss, sorted. */
function sortedValues(metric, inLoss) {
  const { values, absent } = metric;
  const found = new Float32Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    const counts = Number.isFinite(values[i]) && !absent?.[i] && inLoss[i] !== OUTSIDE;
    if (counts) found[count++] = values[i];
  }
  return found.subarray(0, count).sort();
}

function isAbsent(metric, i) {
  return metric.absent !== null && metric.absent[i] === 1;
}

/**
 * Robust range of a metric: 1st to 99th percentile, or all of it where those coincide or the values are
 * few; with the smallest and the largest value. core/tokens/scales.py has the same rule.
 */
function robustRange(sorted) {
  const last = sorted.length - 1;
  const [least, most] = [sorted[0], sorted[last]];
  const [low, high] = [sorted[Math.ceil(0.01 * last)], sorted[Math.floor(0.99 * last)]];
  const isMany = sorted.length >= FEWEST_FOR_PERCENTILES && low < high;
  return isMany ? { low, high, least, most, words: "p1–p99" } : { low: least, high: most, least, most, words: "min–max" };
}

/**
 * The scale of a metric. `sorted`: its finite values, empty where there are none. `place(x)`: -1..1,
 * within the range and clipped to it. `tint(place)`: -1..1, strength and side of the colour there.
 * `excess(x)`: 0, or where it lies beyond the range, on a side that has colour, 1 to BEYOND. `strength(x)`:
 * for ranking, not clipped. `span`: the places at the ends of the legend, `ends` the texts there, and
 * `sides` which of them have colours beyond; none of them where all is one colour. `floor`: where a log
 * scale begins. `caption`: what the range is, and how many lie beyond.
 */
function scaleOf(metric, inLoss) {
  const sorted = sortedValues(metric, inLoss);
  if (!sorted.length) return flatScale(sorted, absenceOf(metric, inLoss));
  const { spec } = metric;
  if (spec.kind === "flag") return flagScale(sorted);
  const range = spec.span ?? robustRange(sorted);
  if (isTwoSided(spec, range)) return twoSidedScale(spec, range, sorted);
  if (range.low < range.high) return oneSidedScale(spec, range, sorted);
  return flatScale(sorted, `${withUnit(range.low, spec)} on every token`);
}

function absenceOf(metric, inLoss) {
  if (inLoss.length && inLoss.every((code) => code === OUTSIDE)) return "no token in the loss";
  const recorded = metric.values.some((_, i) => !isAbsent(metric, i));
  return recorded ? "no finite value in this rollout" : "not recorded for this rollout";
}

/** Two colours only where values lie on both sides of zero; a ratio always has 1 in its middle. */
function isTwoSided({ kind, centre }, { least, most }) {
  if (kind !== "diverging") return false;
  return centre !== 0 || (least < 0 && most > 0);
}

function flatScale(sorted, caption) {
  const none = () => 0;
  return { sorted, isLog: false, place: none, tint: (place) => place, excess: none, strength: none, caption };
}

function flagScale(sorted) {
  const set = sorted.length - bound(sorted, 0, true);
  const place = (x) => (x > 0 ? 1 : 0);
  const caption = `set on ${withThousands(set)} of ${counted(sorted.length, "token")}`;
  return { ...flatScale(sorted, caption), place, strength: place };
}

/** Colour at one end, the notable one: blue for the low end, orange for the high one. */
function oneSidedScale(spec, { low, high, least: lowest, most: highest, words }, sorted) {
  const isLow = spec.notable === "low" || (spec.kind === "diverging" && highest <= 0);
  const sign = isLow ? -1 : 1;
  const [least, most] = isLow ? [-high, -low] : [low, high];
  const isLog = least >= 0 && spansDecades(least, most, smallestAbove(sorted, isLow));
  const begin = isLog ? Math.max(least, most * LOG_REACH) : least;
  const along = between(begin, most, isLog);
  const furthest = isLow ? lowest : highest;
  const excess = excessOver(most, sign * furthest, most - begin);
  const isBeyond = sign * furthest > most;
  return {
    sorted,
    isLog,
    floor: begin,
    span: isLow ? [-1, 0] : [0, 1],
    sides: isLow ? [isBeyond, false] : [false, isBeyond],
    place: (x) => sign * along(sign * x),
    tint: tintOf(isLog),
    excess: (x) => excess(sign * x),
    strength: (x) => Math.max(0, sign * x - begin),
    ends: isLow
      ? [endWords(isBeyond && furthest, low), withUnit(isLog ? -begin : high, spec)]
      : [readable(begin), endWords(high, isBeyond && furthest) + unitOf(spec)],
    caption: captionOf(words, isLog, countBeyond(sorted, (x) => excess(sign * x)), isLow ? "below" : "above"),
  };
}

/** Orange above the middle and blue below it, as strong on either side. */
function twoSidedScale(spec, { low, high, least, most, words }, sorted) {
  const { centre } = spec;
  const sizes = sorted.map((x) => Math.abs(x - centre)).sort();
  const widest = Math.max(Math.abs(low - centre), Math.abs(high - centre));
  if (!widest) return flatScale(sorted, `${withUnit(centre, spec)} on every token`);
  const isLog = widest > HEAVY_TAIL * sizes[sizes.length >> 1];
  const along = between(isLog ? widest * LOG_REACH_OF_A_SIDE : 0, widest, isLog);
  // A step's values are doubles, those of the tokens are not.
  const size = (x) => Math.fround(Math.abs(Math.fround(x) - centre));
  const furthest = Math.max(size(least), size(most));
  const excess = excessOver(widest, furthest, widest);
  const sides = [centre - least > widest, most - centre > widest];
  return {
    sorted,
    isLog,
    span: [-1, 1],
    sides,
    place: (x) => Math.sign(x - centre) * along(Math.abs(x - centre)),
    tint: tintOf(isLog),
    excess: (x) => excess(size(x)),
    strength: (x) => Math.abs(x - centre),
    ends: [endWords(sides[0] && least, centre - widest), endWords(centre + widest, sides[1] && most) + unitOf(spec)],
    caption: captionOf(words, isLog, countBeyond(sorted, (x) => excess(size(x))), "beyond"),
  };
}

/** An end of the range in words, and what lies furthest beyond it, false for nothing; in their order. */
function endWords(first, last) {
  return [first, last].filter((x) => x !== false).map(readable).join(" … ");
}

/**
 * From a size to 0 within the range, 1 to BEYOND above its `end`: by the logarithm of the distance in widths
 * of the range. The furthest alone has the last, however close the next one is.
 */
function excessOver(end, furthest, width) {
  const largest = Math.fround(furthest);
  const reach = Math.log1p((largest - end) / width);
  return (size) => {
    if (!(size > end)) return 0;
    if (size >= largest) return BEYOND;
    return 1 + Math.min(BEYOND - 2, Math.floor(((BEYOND - 1) * Math.log1p((size - end) / width)) / reach));
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

/** A token outside the loss has no colour, whatever its value. */
function levelOf(metric, scale, i, inLoss) {
  if (inLoss[i] === OUTSIDE) return 0;
  if (isAbsent(metric, i)) return ABSENT;
  const x = metric.values[i];
  if (Number.isNaN(x)) return NOT_A_NUMBER;
  const strength = scale.tint(scale.place(x));
  const excess = scale.excess(x);
  return excess ? Math.sign(strength) * (SHADES + excess) : Math.round(strength * SHADES) || 0;
}

/** Level of every token; Int8Array, one entry per token. */
function levelsOf(metric, inLoss) {
  const levels = new Int8Array(metric.values.length);
  for (let i = 0; i < levels.length; i++) levels[i] = levelOf(metric, metric.scale, i, inLoss);
  return levels;
}
