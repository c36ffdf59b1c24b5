// The search field: matches in tokens or turns, counted, marked, and gone through.

/** The pieces of all turns in reading order. */
function piecesOf(sections) {
  return sections.flatMap(({ pieces }) => pieces);
}

/** Texts that are searched: the response's tokens as one, or the pieces of the turns. */
function searchedTexts(view) {
  if (view.rollout.turns) return piecesOf(view.sections).map(({ text }) => text);
  return [view.rollout.texts.filter((text) => text !== PART).join("")];
}

function find(view, query) {
  stopSearch(view);
  takeHits(view, { hits: [], error: "" });
  if (!query) return;
  if (view.rollout.turns) fillTurns(view);
  const texts = searchedTexts(view);
  if (!view.isRegex) takeHits(view, searchTexts(texts, query, false, MOST_HITS));
  else searchApart(view, texts, query, (found) => takeHits(view, found));
}

function takeHits(view, { hits, error }) {
  if (!view.rollout.turns) setTokenHits(view, false);
  const starts = view.rollout.turns ? null : startsOfTexts(view.rollout.texts);
  const pieces = starts ? [] : piecesOf(view.sections);
  view.hits = hits.map(([rank, at, length]) =>
    starts ? tokensOf(starts, at, length) : { piece: pieces[rank], at, length },
  );
  Object.assign(view, { hit: -1, findError: error });
  if (view.rollout.turns) markTurnHits(view);
  else setTokenHits(view, true);
  showFindCount(view);
  drawMap(view);
  drawPositions(view);
}

function showFindCount(view) {
  const { hits, hit, findError, ui } = view;
  const many = hits.length >= MOST_HITS ? `${withThousands(MOST_HITS)}+` : withThousands(hits.length);
  const place = hit < 0 ? "" : `${withThousands(hit + 1)} of `;
  ui.findCount.textContent = !ui.find.value ? "" : findError || (hits.length ? place + many : "none");
  ui.findCount.title = ui.find.title = findError;
  ui.findCount.classList.toggle("wrong", Boolean(findError));
  ui.find.classList.toggle("wrong", Boolean(findError));
  ui.previousHit.disabled = ui.nextHit.disabled = !hits.length;
}

/** From nowhere to the first match that the reader has not gone past; then from one to the next. */
function nextHit(view, direction) {
  const { hits } = view;
  if (!hits.length) return;
  const before = view.hit;
  if (before >= 0 && !view.rollout.turns) markCurrentTokens(view, false);
  view.hit = before < 0 ? firstHit(view, direction) : (before + direction + hits.length) % hits.length;
  showFindCount(view);
  if (view.rollout.turns) return showTurnHit(view);
  markCurrentTokens(view, true);
  scrollToToken(view, hits[view.hit].first);
}

function firstHit(view, direction) {
  if (direction < 0) return view.hits.length - 1;
  if (!view.rollout.turns || view.ui.flow.scrollTop < 8) return 0;
  const ahead = new Set(piecesOf(view.sections.slice(currentSection(view))));
  return Math.max(0, view.hits.findIndex(({ piece }) => ahead.has(piece)));
}

function isSearching(view) {
  return Boolean(view.ui.find.value) && view.hits.length > 0;
}

function endFind(view) {
  view.ui.find.value = "";
  find(view, "");
  view.ui.flow.focus({ preventScroll: true });
}

function toggleRegex(view) {
  view.isRegex = !view.isRegex;
  view.ui.regex.setAttribute("aria-pressed", String(view.isRegex));
  find(view, view.ui.find.value);
}

function bindFind(view) {
  const { ui } = view;
  ui.find.oninput = () => find(view, ui.find.value);
  ui.regex.onclick = () => toggleRegex(view);
  ui.previousHit.onclick = () => nextHit(view, -1);
  ui.nextHit.onclick = () => nextHit(view, 1);
}
