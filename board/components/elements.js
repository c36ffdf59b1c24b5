// Elements of what components draw. Texts are text nodes, never markup.

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function makeButton(className, text, title) {
  const button = make("button", className, text);
  button.type = "button";
  if (title) button.title = title;
  return button;
}

/** Whether a key was pressed in a field, where it is a letter. */
function isTyping(event) {
  const target = event.composedPath()[0];
  return target.matches?.("input, textarea, select, [contenteditable]") || event.isComposing;
}
