// The search field: matches in tokens or turns, counted, marked, and gone through.

/** What is searched, in reading order: the pieces of turns or prompts, and null for the response's tokens. */
function searchedPieces(view) {
  return view.rollout.turns ? view.sections.flatMap(({ pieces }) => pieces) : [...view.prompts, null];
}

function textOf(view, piece) {
  return piece ? piece.text : view.rollout.texts.filter((text) => text !== PART).join("");
}

function find(view, query) {
  stopSearch(view);
  takeHits(view, { hits: [], error: "" });
  if (!query) return;
  if (view.rollout.turns) fillTurns(view);
  const texts = searchedPieces(view).map((piece) => textOf(view, piece));
  if (!view.isRegex) takeHits(view, searchTexts(texts, query, false, MOST_HITS));
  else searchApart(view, texts, query, (found) => takeHits(view, found));
}

function takeHits(view, { hits, error }) {
  setTokenHits(view, false);
  const starts = startsOfTexts(view.rollout.texts);
  const pieces = searchedPieces(view);
  view.hits = hits.map(([rank, at, length]) =>
    pieces[rank] ? { piece: pieces[rank], at, length } : tokensOf(starts, at, length),
  );
  Object.assign(view, { hit: -1, findError: error });
  markTextHits(view);
  setTokenHits(view, true);
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
  if (before >= 0 && !hits[before].piece) markCurrentTokens(view, false);
  view.hit = before < 0 ? firstHit(view, direction) : (before + direction + hits.length) % hits.length;
  showFindCount(view);
  if (hits[view.hit].piece) return showTextHit(view);
  markTextHits(view);
  markCurrentTokens(view, true);
  scrollToToken(view, hits[view.hit].first);
}

function firstHit(view, direction) {
  if (direction < 0) return view.hits.length - 1;
  if (!view.rollout.turns || view.ui.flow.scrollTop < 8) return 0;
  const ahead = new Set(view.sections.slice(currentSection(view)).flatMap(({ pieces }) => pieces));
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
