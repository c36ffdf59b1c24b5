// Plain text search that sees across token borders.

function searchTokens(texts, query) {
  const needle = query.toLowerCase();
  if (!needle) return [];
  const starts = new Float64Array(texts.length + 1);
  const lowered = texts.map((text) => text.toLowerCase());
  lowered.forEach((text, i) => (starts[i + 1] = starts[i] + text.length));
  const whole = lowered.join("");
  const hits = [];
  for (let at = whole.indexOf(needle); at >= 0; at = whole.indexOf(needle, at + needle.length)) {
    // A token of no characters shares its start with the next one: take the last that starts here.
    const first = bound(starts, at, true) - 1;
    const last = bound(starts, at + needle.length, false) - 1;
    hits.push({ first, last });
  }
  return hits;
}

function find(view, query) {
  unmarkHits(view);
  view.hits = searchTokens(view.rollout.texts, query);
  view.hit = -1;
  markHits(view);
  showFindCount(view, query);
  drawMap(view);
}

function markHits(view) {
  view.hits.forEach(({ first, last }, rank) => {
    for (let i = first; i <= last; i++) {
      view.spans[i].classList.add("hit");
      view.spans[i].classList.toggle("current", rank === view.hit);
    }
  });
}

function unmarkHits(view) {
  for (const { first, last } of view.hits) {
    for (let i = first; i <= last; i++) view.spans[i].classList.remove("hit", "current");
  }
}

function showFindCount(view, query) {
  const { hits, hit } = view;
  const place = hit < 0 ? "" : `${withThousands(hit + 1)} of `;
  view.ui.findCount.textContent = !query ? "" : hits.length ? place + withThousands(hits.length) : "none";
}

function nextHit(view, direction) {
  if (!view.hits.length) return;
  const count = view.hits.length;
  view.hit = view.hit < 0 ? (direction > 0 ? 0 : count - 1) : (view.hit + direction + count) % count;
  markHits(view);
  showFindCount(view, view.ui.find.value);
  scrollToToken(view, view.hits[view.hit].first);
}
