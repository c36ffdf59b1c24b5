// Model text on screen: always as text nodes, with every invisible character made visible.

// Control, soft hyphen, odd spaces, zero-width, bidi, filler and tag characters, noncharacters; and
// variation selectors where they select nothing. U+FDD0 alone stands for a part of a character.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]|[\u{e0000}-\u{e007f}]|(?<![^\s])[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;
// Letters that take their form from their neighbours, and marks that stand on the one before.
const JOINED = /[\u0590-\u18af\u200d\ufb1d-\ufdff\ufe70-\ufefc]|\p{M}/u;
const STARTS_WITH_MARK = /^[\p{M}\u200d]/u;
const BREAKS = /(\n|\t)/;
const PART = "\ufdd0";

// A stretch that may hold such characters, with the one before it: most of a long text is passed by.
const UNUSUAL = /[\x21-\x7e]?[^\t\n\x20-\x7e]+/g;

function visible(text) {
  return text.replace(UNUSUAL, (stretch) => stretch.replace(INVISIBLE, codeOf));
}

function codeOf(char) {
  return `⟨${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Whether a border after `text` would change how it or the text after it is written. */
function joinsNext(text, next = "") {
  return JOINED.test(text) || STARTS_WITH_MARK.test(next);
}

/** One line for titles and lists: breaks as signs, cut at `limit` characters. */
function oneLine(text, limit) {
  if (text === PART) return "·";
  const line = visible(text.slice(0, limit)).replaceAll("\n", "⏎").replaceAll("\t", "→");
  return text.length > limit ? `${line}…` : line || "∅";
}

/** Fill `element` with `text`. Marks for breaks are drawn by the style sheet, so copying is exact. */
function fillText(element, text) {
  if (text === "") {
    element.append(make("b", "mark void"));
  } else if (text === PART) {
    element.append(make("b", "mark part"));
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

const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 2 });

/** A length in little room: 318, 3.4K. */
function shortCount(n) {
  return n < 1000 ? String(n) : SHORT.format(n).toLowerCase();
}

function secondsWords(seconds) {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 99.5) return `${Number(seconds.toPrecision(2))} s`;
  return `${Math.round(seconds / 60)} min`;
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function makeButton(className, text, title, onclick) {
  const button = make("button", className, text);
  button.type = "button";
  if (title) button.title = title;
  button.onclick = onclick;
  return button;
}
