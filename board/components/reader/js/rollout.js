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
    prompt: readPrompt(data),
    inLoss: readMask(data.tokens, view.surplus),
    segments: view.segments,
    metrics: view.specs.map((spec) => readMetric(spec, data.metrics.getChild(spec.name))),
    topk: readTopK(data, view.topk),
    rules: view.rules,
    recordedMasks: view.recordedMasks,
    advantage: view.advantage,
    clip: view.clip,
    turns: view.turns,
    errorRule: view.errorRule,
    messages: view.messages,
    starts: null,
  };
}

/** A column of texts. Decoded chunk by chunk and then cut: one by one takes many times as long. */
function readTexts(table, name) {
  return table.getChild(name).data.flatMap(({ values, valueOffsets, length }) => {
    if (!length) return [];
    const bytes = values.subarray(valueOffsets[0], valueOffsets[length]);
    // A byte order mark may be a token too.
    const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    const cuts = charactersBefore(bytes, valueOffsets.subarray(0, length + 1), whole.length);
    return Array.from({ length }, (_, i) => whole.slice(cuts[i], cuts[i + 1]));
  });
}

/** Offsets in bytes as offsets in the characters (UTF-16 units) of the decoded text. */
function charactersBefore(bytes, offsets, characters) {
  if (characters === bytes.length) return offsets.map((offset) => offset - offsets[0]);
  let [at, units] = [0, 0];
  return offsets.map((offset) => {
    for (; at < offset - offsets[0]; at++) {
      // Bytes 10xxxxxx continue a character; characters of four bytes take two units.
      if ((bytes[at] & 0xc0) !== 0x80) units += bytes[at] >= 0xf0 ? 2 : 1;
    }
    return units;
  });
}

function readIds(table) {
  const column = table.getChild("id");
  return column.nullCount === table.numRows ? null : (i) => column.get(i);
}

/** The prompt's parts in order; `tokens` is null where they are not recorded. */
function readPrompt(data) {
  const [texts, roles, names] = ["text", "role", "name"].map((name) => readTexts(data.prompt, name));
  const sizes = data.prompt.getChild("tokens");
  const tokens = readTexts(data.prompt_tokens, "text");
  const idOf = readIds(data.prompt_tokens);
  let first = 0;
  return texts.map((text, rank) => {
    const part = { role: roles[rank], name: names[rank], text, tokens: null, first, idOf };
    if (sizes.get(rank) === null) return part;
    part.tokens = tokens.slice(first, first + sizes.get(rank));
    part.text = part.tokens.filter((token) => token !== PART).join("");
    first += part.tokens.length;
    return part;
  });
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
    absent = new Uint8Array(values.length);
    for (let i = 0; i < absent.length; i++) absent[i] = column.get(i) === null ? 1 : 0;
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
  metric.levels ??= levelsOf(metric, rollout.inLoss);
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
