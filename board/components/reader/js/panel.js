// The panel beside the text: the pinned token with all its values, and the ranked tokens.

const TOP_TOKENS = 50;
const CONTEXT_CHARACTERS = 34;

function fillPanel(view) {
  const { panel, root } = view.ui;
  root.classList.toggle("has-pin", view.pin !== null);
  const parts = view.pin === null ? [panelHint(view)] : pinnedParts(view, view.pin);
  if (view.metric && view.spans.length) parts.push(...topTokens(view));
  panel.replaceChildren(...parts);
  // Only where it was scrolled: setting it makes the browser lay out the whole page at once.
  if (view.panelIsScrolled) panel.scrollTop = 0;
  view.panelIsScrolled = false;
}

function panelHint(view) {
  const empty = !view.rollout.texts.length;
  return make("p", "hint", empty ? "" : "Click a token to pin it here with all its values.");
}

function pinnedParts(view, i) {
  const { rollout } = view;
  const head = make("div", "panel-head");
  const copy = makeButton("copy", "copy", "Copy index, text and values as JSON", () => copyToken(view, i, copy));
  const clear = makeButton("clear", "✕", "Unpin (Esc)", () => pin(view, null, { now: true }));
  head.append(make("strong", "pinned-index", `Token ${withThousands(i)}`));
  const id = rollout.ids?.(i) ?? null;
  if (id !== null) head.append(make("span", "note", `id ${id}`));
  head.append(make("span", "place", placeWords(view, i)), copy, clear);
  head.querySelector(".place").title = `by ${view.metric?.spec.label ?? ""}`;
  const notes = make("div", "notes");
  notes.append(...tokenNotes(view, i).map((note) => make("span", "note", visible(note))));
  const parts = [head, contextOf(rollout, i), notes];
  if (rollout.metrics.length) parts.push(groupedTable(view, i));
  return [...parts, ...alternativesTable(view, i, rollout.topk?.k ?? 0)];
}

/** Which of all tokens it is by the value that colours, such as "1st of 750". */
function placeWords({ rollout, metric }, i) {
  if (!metric || metric.spec.kind === "flag" || isAbsent(metric, i) || !metric.scale.span) return "";
  const x = metric.values[i];
  if (Number.isNaN(x) || rollout.inLoss[i] === OUTSIDE) return "";
  const own = metric.scale.strength(x);
  const stronger = metric.scale.sorted.reduce((n, y) => n + (metric.scale.strength(y) > own ? 1 : 0), 0);
  return `${ordinal(stronger + 1)} of ${withThousands(metric.scale.sorted.length)}`;
}

/** The token within the text around it, with its line breaks as signs. */
function contextOf({ texts }, i) {
  let [before, after] = ["", ""];
  for (let j = i - 1; j >= 0 && before.length < CONTEXT_CHARACTERS; j--) before = shownPart(texts[j]) + before;
  for (let j = i + 1; j < texts.length && after.length < CONTEXT_CHARACTERS; j++) after += shownPart(texts[j]);
  const box = make("div", "pinned-text");
  const own = make("b", "pinned-piece");
  fillText(own, texts[i]);
  const [first, last] = [before.length > CONTEXT_CHARACTERS, after.length > CONTEXT_CHARACTERS];
  const words = [...before].slice(-CONTEXT_CHARACTERS).join("");
  box.append((first ? "…" : "") + withSigns(words), own);
  box.append(withSigns([...after].slice(0, CONTEXT_CHARACTERS).join("")) + (last ? "…" : ""));
  return box;
}

function shownPart(text) {
  return text === PART ? "" : text;
}

function withSigns(text) {
  return visible(text).replaceAll("\n", "↵").replaceAll("\t", "→");
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
    make("span", "value", valueWords(metric, i).text),
  );
  return row;
}
