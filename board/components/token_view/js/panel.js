// What is said about one token: the tip under the pointer and the panel of the pinned one.

const TOP_TOKENS = 12;

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
  table.append(head);
  table.append(...metricRows(view, i, write));
  return table;
}

function tokenNotes(view, i) {
  const { inLoss } = view.rollout;
  const segment = segmentAt(view.rollout, i);
  return [
    segment?.role && [segment.role, segment.name].filter(Boolean).join(" "),
    inLoss[i] === OUTSIDE && "outside the loss",
    inLoss[i] === MASK_UNKNOWN && "loss mask not recorded here",
  ].filter(Boolean);
}

function fillTip(view, i) {
  const head = make("div", "tip-head");
  head.append(make("span", "index", `#${withThousands(i)}`));
  head.append(make("span", "piece", oneLine(view.rollout.texts[i], 60)));
  const notes = tokenNotes(view, i).map((note) => make("span", "note", note));
  head.append(...notes);
  view.ui.tip.replaceChildren(head, metricTable(view, i, readable));
}

/** Beside the pointer and over the text, flipped to the side of the window that has room. */
function placeTip(view, event) {
  const { tip, root, flow } = view.ui;
  const frame = root.getBoundingClientRect();
  const limit = flow.getBoundingClientRect().right;
  const [x, y] = [event.clientX, event.clientY];
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 16 + width <= limit ? x + 16 : Math.min(x - 16, limit) - width;
  const below = y + 20 + height <= window.innerHeight;
  const above = y - 14 - height >= 0;
  const top = below ? y + 20 : above ? y - 14 - height : Math.max(0, window.innerHeight - height);
  tip.style.left = `${Math.max(0, left - frame.left)}px`;
  tip.style.top = `${top - frame.top}px`;
}

function fillPanel(view) {
  const { panel } = view.ui;
  const parts = view.pin === null ? [panelHint(view)] : pinnedParts(view, view.pin);
  if (view.metric && view.spans.length) parts.push(...topTokens(view));
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
}

function panelHint(view) {
  const empty = !view.rollout.texts.length;
  return make("p", "hint", empty ? "" : "Click a token to pin it here with every exact value.");
}

function pinnedParts(view, i) {
  const head = make("div", "panel-head");
  const copy = make("button", "copy", "copy");
  copy.type = "button";
  copy.title = "Copy index, text and values as JSON";
  copy.onclick = () => copyToken(view, i, copy);
  const clear = make("button", "clear", "✕");
  clear.type = "button";
  clear.title = "Unpin (Esc)";
  clear.onclick = () => pin(view, null, { now: true });
  head.append(make("strong", "pinned-index", `Token ${withThousands(i)}`), copy, clear);
  const text = make("div", "pinned-text");
  fillText(text, view.rollout.texts[i]);
  const notes = make("div", "notes");
  notes.append(...tokenNotes(view, i).map((note) => make("span", "note", note)));
  return [head, text, notes, metricTable(view, i, exact)];
}

function copyToken(view, i, button) {
  const values = Object.fromEntries(
    view.rollout.metrics.map((metric) => [
      metric.name,
      isAbsent(metric, i) ? null : Number(exact(metric.values[i])),
    ]),
  );
  const token = { index: i, text: view.rollout.texts[i], metrics: values };
  navigator.clipboard.writeText(JSON.stringify(token, null, 1)).then(
    () => (button.textContent = "copied"),
    () => (button.textContent = "copying is blocked"),
  );
}

function topTokens(view) {
  const { metric, rollout } = view;
  const title = make("div", "top-title", `Top tokens by ${metric.spec.label}`);
  const ranked = metric.ranked.slice(0, TOP_TOKENS);
  const none = metric.scale.sorted.length ? "No token stands out." : metric.scale.caption;
  if (!ranked.length) return [title, make("p", "hint", none)];
  const list = make("div", "top");
  for (const i of ranked) {
    const row = make("button", i === view.pin ? "top-row chosen" : "top-row");
    row.type = "button";
    row.append(
      make("span", "index", withThousands(i)),
      make("span", "piece", oneLine(rollout.texts[i], 24)),
      make("span", "value", valueWords(metric, i, readable).text),
    );
    row.onclick = () => goTo(view, i, { now: true });
    list.append(row);
  }
  return [title, list];
}
