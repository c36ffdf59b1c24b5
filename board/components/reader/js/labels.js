// Labels of people: keys 1 to 9 for the rollout, or for the tokens that are selected, and m for a note.

const AUTHOR_KEY = "rollout-board.author";
const LABELS_OPEN_KEY = "rollout-board.labels";
const LONGEST_AUTHOR = 40;

function author(view) {
  return stored(AUTHOR_KEY, "") || view.labels.author;
}

/** The row of labels; null where there is nobody to write them. What is being written there stays. */
function fillLabels(view, labels) {
  view.served = labels;
  if (!isWritingLabel(view)) showOutbox(view);
}

/** Another rollout takes the place of the one that a note is written on: the note is of this one. */
function endWriting({ ui, place }, next) {
  if (JSON.stringify(place) !== JSON.stringify(next)) ui.labels.querySelector("input:focus")?.blur();
}

/** The labels that the server knows, and those on their way. */
function showOutbox(view) {
  if (!view.rollout) return;
  view.labels = view.served && withSent(view);
  view.ui.labelButton.hidden = !view.labels;
  if (!view.labels) view.ui.labels.hidden = true;
  else drawLabels(view);
}

/** What the entries that the server's labels lack make of them, as the server will. */
function withSent({ served, place }) {
  const labels = structuredClone(served);
  for (const one of OUTBOX.of(served.run, served.received)) {
    if (!labels.undoable.includes(one.author)) labels.undoable.push(one.author);
    if (one.step !== place.step || one.index !== place.index) continue;
    const own = (labels.authors[one.author] ??= { label: "", note: "" });
    if (one.kind === "label") own.label = own.label === one.value ? "" : one.value;
    if (one.kind === "note") own.note = one.value;
    if (one.kind !== "span") continue;
    labels.spans = labels.spans.filter(({ first, last, author: by }) => first !== one.first || last !== one.last || by !== one.author);
    if (one.value) labels.spans.push({ first: one.first, last: one.last, label: one.value, author: one.author });
  }
  return labels;
}

function ownLabels(view) {
  return view.labels.authors[author(view)] ?? { label: "", note: "" };
}

function hasLabels({ labels }) {
  return labels.spans.length > 0 || Object.values(labels.authors).some(({ label, note }) => label || note);
}

function drawLabels(view) {
  const { labels, ui } = view;
  const refused = OUTBOX.refused(labels.run);
  const shown = hasLabels(view) || refused.length > 0 || labels.isSample || stored(LABELS_OPEN_KEY, false);
  ui.labels.hidden = !shown;
  ui.labelButton.setAttribute("aria-pressed", String(shown));
  markSpans(view);
  if (!shown) return;
  const own = ownLabels(view);
  const parts = labels.names.map(({ name, meaning }, place) => {
    const button = makeButton("label", visible(name), [`Label as ${visible(name)} (${place + 1})`, visible(meaning)].filter(Boolean).join("\n"), () => setLabel(view, name));
    button.prepend(make("kbd", "", String(place + 1)));
    button.setAttribute("aria-pressed", String(own.label === name));
    return button;
  });
  if (own.label && !labels.names.some(({ name }) => name === own.label)) {
    const other = makeButton("label", visible(own.label), "Remove this label", () => setLabel(view, own.label));
    other.setAttribute("aria-pressed", "true");
    parts.push(other);
  }
  parts.push(noteField(view, own), ...otherLabels(view), ...spanChips(view));
  parts.push(make("span", "space"), authorField(view), undoButton(view));
  if (refused.length) parts.push(refusedNote(refused));
  ui.labels.replaceChildren(...parts);
}

/** What could not be stored, why, and what to do about it. */
function refusedNote(refused) {
  const note = make("div", "refused-note");
  note.setAttribute("role", "alert");
  const places = refused.map(({ kind, value, step, index }) => `${visible(oneLine(value || kind, 40))} of step ${step}, rollout ${index}`);
  const shown = places.slice(0, 3).join("; ") + (places.length > 3 ? `; and ${places.length - 3} more` : "");
  note.append(make("span", "", `Not stored: ${shown}. ${visible(refused.at(-1).reason)}`));
  note.append(makeButton("", "Try again", "Send them once more", () => OUTBOX.retry()));
  note.append(makeButton("", "Discard", "Forget them", () => OUTBOX.discard()));
  return note;
}

function noteField(view, own) {
  const note = make("input", "note");
  note.value = own.note;
  note.placeholder = "note (m)";
  note.maxLength = 10000;
  note.setAttribute("aria-label", "Note on this rollout");
  note.onkeydown = (event) => {
    if (event.key === "Enter") note.blur();
    if (event.key === "Escape") {
      note.value = own.note;
      note.blur();
    }
  };
  note.onblur = () => {
    if (note.value !== own.note) send(view, { kind: "note", value: note.value });
    else if (note.isConnected) showOutbox(view);
  };
  return note;
}

/** What others say; of a sample only after one's own label, which it would sway. */
function otherLabels(view) {
  if (isBlind(view)) return [];
  const others = Object.entries(view.labels.authors).filter(([name]) => name !== author(view));
  return others
    .filter(([, { label, note }]) => label || note)
    .map(([name, { label, note }]) => {
      const words = [label && visible(label), note && `“${oneLine(note, 60)}”`].filter(Boolean).join(" ");
      const chip = make("span", "other", `${visible(name)}: ${words}`);
      chip.title = note ? visible(note) : "";
      return chip;
    });
}

function isBlind(view) {
  return view.labels.isSample && !ownLabels(view).label;
}

function shownSpans(view) {
  return view.labels.spans.filter((span) => span.author === author(view) || !isBlind(view));
}

function spanChips(view) {
  if (view.rollout.turns) return [];
  return shownSpans(view).map(({ first, last, label, author: by }) => {
    const place = first === last ? `token ${first}` : `tokens ${first}–${last}`;
    const chip = make("span", "span-chip");
    chip.append(makeButton("", `${place}: ${visible(label)}`, `By ${visible(by)}: go there`, () => goTo(view, first)));
    if (by === author(view)) {
      chip.append(makeButton("remove", "×", "Remove this label", () => sendSpan(view, [first, last], "")));
    }
    return chip;
  });
}

function authorField(view) {
  const field = make("input", "author");
  field.value = author(view);
  field.title = "Who labels: remembered by this browser";
  field.setAttribute("aria-label", "Author of the labels");
  field.maxLength = LONGEST_AUTHOR;
  field.onkeydown = (event) => event.key === "Enter" && field.blur();
  field.onblur = () => {
    store(AUTHOR_KEY, field.value.trim());
    drawLabels(view);
  };
  return field;
}

function undoButton(view) {
  const button = makeButton("undo", "Undo", "Undo your last label in this run (u)", () => undoLabel(view));
  button.disabled = !view.labels.undoable.includes(author(view));
  return button;
}

function undoLabel(view) {
  if (view.labels?.undoable.includes(author(view))) send(view, { kind: "undo", value: "" });
}

/** The same label again removes it. Selected tokens are labelled in place of the rollout. */
function setLabel(view, name) {
  const span = selectedTokens(view);
  if (span) sendSpan(view, span, name);
  else send(view, { kind: "label", value: name });
}

function sendSpan(view, [first, last], value) {
  send(view, { kind: "span", value, first, last });
  document.getSelection()?.removeAllRanges();
}

/** A label is of the rollout that is chosen now, also where its text is still awaited. */
function send(view, entry) {
  store(LABELS_OPEN_KEY, true);
  const { step, index } = isAwaiting(view) ? view.awaited : view.place;
  OUTBOX.add({ ...entry, author: author(view), run: view.labels.run, root: view.labels.root, step, index });
}

/** First and last token of the browser's selection; null without one. */
function selectedTokens(view) {
  if (view.rollout.turns || isAwaiting(view)) return null;
  const root = view.ui.root.getRootNode();
  const selection = root.getSelection?.() ?? document.getSelection();
  if (!selection || selection.isCollapsed) return null;
  const ends = [selection.anchorNode, selection.focusNode].map((node) => tokenAt(node?.nodeType === Node.TEXT_NODE ? node.parentElement : node));
  return ends.includes(undefined) ? null : [Math.min(...ends), Math.max(...ends)];
}

/** The action of a key: a digit labels, with Shift the pinned token. */
function labelAction(view, event) {
  if (!view.labels || event.repeat) return undefined;
  // Without NumLock the keys at the side are arrows.
  const isDigit = event.code.startsWith("Digit") || /^[1-9]$/.test(event.key);
  const digit = isDigit && /^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1];
  const name = digit && view.labels.names[digit - 1]?.name;
  if (!name) return undefined;
  if (!event.shiftKey) return () => setLabel(view, name);
  return view.pin === null || isAwaiting(view) ? undefined : () => sendSpan(view, [view.pin, view.pin], name);
}

function writeNote(view) {
  if (!view.labels) return;
  store(LABELS_OPEN_KEY, true);
  drawLabels(view);
  view.ui.labels.querySelector(".note").focus();
}

function toggleLabels(view) {
  if (!view.labels) return;
  store(LABELS_OPEN_KEY, view.ui.labels.hidden);
  drawLabels(view);
}

/** Whether a note or the author is being written, which what Python sends must not disturb. */
function isWritingLabel({ ui }) {
  return Boolean(ui.labels.querySelector("input:focus"));
}

function markSpans(view) {
  const wanted = new Set();
  if (!view.rollout.turns) {
    for (const { first, last } of shownSpans(view)) {
      for (let i = Math.max(first, 0); i <= last && i < view.marks.length; i++) wanted.add(i);
    }
  }
  const before = view.labelled ?? new Set();
  for (const i of before) if (!wanted.has(i)) setMark(view, i, LABELLED, false);
  for (const i of wanted) setMark(view, i, LABELLED, true);
  view.labelled = wanted;
}
