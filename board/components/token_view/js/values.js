// The values of one token, metric by metric, with their place among the rollout's tokens.

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

function metricRows(view, i, write) {
  return view.rollout.metrics.map((metric) => {
    const row = make("tr", metric === view.metric ? "chosen" : "");
    const label = make("td", "label", metric.spec.label);
    label.title = [metric.spec.label, metric.spec.formula].filter(Boolean).join("\n");
    const { text, unit } = valueWords(metric, i, write);
    const absent = isAbsent(metric, i);
    const value = make("td", absent ? "value missing" : "value", text);
    value.title = absent ? text : exact(metric.values[i]);
    const measure = make("td", "unit", unit);
    row.append(label, value, measure, percentileCell(view, metric, i));
    return row;
  });
}

function percentileCell(view, metric, i) {
  const cell = make("td", "percentile");
  const rank = percentileOf(view.rollout, metric, i);
  if (rank === null) return cell;
  const gauge = make("span", "gauge");
  const fill = make("span", "fill");
  fill.style.width = `${rank}%`;
  gauge.append(fill);
  cell.append(gauge, make("span", "rank", String(Math.round(rank))));
  cell.title = `percentile ${rank.toFixed(1)} of this rollout's tokens`;
  return cell;
}

function metricTable(view, i, write) {
  const table = make("table", "metrics");
  const head = make("tr");
  head.append(make("th"), make("th", "", "value"), make("th"), make("th", "", "percentile"));
  table.append(head, ...metricRows(view, i, write));
  return table;
}

/** The likeliest tokens at this place, with their probabilities; nothing where none are recorded. */
function alternativesTable(view, i, most) {
  const found = alternatives(view.rollout, i).sort((a, b) => b.logprob - a.logprob);
  if (!found.length) return [];
  const table = make("table", "alternatives");
  for (const { text, logprob } of found.slice(0, most)) {
    const row = make("tr", text === view.rollout.texts[i] ? "taken" : "");
    const share = make("td", "share");
    const bar = make("span", "bar-fill");
    bar.style.width = `${Math.min(100, 100 * Math.exp(logprob))}%`;
    share.append(bar);
    row.append(
      make("td", "piece", oneLine(text, 24)),
      share,
      make("td", "value", readable(Math.exp(logprob))),
      make("td", "unit", `${readable(logprob)} nats`),
    );
    table.append(row);
  }
  return [make("div", "alternatives-title", "Likeliest here: probability, log-probability"), table];
}

function tokenNotes(view, i) {
  const { inLoss } = view.rollout;
  const segment = segmentAt(view.rollout, i);
  const isLost = isSurplus(view.rollout, i);
  return [
    segment?.role && [segment.role, segment.name].filter(Boolean).join(" "),
    isLost && "a value without a token",
    !isLost && inLoss[i] === OUTSIDE && "outside the loss",
    inLoss[i] === MASK_UNKNOWN && "loss mask not recorded here",
    view.divergesAt === i && "first difference",
    view.rollout.texts[i] === PART && "part of a character that a later token completes",
  ].filter(Boolean);
}
