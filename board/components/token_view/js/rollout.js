// The Arrow tables of one rollout as plain arrays.

const OUTSIDE = 0;
const INSIDE = 1;
const MASK_UNKNOWN = 2;

function readRollout(data) {
  const texts = readTexts(data.tokens);
  return {
    signature: data.view.signature,
    texts,
    prompt: readTexts(data.prompt),
    inLoss: readMask(data.tokens),
    segments: data.view.segments,
    metrics: data.view.specs.map((spec) => readMetric(spec, data.metrics.getChild(spec.name))),
  };
}

function readTexts(table) {
  const column = table.getChild("text");
  return Array.from({ length: table.numRows }, (_, i) => column.get(i));
}

function readMask(table) {
  const column = table.getChild("in_loss");
  const codes = new Uint8Array(table.numRows);
  for (let i = 0; i < codes.length; i++) {
    const inside = column.get(i);
    codes[i] = inside === null ? MASK_UNKNOWN : inside ? INSIDE : OUTSIDE;
  }
  return codes;
}

/** `absent[i]` is 1 where the entry is null: toArray() alone would give such an entry some number. */
function readMetric(spec, column) {
  const values = column.length ? column.toArray() : new Float32Array(0);
  let absent = null;
  if (column.nullCount > 0) {
    absent = Uint8Array.from({ length: values.length }, (_, i) => (column.get(i) === null ? 1 : 0));
  }
  return { name: spec.name, spec, values, absent, scale: null, ranked: null };
}

function prepare(rollout, metric) {
  metric.scale ??= scaleOf(metric, rollout.inLoss);
  metric.ranked ??= rankPeaks(metric, metric.scale, rollout.inLoss);
  return metric;
}

/** A value in words: number with unit, or why there is none. */
function valueWords(metric, i, write) {
  if (isAbsent(metric, i)) return { text: "not recorded", unit: "" };
  const x = metric.values[i];
  if (metric.spec.kind === "flag" && (x === 0 || x === 1)) return { text: x ? "yes" : "no", unit: "" };
  return { text: write(x), unit: metric.spec.unit };
}

function percentileOf(rollout, metric, i) {
  if (metric.spec.kind === "flag" || isAbsent(metric, i)) return null;
  return percentile(prepare(rollout, metric).scale.sorted, metric.values[i]);
}

function segmentAt(rollout, i) {
  return rollout.segments.find((segment) => segment.start <= i && i < segment.end);
}
