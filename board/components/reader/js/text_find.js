// Matches in turns and prompts: ranges of text nodes, drawn by the browser's highlights.

const HIT_NAME = "reader-hit";
const HIT_NOW_NAME = "reader-hit-now";

/** The highlight of that name, shared by the readers of a page; undefined where the browser has none. */
function highlightNamed(name) {
  if (!globalThis.CSS?.highlights) return undefined;
  if (!CSS.highlights.has(name)) CSS.highlights.set(name, new Highlight());
  return CSS.highlights.get(name);
}

/** Ranges of the matches whose text is on the page; folded text has none. */
function markTextHits(view) {
  clearTextMarks(view);
  const highlight = highlightNamed(HIT_NAME);
  for (const hit of view.hits) {
    const ends = hit.piece && endsOf(hit);
    if (!ends) continue;
    // Ten thousand live ranges would slow down every change of the page.
    const range = new StaticRange(ends);
    highlight?.add(range);
    view.ranges.push(range);
  }
}

function clearTextMarks(view) {
  const highlight = highlightNamed(HIT_NAME);
  for (const range of view.ranges ?? []) highlight?.delete(range);
  if (view.rangeNow) highlightNamed(HIT_NOW_NAME)?.delete(view.rangeNow);
  Object.assign(view, { ranges: [], rangeNow: null });
}

function endsOf({ piece, at, length }) {
  const begin = nodeAt(piece, at);
  const end = nodeAt(piece, at + length - 1);
  if (!begin || !end) return null;
  return {
    startContainer: begin.node,
    startOffset: Math.min(at - begin.start, begin.node.length),
    endContainer: end.node,
    endOffset: Math.min(at + length - end.start, end.node.length),
  };
}

function rangeOf(hit) {
  const ends = endsOf(hit);
  if (!ends) return null;
  const range = new Range();
  range.setStart(ends.startContainer, ends.startOffset);
  range.setEnd(ends.endContainer, ends.endOffset);
  return range;
}

/** The text node that holds character `at` of a piece; undefined where it is not on the page. */
function nodeAt({ nodes, shown }, at) {
  if (!nodes.length || at >= shown) return undefined;
  let low = 0;
  let high = nodes.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (nodes[middle].start <= at) low = middle;
    else high = middle - 1;
  }
  return nodes[low];
}

/** Opens what hides the match, marks it and scrolls to it. */
function showTextHit(view) {
  const hit = view.hits[view.hit];
  revealPiece(view, hit.piece);
  markTextHits(view);
  view.rangeNow = rangeOf(hit);
  if (!view.rangeNow) return;
  const now = highlightNamed(HIT_NOW_NAME);
  if (now) now.priority = 1;
  now?.add(view.rangeNow);
  scrollToRange(view, view.rangeNow);
  drawMap(view);
}

/** What is far gets its true height on sight, so look again after. */
function scrollToRange(view, range, attempts = 3) {
  const { flow } = view.ui;
  const [place, frame] = [range.getBoundingClientRect(), flow.getBoundingClientRect()];
  const margin = frame.height * 0.12;
  if (place.top < frame.top + margin || place.bottom > frame.bottom - margin) {
    flow.scrollTop += place.top - frame.top - frame.height / 3;
  }
  if (place.left < frame.left || place.right > frame.right) {
    flow.scrollLeft += place.left - frame.left - frame.width / 3;
  }
  if (attempts > 1) requestAnimationFrame(() => scrollToRange(view, range, attempts - 1));
}
