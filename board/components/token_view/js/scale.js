// From a value to a colour: one robust scale per metric, fixed over the rollout or given from outside.

const LEVELS = 15;
const ABSENT = LEVELS + 1;
const NOT_A_NUMBER = LEVELS + 2;
// Under what-if masks a token has one of these instead: hit by the first rule, the second, or both.
const HIT_A = LEVELS + 3;
const HIT_B = LEVELS + 4;
const HIT_BOTH = LEVELS + 5;

// Blue against orange stays apart for every common colour blindness. `cap` is the opacity of the
// strongest level: above it text in the theme’s own colour falls below a contrast of 4.5.
const PALETTES = {
  light: { high: [230, 97, 0], low: [52, 132, 240], none: [235, 236, 240], cap: 0.8 },
  dark: { high: [255, 145, 60], low: [80, 155, 255], none: [32, 36, 48], cap: 0.55 },
};

function shade(palette, level, cap = palette.cap) {
  const [r, g, b] = level < 0 ? palette.low : palette.high;
  const alpha = (cap * Math.abs(level)) / LEVELS;
  return `rgb(${r} ${g} ${b} / ${alpha.toFixed(3)})`;
}

function paletteRules(palette) {
  const rules = [];
  for (let level = 1; level <= LEVELS; level++) {
    rules.push(`.high${level}{background-color:${shade(palette, level)}}`);
    rules.push(`.low${level}{background-color:${shade(palette, -level)}}`);
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

/** Robust range of a metric: 1st to 99th percentile, or all of it where those coincide. */
function robustRange(sorted) {
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  const [low, high] = [at(0.01), at(0.99)];
  if (low < high) return { low, high, words: "p1–p99" };
  return { low: sorted[0], high: sorted[sorted.length - 1], words: "min–max" };
}

/**
 * The scale of a metric: `of(x)` in -1..1 for the colour, `strength(x)` unclipped for ranking, and
 * `caption` for the legend. `sorted` is empty where nothing finite was recorded.
 */
function scaleOf(metric, inLoss) {
  const sorted = sortedValues(metric, inLoss);
  if (!sorted.length) return { sorted, of: () => 0, strength: () => 0, caption: absenceOf(metric) };
  if (metric.spec.kind === "flag") return flagScale(sorted);
  const { span } = metric.spec;
  const range = span ? { low: span.low, high: span.high, words: span.words } : robustRange(sorted);
  const raw = metric.spec.kind === "diverging" ? divergingRaw : sequentialRaw;
  const { position, caption } = raw(metric.spec, range);
  const of = (x) => Math.max(-1, Math.min(1, position(x)));
  return { sorted, of, strength: (x) => Math.abs(position(x)), caption };
}

function absenceOf(metric) {
  const recorded = metric.values.some((_, i) => !isAbsent(metric, i));
  return recorded ? "no finite value in this rollout" : "not recorded for this rollout";
}

function flagScale(sorted) {
  const set = sorted.length - bound(sorted, 0, true);
  const position = (x) => (x > 0 ? 1 : 0);
  return {
    sorted,
    of: position,
    strength: position,
    caption: `set on ${withThousands(set)} of ${counted(sorted.length, "token")}`,
  };
}

function divergingRaw(spec, { low, high, words }) {
  const reach = Math.max(Math.abs(low - spec.centre), Math.abs(high - spec.centre));
  const around = spec.centre === 0 ? "±" : `${readable(spec.centre)} ± `;
  return {
    position: (x) => (reach > 0 ? (x - spec.centre) / reach : 0),
    caption: `${around}${readable(reach)}${unitOf(spec)} (${words})`,
  };
}

function sequentialRaw(spec, { low, high, words }) {
  const span = high - low;
  const up = (x) => Math.max(0, x - low) / span;
  const down = (x) => -Math.max(0, high - x) / span;
  const position = spec.notable === "low" ? down : up;
  return {
    position: span > 0 ? position : () => 0,
    caption:
      span > 0
        ? `${readable(low)} to ${readable(high)}${unitOf(spec)} (${words})`
        : `${readable(low)}${unitOf(spec)} on every token`,
  };
}

function unitOf(spec) {
  return spec.unit ? ` ${spec.unit}` : "";
}

function levelOf(metric, scale, i) {
  if (isAbsent(metric, i)) return ABSENT;
  const x = metric.values[i];
  return Number.isNaN(x) ? NOT_A_NUMBER : Math.round(scale.of(x) * LEVELS) || 0;
}

/** Level of every token; Int8Array, one entry per token. */
function levelsOf(metric) {
  const levels = new Int8Array(metric.values.length);
  for (let i = 0; i < levels.length; i++) levels[i] = levelOf(metric, metric.scale, i);
  return levels;
}
