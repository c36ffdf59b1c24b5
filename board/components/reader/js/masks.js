// What-if masks: which tokens a rule would hit at given thresholds. Rules come from core/masks.py.

/** Bounds on the rule's metric; null where the rule has none. `numbers` by threshold name. */
function boundsOf(rule, numbers) {
  const bound = (threshold) =>
    threshold && threshold.offset + threshold.factor * (numbers[threshold.name] ?? threshold.default);
  return { low: bound(rule.low), high: bound(rule.high) };
}

/** 1 where the rule hits a token; a missing value or advantage hits nothing. */
function hitsOf(rule, values, numbers, advantages) {
  const { low, high } = boundsOf(rule, numbers);
  const hits = new Uint8Array(values.length);
  for (let i = 0; i < hits.length; i++) {
    let below = low !== null && values[i] < low;
    let above = high !== null && values[i] > high;
    if (rule.by_sign) {
      above &&= advantages[i] > 0;
      below &&= rule.at_zero === "low" ? advantages[i] <= 0 : advantages[i] < 0;
    }
    hits[i] = below || above ? 1 : 0;
  }
  return hits;
}

/** How two masks go together over the tokens in the loss. */
function compareHits(one, other, inLoss) {
  const counts = { tokens: 0, both: 0, onlyOne: 0, onlyOther: 0, neither: 0 };
  for (let i = 0; i < inLoss.length; i++) {
    if (inLoss[i] === OUTSIDE) continue;
    counts.tokens += 1;
    if (one[i]) counts[other[i] ? "both" : "onlyOne"] += 1;
    else counts[other[i] ? "onlyOther" : "neither"] += 1;
  }
  return counts;
}

function countHits(hits, inLoss) {
  let count = 0;
  for (let i = 0; i < hits.length; i++) count += hits[i] && inLoss[i] !== OUTSIDE ? 1 : 0;
  return count;
}

function combinedLevels(one, other, inLoss) {
  const levels = new Int8Array(inLoss.length);
  for (let i = 0; i < levels.length; i++) {
    if (inLoss[i] === OUTSIDE) continue;
    if (one?.[i]) levels[i] = other?.[i] ? HIT_BOTH : HIT_A;
    else if (other?.[i]) levels[i] = HIT_B;
  }
  return levels;
}

/** The sources a mask can be made from: the rules, then what the trainer recorded. */
function maskSources(rollout) {
  const rules = rollout.rules.map((rule) => ({
    name: rule.name,
    label: rule.label,
    rule,
    lacks: lackOf(rollout, rule),
  }));
  const recorded = rollout.recordedMasks
    .map((name) => metricNamed(rollout, name))
    .filter((metric) => metric && metric.values.length)
    .map((metric) => ({ name: metric.name, label: `Recorded: ${metric.spec.label}`, metric, lacks: "" }));
  return [...rules, ...recorded];
}

/** The metric that a rule compares in this rollout; undefined where none is recorded. */
function comparedBy(rollout, rule) {
  const metrics = [rule.metric, rule.stand_in].map((name) => metricNamed(rollout, name));
  return metrics.find((metric) => metric?.values.some((x, i) => !isAbsent(metric, i) && !Number.isNaN(x)));
}

/** Why a rule can't be applied to this rollout; empty where it can. */
function lackOf(rollout, rule) {
  if (!comparedBy(rollout, rule)) return `needs ${rule.formula.split("ratio = ").at(-1).split("Δ = ").at(-1)}`;
  return rule.by_sign && !advantagesOf(rollout) ? "needs advantages" : "";
}

/** Per token as recorded, else the rollout's one advantage on each; null where neither is known. */
function advantagesOf(rollout) {
  const metric = metricNamed(rollout, "advantages");
  if (metric) return withoutAbsent(metric);
  if (rollout.advantage === null) return null;
  return new Float32Array(rollout.texts.length).fill(rollout.advantage);
}

function withoutAbsent(metric) {
  if (!metric.absent) return metric.values;
  return metric.values.map((x, i) => (metric.absent[i] ? NaN : x));
}

function hitsFrom(rollout, source, numbers) {
  if (!source || source.lacks) return null;
  if (source.metric) return Uint8Array.from(withoutAbsent(source.metric), (x) => (x > 0 ? 1 : 0));
  const values = withoutAbsent(comparedBy(rollout, source.rule));
  return hitsOf(source.rule, values, numbers, source.rule.by_sign ? advantagesOf(rollout) : null);
}
