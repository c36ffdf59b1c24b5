// The keyboard: what each key does in the reader, from its own parts and from the page.

/** Keys from the page: while another rollout is awaited those wait that act on what is shown. */
function takeReaderKey(view, pressed) {
  const label = labelAction(view, pressed);
  const action = label ?? flowAction(view, pressed, !pressed.path.includes(view.ui.root));
  if (!action) return false;
  if (!label && isAwaiting(view)) return "later";
  action();
  return true;
}

function onKey(view, event) {
  const field = event.target.closest?.("input, select, button");
  // Page-wide shortcuts listen on the document and would fire while a user types here.
  if (field && field.tagName !== "BUTTON") event.stopPropagation();
  // While another rollout is awaited, keys are the page's, which keeps them until it is there.
  if (event.ctrlKey || event.metaKey || event.altKey || isAwaiting(view)) return;
  const action = field ? fieldAction(view, event, field) : flowAction(view, event);
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}

function fieldAction(view, event, field) {
  // A button needs Enter and Space for itself, a field every key.
  return field.tagName === "BUTTON" && event.key !== "Enter" && event.key !== " "
    ? flowAction(view, event)
    : undefined;
}

/** What a key does; `fromPage`: no part of the reader has the focus, so that arrows are others'. */
function flowAction(view, event, fromPage = false) {
  const label = labelAction(view, event);
  if (label) return label;
  const plain = PLAIN_KEYS[event.key];
  if (plain) return () => plain(view);
  if (event.key === "Escape") return escapeAction(view);
  return fromPage || view.rollout?.turns ? undefined : tokenAction(view, event.key);
}

const PLAIN_KEYS = {
  n: (view) => nextMark(view, 1),
  p: (view) => nextMark(view, -1),
  "]": (view) => nextSection(view, 1),
  "[": (view) => nextSection(view, -1),
  "/": (view) => view.ui.find.focus(),
  f: (view) => setFullHere(view, !isFull(view)),
  t: (view) => foldAll(view, "tool"),
  h: (view) => foldAll(view, "thinking"),
  w: (view) => toggleTextStyle(view, "wrap"),
  W: (view) => toggleTextStyle(view, "mono"),
  m: (view) => writeNote(view),
  l: (view) => toggleLabels(view),
  u: (view) => undoLabel(view),
  i: (view) => toggleDetails(view),
  a: (view) => askAlike(view),
  c: (view) => toggleMenu(view.menu, view.ui.compareButton),
};

/** Through the matches of a search, else through the peaks. */
function nextMark(view, direction) {
  if (isSearching(view)) return nextHit(view, direction);
  if (view.rollout.turns) return;
  goToPeak(view, direction);
  // The arrows move the token from here.
  view.ui.flow.focus({ preventScroll: true });
}

/** What Escape closes, the innermost first. */
function escapeAction(view) {
  const { ui, rollout } = view;
  if (!ui.copyMenu.hidden) return () => openCopyMenu(view, false);
  if (ui.find.value) return () => endFind(view);
  if (view.pin !== null && !rollout.turns) return () => pin(view, null, { now: true });
  if (isFull(view)) return () => setFullHere(view, false);
  return undefined;
}

function tokenAction(view, key) {
  const step = (i) => () => goTo(view, i);
  const from = view.pin;
  switch (key) {
    case "ArrowRight":
      return step(from === null ? 0 : from + 1);
    case "ArrowLeft":
      return step(from === null ? view.spans.length - 1 : from - 1);
    case "ArrowDown":
    case "ArrowUp": {
      // Without a pinned token the arrows scroll, as they do everywhere.
      const direction = key === "ArrowDown" ? 1 : -1;
      return from === null ? undefined : () => goTo(view, tokenOnLine(view, from, direction) ?? from);
    }
    default:
      return undefined;
  }
}
