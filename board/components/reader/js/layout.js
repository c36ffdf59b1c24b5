// What stands beside the text, and how the text is set.

// As in narrow.css.
const NARROW = 660;

/** Whether outline or details stand beside the text. In a narrow place, where they would cover it, only
 * where they were asked for since the rollout was opened. */
function isAtSide(view, name) {
  return isNarrow(view) ? view.aside === name : prefers(view, name);
}

function setAtSide(view, name, shown) {
  if (isNarrow(view)) view.aside = shown ? name : null;
  else remember(view, name, shown);
}

function isNarrow(view) {
  return view.ui.root.clientWidth < NARROW;
}

function toggleTextStyle(view, name) {
  remember(view, name, !prefers(view, name));
  keepPlace(view, () => showTextStyle(view));
  afterFolding(view);
}

/** Full screen, with what is at the top left there. */
function setFullHere(view, full) {
  keepPlace(view, () => setFull(view, full));
}

function bindLayout(view) {
  const { ui } = view;
  ui.wrap.onclick = () => toggleTextStyle(view, "wrap");
  ui.mono.onclick = () => toggleTextStyle(view, "mono");
  ui.fullButton.onclick = () => setFullHere(view, !isFull(view));
  ui.detailsButton.onclick = () => toggleDetails(view);
  ui.outlineButton.onclick = () => toggleOutline(view);
  ui.foldTool.onclick = () => foldAll(view, "tool");
  ui.foldThinking.onclick = () => foldAll(view, "thinking");
}

function toggleOutline(view) {
  setAtSide(view, "outline", view.ui.outline.hidden);
  fillOutline(view);
}
