// Marks of matches in texts: ranges of text nodes, drawn by the browser's highlights.

const HIT_NAME = "reader-hit";
const HIT_NOW_NAME = "reader-hit-now";

/** The highlight of that name, shared by the readers of a page; undefined where the browser has none. */
function highlightNamed(name) {
  if (!globalThis.CSS?.highlights) return undefined;
  if (!CSS.highlights.has(name)) CSS.highlights.set(name, new Highlight());
  return CSS.highlights.get(name);
}

/** Marks a match {piece, at, length} whose text is on the page. */
function markHit(view, hit) {
  const ends = endsOf(hit);
  if (!ends) return;
  // Ten thousand live ranges would slow down every change of the page.
  const range = new StaticRange(ends);
  highlightNamed(HIT_NAME)?.add(range);
  view.ranges.push(range);
}

function clearTextMarks(view) {
  const highlight = highlightNamed(HIT_NAME);
  for (const range of view.ranges ?? []) highlight?.delete(range);
  view.ranges = [];
  clearHitNow(view);
}

function clearHitNow(view) {
  if (view.rangeNow) highlightNamed(HIT_NOW_NAME)?.delete(view.rangeNow);
  view.rangeNow = null;
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

/** The text nodes of a piece that is shown as a whole. */
function listNodes(piece) {
  const walker = document.createTreeWalker(piece.box, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    piece.nodes.push({ node: walker.currentNode, start: piece.shown });
    piece.shown += walker.currentNode.length;
  }
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

/** Marks the match that the reader is at, and scrolls to it. */
function showRangeOf(view, hit) {
  clearHitNow(view);
  view.rangeNow = rangeOf(hit);
  if (!view.rangeNow) return;
  const now = highlightNamed(HIT_NOW_NAME);
  if (now) now.priority = 1;
  now?.add(view.rangeNow);
  scrollToRange(view, view.rangeNow);
}

/** Asked of the browser once for all matches in it. */
function boxOf(element, boxes) {
  if (!boxes.has(element)) boxes.set(element, element.getBoundingClientRect());
  return boxes.get(element);
}

const STILL_FRAMES = 3;
const MOST_FRAMES = 24;

/** What is far gets its true height on sight: looks again until the match stays in view. */
function scrollToRange(view, range, still = STILL_FRAMES, most = MOST_FRAMES) {
  if (view.rangeNow !== range) return;
  const { flow } = view.ui;
  const [place, frame] = [range.getBoundingClientRect(), flow.getBoundingClientRect()];
  const margin = frame.height * 0.12;
  const isAside = place.top < frame.top + margin || place.bottom > frame.bottom - margin;
  const before = flow.scrollTop;
  if (isAside) flow.scrollTop += place.top - frame.top - frame.height / 3;
  if (place.left < frame.left || place.right > frame.right) {
    flow.scrollLeft += place.left - frame.left - frame.width / 3;
  }
  const left = flow.scrollTop === before ? still - 1 : STILL_FRAMES;
  if (left && most) requestAnimationFrame(() => scrollToRange(view, range, left, most - 1));
}
