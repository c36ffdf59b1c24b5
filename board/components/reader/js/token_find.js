// Matches in a response of tokens: seen across token borders, marked on the tokens.

function startsOfTexts(texts) {
  const starts = new Float64Array(texts.length + 1);
  texts.forEach((text, i) => (starts[i + 1] = starts[i] + (text === PART ? 0 : text.length)));
  return starts;
}

/** A token of no characters shares its start with the next one: take the last that starts here. */
function tokensOf(starts, at, length) {
  return { first: bound(starts, at, true) - 1, last: bound(starts, at + length, false) - 1 };
}

/** The matches in the response; those in the prompt have no place among its tokens. */
function tokenHits(view) {
  return view.hits.filter(({ piece }) => !piece);
}

function setTokenHits(view, on) {
  for (const { first, last } of tokenHits(view)) {
    for (let i = first; i <= last; i++) setMark(view, i, on ? HIT : HIT | CURRENT, on);
  }
}

function markCurrentTokens(view, { first, last }, on) {
  for (let i = first; i <= last; i++) setMark(view, i, CURRENT, on);
}
