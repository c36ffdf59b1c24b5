// The search field and what it found, marked in the text.

function find(view, query) {
  setHits(view, false);
  const { hits, error } = searchTokens(view.rollout.texts, query, view.isRegex);
  Object.assign(view, { hits, hit: -1, findError: error });
  setHits(view, true);
  showFindCount(view, query);
  drawMap(view);
  drawPositions(view);
}

function setHits(view, on) {
  for (const { first, last } of view.hits) {
    for (let i = first; i <= last; i++) setMark(view, i, on ? HIT : HIT | CURRENT, on);
  }
}

function showFindCount(view, query) {
  const { hits, hit, findError, ui } = view;
  const place = hit < 0 ? "" : `${withThousands(hit + 1)} of `;
  const found = hits.length ? place + withThousands(hits.length) : "none";
  ui.findCount.textContent = !query ? "" : findError ? "no regex" : found;
  ui.findCount.title = ui.find.title = findError;
  ui.find.classList.toggle("wrong", Boolean(findError));
}

function nextHit(view, direction) {
  if (!view.hits.length) return;
  const count = view.hits.length;
  markCurrent(view, false);
  view.hit = view.hit < 0 ? (direction > 0 ? 0 : count - 1) : (view.hit + direction + count) % count;
  markCurrent(view, true);
  showFindCount(view, view.ui.find.value);
  scrollToToken(view, view.hits[view.hit].first);
}

function markCurrent(view, on) {
  if (view.hit < 0) return;
  const { first, last } = view.hits[view.hit];
  for (let i = first; i <= last; i++) setMark(view, i, CURRENT, on);
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
