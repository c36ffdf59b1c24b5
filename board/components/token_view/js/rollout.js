// The Arrow tables of one rollout as plain arrays.

const OUTSIDE = 0;
const INSIDE = 1;
const MASK_UNKNOWN = 2;

function readRollout(data) {
  const { view } = data;
  const texts = readTexts(data.tokens, "text");
  return {
    signature: view.signature,
    texts,
    ids: readIds(data.tokens),
    surplus: view.surplus,
    unit: view.unit,
    prompt: readPrompt(data.prompt),
    inLoss: readMask(data.tokens, view.surplus),
    segments: view.segments,
    metrics: view.specs.map((spec) => readMetric(spec, data.metrics.getChild(spec.name))),
    topk: readTopK(data, view.topk),
    rules: view.rules,
    advantage: view.advantage,
    clip: view.clip,
    starts: null,
  };
}

function readTexts(table, name) {
  const column = table.getChild(name);
  return Array.from({ length: table.numRows }, (_, i) => column.get(i));
}

function readIds(table) {
  const column = table.getChild("id");
  return column.nullCount === table.numRows ? null : (i) => column.get(i);
}

function readPrompt(table) {
  const columns = ["text", "role", "name", "tokens"].map((name) => readTexts(table, name));
  return columns[0].map((text, i) => ({
    text,
    role: columns[1][i],
    name: columns[2][i],
    tokens: columns[3][i],
  }));
}

/** A value without a token is no token in the loss. */
function readMask(table, surplus) {
  const column = table.getChild("in_loss");
  const codes = new Uint8Array(table.numRows);
  for (let i = 0; i < codes.length - surplus; i++) {
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
  return { name: spec.name, spec, values, absent, scale: null, levels: null, ranked: null };
}

function readTopK(data, k) {
  if (!k) return null;
  return {
    k,
    texts: readTexts(data.topk_texts, "text"),
    places: data.topk.getChild("place").toArray(),
    logprobs: data.topk.getChild("logprob").toArray(),
  };
}

/** The recorded alternatives of token i that have a log-probability, as {text, logprob}. */
function alternatives(rollout, i) {
  const { topk } = rollout;
  const found = [];
  if (!topk) return found;
  for (let j = i * topk.k; j < (i + 1) * topk.k; j++) {
    const logprob = topk.logprobs[j];
    if (Number.isNaN(logprob)) continue;
    found.push({ text: topk.places[j] < 0 ? "⟨?⟩" : topk.texts[topk.places[j]], logprob });
  }
  return found;
}

function prepare(rollout, metric) {
  metric.scale ??= scaleOf(metric, rollout.inLoss);
  metric.levels ??= levelsOf(metric);
  return metric;
}

function rankedOf(rollout, metric) {
  metric.ranked ??= rankPeaks(metric, prepare(rollout, metric).scale, rollout.inLoss);
  return metric.ranked;
}

function metricNamed(rollout, name) {
  return rollout.metrics.find((metric) => metric.name === name);
}

/** Where each token begins in the joined text, and its length at the end: one entry more than tokens. */
function startsOf(rollout) {
  if (!rollout.starts) {
    rollout.starts = new Float64Array(rollout.texts.length + 1);
    rollout.texts.forEach((text, i) => {
      rollout.starts[i + 1] = rollout.starts[i] + (text === PART ? 0 : text.length);
    });
  }
  return rollout.starts;
}

function isSurplus(rollout, i) {
  return i >= rollout.texts.length - rollout.surplus;
}

function segmentAt(rollout, i) {
  return rollout.segments.find((segment) => segment.start <= i && i < segment.end);
}
