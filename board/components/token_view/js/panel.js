// The panel beside the text: the pinned token with its exact values, and the ranked tokens.

const TOP_TOKENS = 50;

function fillPanel(view) {
  if (view.linked) return;
  const { panel } = view.ui;
  const parts = view.pin === null ? [panelHint(view)] : pinnedParts(view, view.pin);
  if (view.metric && view.spans.length) parts.push(...topTokens(view));
  panel.replaceChildren(...parts);
  // Only where it was scrolled: setting it makes the browser lay out the whole page at once.
  if (view.panelIsScrolled) panel.scrollTop = 0;
  view.panelIsScrolled = false;
}

function panelHint(view) {
  const empty = !view.rollout.texts.length;
  return make("p", "hint", empty ? "" : "Click a token to pin it here with every exact value.");
}

function pinnedParts(view, i) {
  const { rollout } = view;
  const head = make("div", "panel-head");
  const copy = makeButton("copy", "copy", "Copy index, text and values as JSON", () => copyToken(view, i, copy));
  const clear = makeButton("clear", "✕", "Unpin (Esc)", () => pin(view, null, { now: true }));
  head.append(make("strong", "pinned-index", `Token ${withThousands(i)}`), copy, clear);
  const text = make("div", "pinned-text");
  fillText(text, rollout.texts[i]);
  const notes = make("div", "notes");
  const id = rollout.ids?.(i) ?? null;
  if (id !== null) notes.append(make("span", "note", `id ${id}`));
  notes.append(...tokenNotes(view, i).map((note) => make("span", "note", visible(note))));
  const parts = [head, text, notes, metricTable(view, i, exact)];
  return [...parts, ...alternativesTable(view, i, rollout.topk?.k ?? 0)];
}

function copyToken(view, i, button) {
  const values = Object.fromEntries(
    view.rollout.metrics.map((metric) => [
      metric.name,
      isAbsent(metric, i) || !Number.isFinite(metric.values[i]) ? null : Number(exact(metric.values[i])),
    ]),
  );
  const token = { index: i, id: view.rollout.ids?.(i) ?? null, text: view.rollout.texts[i], metrics: values };
  navigator.clipboard.writeText(JSON.stringify(token, null, 1)).then(
    () => (button.textContent = "copied"),
    () => (button.textContent = "copying is blocked"),
  );
}

function topTokens(view) {
  const { metric } = view;
  const title = make("div", "top-title", `Top tokens by ${metric.spec.label}`);
  const ranked = rankedOf(view.rollout, metric).slice(0, TOP_TOKENS);
  const none = metric.scale.sorted.length ? "No token stands out." : metric.scale.caption;
  if (!ranked.length) return [title, make("p", "hint", none)];
  const list = make("div", "top");
  for (const i of ranked) list.append(topRow(view, metric, i));
  return [title, list];
}

function topRow(view, metric, i) {
  const row = makeButton(i === view.pin ? "top-row chosen" : "top-row", undefined, "", () =>
    goTo(view, i, { now: true }),
  );
  row.append(
    make("span", "index", withThousands(i)),
    make("span", "piece", oneLine(view.rollout.texts[i], 24)),
    make("span", "value", valueWords(metric, i, readable).text),
  );
  return row;
}
