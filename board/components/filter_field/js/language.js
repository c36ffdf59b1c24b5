// The words of the language of filters, for colours and completion; board/core/expressions.py reads it.

const WORDS = /"(?:[^"]|"")*"?|'(?:[^']|'')*'?|[\p{L}_][\p{L}\p{N}_.]*|\d[\d.]*(?:[eE][+-]?\d+)?|\.\d+|[=!<>]=|\*\*|\/\/|\s+|[^]/gu;
const KEYWORDS = new Set(["and", "or", "not", "in", "contains"]);
const FUNCTIONS = new Set(["abs", "log", "exp", "sqrt", "min", "max", "missing", "contains", "col"]);
const COMPARISONS = new Set(["=", "==", "!=", "<", "<=", ">", ">="]);

/** The words of a text with their places: kind is text, number, keyword, sign, space or name. */
function wordsOf(text) {
  return [...text.matchAll(WORDS)].map(([word, ...rest], at, all) => {
    const start = all[at].index;
    return { word, start, end: start + word.length, kind: kindOf(word) };
  });
}

function kindOf(word) {
  if (/^["']/.test(word)) return "text";
  if (/^[.\d]/.test(word) && word !== ".") return "number";
  if (/^\s/.test(word)) return "space";
  if (!/^[\p{L}_]/u.test(word)) return "sign";
  return KEYWORDS.has(word.toLowerCase()) ? "keyword" : "name";
}
