// Selected text leads to all rollouts that hold it: a button beside the selection, and the key a.

const LONGEST_ALIKE = 500;
const CODE = /⟨([0-9A-F]{4,6})⟩/g;

function bindAlike(view) {
  const { root } = view.ui;
  const button = makeButton("alike", "All rollouts with this", "List all rollouts with the selected text (a)", () => askAlike(view));
  button.append(make("kbd", "", "A"));
  button.hidden = true;
  // A press that takes the focus would end the selection.
  button.onmousedown = (event) => event.preventDefault();
  root.append(button);
  const place = () => placeAlike(view, button);
  document.addEventListener("selectionchange", place);
  return () => document.removeEventListener("selectionchange", place);
}

/** The browser's selection in the text of the rollout; null without one. */
function selectionIn(view) {
  const root = view.ui.root.getRootNode();
  const selection = root.getSelection?.() ?? document.getSelection();
  if (!selection || selection.isCollapsed || !selection.rangeCount) return null;
  return view.ui.flow.contains(selection.anchorNode) && view.ui.flow.contains(selection.focusNode) ? selection : null;
}

/** The selected text as it was recorded: signs for what is invisible are what they stand for. */
function selectedText(view) {
  const text = selectionIn(view)?.toString() ?? "";
  const recorded = text.replace(CODE, (code, hex) => (parseInt(hex, 16) <= 0x10ffff ? String.fromCodePoint(parseInt(hex, 16)) : code));
  return recorded.trim() ? recorded.slice(0, LONGEST_ALIKE).toWellFormed() : "";
}

/** Whether there is a list to lead to: an exported page has none, and of text that is awaited none is known. */
function canList(view) {
  return Boolean(view.labels) && !isAwaiting(view);
}

function placeAlike(view, button) {
  const text = canList(view) ? selectedText(view) : "";
  button.hidden = !text;
  if (!text) return;
  const [own, frame] = [selectionIn(view).getRangeAt(0).getBoundingClientRect(), view.ui.root.getBoundingClientRect()];
  const flow = view.ui.flow.getBoundingClientRect();
  const top = Math.min(Math.max(own.bottom + 4, flow.top), flow.bottom - button.offsetHeight - 4);
  const left = Math.min(Math.max(own.left, flow.left), flow.right - button.offsetWidth - 16);
  button.style.top = `${top - frame.top}px`;
  button.style.left = `${left - frame.left}px`;
}

/** Asks for the list; false where no text is selected. */
function askAlike(view) {
  const text = canList(view) ? selectedText(view) : "";
  if (text) view.trigger("alike", text);
  return Boolean(text);
}
