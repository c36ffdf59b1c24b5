// Matches in tokens, turns and prompts: where they are looked for, marked and shown.

/** What is searched, in reading order: the pieces of turns or prompts, and null for the response's tokens. */
function searchedPieces(view) {
  return view.rollout.turns ? view.sections.flatMap(({ pieces }) => pieces) : [...view.prompts, null];
}

function textOf(view, piece) {
  return piece ? piece.text : view.rollout.texts.filter((text) => text !== PART).join("");
}

function takeHits(view, hits) {
  setTokenHits(view, false);
  const starts = startsOfTexts(view.rollout.texts);
  const pieces = searchedPieces(view);
  view.hits = hits.map(([rank, at, length]) =>
    pieces[rank] ? { piece: pieces[rank], at, length } : tokensOf(starts, at, length),
  );
  markTextHits(view);
  setTokenHits(view, true);
  drawMap(view);
  drawPositions(view);
}

/** Folded text has no marks. */
function markTextHits(view) {
  clearTextMarks(view);
  for (const hit of view.hits) if (hit.piece) markHit(view, hit);
}

/** Opens what hides the match. */
function showTextHit(view) {
  const hit = view.hits[view.hit];
  revealPiece(view, hit.piece);
  markTextHits(view);
  showRangeOf(view, hit);
  drawMap(view);
}

function showHit(view, before) {
  const { hits, hit } = view;
  if (before >= 0 && !hits[before].piece) markCurrentTokens(view, hits[before], false);
  clearHitNow(view);
  if (hits[hit].piece) return showTextHit(view);
  markCurrentTokens(view, hits[hit], true);
  return scrollToToken(view, hits[hit].first);
}

function firstHit(view, direction) {
  if (direction < 0) return view.hits.length - 1;
  if (!view.rollout.turns || view.ui.flow.scrollTop < 8) return 0;
  const ahead = new Set(view.sections.slice(currentSection(view)).flatMap(({ pieces }) => pieces));
  return Math.max(0, view.hits.findIndex(({ piece }) => ahead.has(piece)));
}

function bindFind(view) {
  bindFinder(view, {
    texts: () => {
      fillTurns(view);
      return searchedPieces(view).map((piece) => textOf(view, piece));
    },
    take: (hits) => takeHits(view, hits),
    first: (direction) => firstHit(view, direction),
    show: (before) => showHit(view, before),
  });
}
