// The values of one token, metric by metric, with their place among the rollout's tokens.

/** A value in words: number with unit, or why there is none. */
function valueWords(metric, i) {
  if (isAbsent(metric, i)) return { text: "not recorded", unit: "" };
  const x = metric.values[i];
  if (metric.spec.kind === "flag" && (x === 0 || x === 1)) return { text: x ? "yes" : "no", unit: "" };
  return { text: readable(x), unit: metric.spec.unit };
}

/** The metrics by their headings, in the menu's order: [heading, metrics] each. */
function metricGroups(rollout) {
  const groups = new Map();
  for (const metric of rollout.metrics) {
    const { group } = metric.spec;
    groups.set(group, [...(groups.get(group) ?? []), metric]);
  }
  return [...groups];
}

/** The options of a menu of metrics; without a heading where there is only one. */
function metricOptions(rollout) {
  const groups = metricGroups(rollout).map(([heading, metrics]) => {
    const group = make("optgroup");
    group.label = heading;
    group.append(...metrics.map((metric) => metricOption(rollout, metric)));
    return group;
  });
  return groups.length > 1 ? groups : groups.flatMap((group) => [...group.children]);
}

function metricOption(rollout, metric) {
  const recorded = metric.absent === null || metric.absent.includes(0);
  const option = make("option", "", metric.spec.label + (recorded ? "" : " (not recorded)"));
  option.value = rollout.metrics.indexOf(metric);
  return option;
}

function percentileOf(rollout, metric, i) {
  if (metric.spec.kind === "flag" || isAbsent(metric, i)) return null;
  return percentile(prepare(rollout, metric).scale.sorted, metric.values[i]);
}

function metricRow(view, metric, i, name) {
  const row = make("tr", metric === view.metric ? "metric chosen" : "metric");
  const label = make("td", "label", name);
  label.title = [metric.spec.label, metric.spec.formula].filter(Boolean).join("\n");
  const { text, unit } = valueWords(metric, i);
  const absent = isAbsent(metric, i);
  const value = make("td", absent ? "value missing" : "value", text);
  value.title = absent ? text : [exact(metric.values[i]), unit].filter(Boolean).join(" ");
  row.append(label, value, ...percentileCells(view, metric, i));
  return row;
}

/** Where the value stands among the rollout's: as a bar, and as a number. */
function percentileCells(view, metric, i) {
  const [bar, number] = [make("td", "gauge-cell"), make("td", "rank")];
  const rank = percentileOf(view.rollout, metric, i);
  if (rank === null) return [bar, number];
  const gauge = make("span", "gauge");
  const fill = make("span", "fill");
  fill.style.width = `${rank}%`;
  gauge.append(fill);
  bar.append(gauge);
  number.textContent = String(Math.round(rank));
  bar.title = number.title = `percentile ${rank.toFixed(1)} of this rollout's tokens`;
  return [bar, number];
}

function metricTable(rows) {
  const table = make("table", "metrics");
  const widths = make("colgroup");
  widths.append(...["", "of-value", "of-gauge", "of-rank"].map((name) => make("col", name)));
  table.append(widths, ...rows);
  return table;
}

/** Every metric below its group's heading; with its share of the rollout's KL where that is a sum. */
function groupedTable(view, i) {
  const rows = metricGroups(view.rollout).flatMap(([heading, metrics]) => {
    const own = metrics.map((metric) => metricRow(view, metric, i, metric.spec.short || metric.spec.label));
    const share = shareRow(view, metrics, i);
    return [groupRow(heading, metrics), ...own, ...share];
  });
  return metricTable(rows);
}

function groupRow(heading, metrics) {
  const row = make("tr", "group");
  const title = make("th", "heading", heading);
  const units = new Set(metrics.map(({ spec }) => spec.unit));
  const [unit] = units;
  if (units.size === 1 && unit) title.append(make("span", "unit", ` ${unit}`));
  const isRanked = metrics.some(({ spec }) => spec.kind !== "flag");
  const percentiles = make("th", "percentiles", isRanked ? "percentile" : "");
  title.colSpan = percentiles.colSpan = 2;
  row.append(title, percentiles);
  return row;
}

/** How much of the rollout's k3 this token is. */
function shareRow(view, metrics, i) {
  const k3 = metrics.find(({ name }) => name === "k3");
  if (!k3 || isAbsent(k3, i) || view.rollout.inLoss[i] === OUTSIDE) return [];
  const { sorted } = prepare(view.rollout, k3).scale;
  const total = sorted.reduce((sum, x) => sum + x, 0);
  if (!(total > 0) || !Number.isFinite(k3.values[i])) return [];
  const row = make("tr", "metric");
  const label = make("td", "label", "share of this rollout");
  label.title = "k3 of this token / sum of k3 over the tokens in the loss";
  row.append(label, make("td", "value share-of", percent(k3.values[i] / total)), make("td"), make("td"));
  return [row];
}

/** The likeliest tokens at this place, with their probabilities; nothing where none are recorded. */
function alternativesTable(view, i, most) {
  const found = alternatives(view.rollout, i).sort((a, b) => b.logprob - a.logprob);
  if (!found.length) return [];
  const table = make("table", "alternatives");
  const head = make("tr", "group");
  const title = make("th", "heading", "Alternatives");
  title.colSpan = 2;
  head.append(title, make("th", "percentiles", "probability"));
  table.append(head);
  for (const { text, logprob } of found.slice(0, most)) {
    const row = make("tr", text === view.rollout.texts[i] ? "taken" : "");
    const share = make("td", "share");
    const bar = make("span", "bar-fill");
    bar.style.width = `${Math.min(100, 100 * Math.exp(logprob))}%`;
    share.append(bar);
    const value = make("td", "value", readable(Math.exp(logprob)));
    value.title = `log-probability ${readable(logprob)} nats`;
    row.append(make("td", "piece", oneLine(text, 24)), share, value);
    table.append(row);
  }
  return [table];
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
    view.rollout.texts[i] === PART && "part of a character that a later token completes",
  ].filter(Boolean);
}
