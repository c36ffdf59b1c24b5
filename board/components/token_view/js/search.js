// Search for text or a regular expression that sees across token borders.

const MOST_HITS = 10_000;

/** Hits as {first, last} token indices; `error` in words where `query` is no regular expression. */
function searchTokens(texts, query, isRegex = false) {
  if (!query) return { hits: [], error: "" };
  const spoken = texts.map((text) => (text === PART ? "" : text));
  if (!isRegex) return { hits: plainHits(spoken.map((text) => text.toLowerCase()), query.toLowerCase()), error: "" };
  try {
    return { hits: patternHits(spoken, new RegExp(query, "gim")), error: "" };
  } catch (error) {
    return { hits: [], error: String(error.message).split(": ").at(-1) };
  }
}

function startsOfTexts(texts) {
  const starts = new Float64Array(texts.length + 1);
  texts.forEach((text, i) => (starts[i + 1] = starts[i] + text.length));
  return starts;
}

function plainHits(texts, needle) {
  const [starts, whole, hits] = [startsOfTexts(texts), texts.join(""), []];
  for (let at = whole.indexOf(needle); at >= 0; at = whole.indexOf(needle, at + needle.length)) {
    hits.push(tokensOf(starts, at, needle.length));
  }
  return hits;
}

function patternHits(texts, pattern) {
  const [starts, hits] = [startsOfTexts(texts), []];
  for (const found of texts.join("").matchAll(pattern)) {
    if (hits.length >= MOST_HITS) break;
    if (found[0].length) hits.push(tokensOf(starts, found.index, found[0].length));
  }
  return hits;
}

/** A token of no characters shares its start with the next one: take the last that starts here. */
function tokensOf(starts, at, length) {
  return { first: bound(starts, at, true) - 1, last: bound(starts, at + length, false) - 1 };
}
