// The search field. `view.finder` says what is searched and shows what is found:
// `texts()`, `take(hits)` with what searchTexts found, `first(direction)`, a rank, and `show(before)`.

function find(view, query) {
  stopSearch(view);
  takeFound(view, { hits: [], error: "" });
  if (!query) return;
  const texts = view.finder.texts();
  if (!view.isRegex) takeFound(view, searchTexts(texts, query, false, MOST_HITS));
  else searchApart(view, texts, query, (found) => takeFound(view, found));
}

function takeFound(view, { hits, error }) {
  Object.assign(view, { hit: -1, findError: error });
  view.finder.take(hits);
  showFindCount(view);
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
  const { hits, hit: before } = view;
  if (!hits.length) return;
  view.hit = before < 0 ? view.finder.first(direction) : (before + direction + hits.length) % hits.length;
  showFindCount(view);
  view.finder.show(before);
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

function bindFinder(view, finder) {
  const { ui } = view;
  Object.assign(view, { finder, hits: [], hit: -1, isRegex: false });
  ui.find.onkeydown = (event) => onFindKey(view, event);
  ui.find.oninput = () => find(view, ui.find.value);
  ui.regex.onclick = () => toggleRegex(view);
  ui.previousHit.onclick = () => nextHit(view, -1);
  ui.nextHit.onclick = () => nextHit(view, 1);
}

function onFindKey(view, event) {
  if (event.key === "Enter") nextHit(view, event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") endFind(view);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
