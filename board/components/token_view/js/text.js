// Model text on screen: always as text nodes, with every invisible character made visible.

// Control, soft hyphen, odd spaces, zero-width, bidi and tag characters.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
const BREAKS = /(\n|\t)/;

function visible(text) {
  return text.replace(
    INVISIBLE,
    (char) => `⟨${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

/** One line for titles and lists: breaks as signs, cut at `limit` characters. */
function oneLine(text, limit) {
  const line = visible(text.slice(0, limit)).replaceAll("\n", "⏎").replaceAll("\t", "→");
  return text.length > limit ? `${line}…` : line || "∅";
}

/** Fill `element` with `text`. Marks for breaks are drawn by the style sheet, so copying is exact. */
function fillText(element, text) {
  if (text === "") {
    element.append(make("b", "mark void"));
  } else if (!BREAKS.test(text)) {
    element.textContent = visible(text);
  } else {
    for (const part of text.split(BREAKS)) {
      if (part === "\n") element.append(make("b", "mark newline"), part);
      else if (part === "\t") element.append(make("b", "mark tab"), part);
      else if (part) element.append(visible(part));
    }
  }
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}
