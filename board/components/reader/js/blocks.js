// The tokens in blocks. A block far from sight holds plain text; near it, one element per token: so
// that 128,000 tokens open as fast as the few hundred that are seen.

const BLOCK_TOKENS = 256;
// A response without line breaks still has to be cut somewhere, or no block is ever skipped.
const LONGEST_BLOCK = 1024;
const LINE_HEIGHT = 19;
const LINE_CHARACTERS = 95;
// Responses up to this many tokens have all their elements from the start.
const FILLED_AT_ONCE = 4096;
const MOST_FILLED_BLOCKS = 160;

/** Blocks end after a line break, where cutting the text leaves its layout as it was. */
function blockEnd(texts, first, end) {
  for (let i = first + 1; i < end; i++) {
    const size = i - first;
    if (size >= LONGEST_BLOCK || (size >= BLOCK_TOKENS && texts[i - 1].endsWith("\n"))) return i;
  }
  return end;
}

/** Append the blocks of tokens start..end-1 to `box`; `section` can be folded as a whole. */
function appendBlocks(view, box, section, start, end) {
  for (let first = start; first < end; ) {
    const last = blockEnd(view.rollout.texts, first, end);
    const block = { element: make("div", "block"), first, last, section, filled: false, isBlank: false };
    sizeBlock(block.element, view.rollout.texts, first, last);
    if (view.rollout.texts.length <= FILLED_AT_ONCE) fillBlock(view, block);
    else block.isBlank = true;
    box.append(block.element);
    view.blocks.push(block);
    first = last;
  }
}

/** What the browser takes its height for until it is laid out. */
function sizeBlock(element, texts, first, last) {
  let [lines, characters] = [1, 0];
  for (let i = first; i < last; i++) {
    const text = texts[i];
    characters += text.length;
    if (text.includes("\n")) lines += 1;
  }
  const height = Math.max(lines, characters / LINE_CHARACTERS) * LINE_HEIGHT;
  element.style.containIntrinsicSize = `auto ${Math.round(height)}px`;
}

/** The browser's own search and screen readers find the text of blocks that nobody has seen yet. */
function showPlainLater(view) {
  const blank = view.blocks.filter(({ isBlank }) => isBlank).reverse();
  overFrames(view, "plain", () => {
    const block = blank.pop();
    if (block?.isBlank) showPlain(view, block);
    return blank.length > 0;
  });
}

function showPlain(view, block) {
  const texts = view.rollout.texts.slice(block.first, block.last).filter((text) => text !== PART);
  block.element.textContent = visible(texts.join(""));
  block.isBlank = false;
}

function fillBlock(view, block) {
  if (block.filled) return;
  block.filled = true;
  block.isBlank = false;
  const parts = document.createDocumentFragment();
  for (let i = block.first; i < block.last; i++) parts.append(tokenElement(view, i));
  block.element.replaceChildren(parts);
  view.filled.add(block);
  paintBlock(view, block);
}

function tokenElement(view, i) {
  const span = document.createElement("span");
  span.tokenIndex = i;
  if (isSurplus(view.rollout, i)) span.append(make("b", "mark no-token"));
  else fillText(span, view.rollout.texts[i]);
  view.spans[i] = span;
  view.painted[i] = NOT_PAINTED;
  return span;
}

function releaseBlock(view, block) {
  block.filled = false;
  view.filled.delete(block);
  for (let i = block.first; i < block.last; i++) view.spans[i] = undefined;
  showPlain(view, block);
}

/** Give elements to the tokens in sight and a little around, and take them where nobody looks. */
function fillInSight(view) {
  if (view.rollout.turns) return fillTurnsInSight(view);
  const shown = view.shownBlocks;
  if (!shown.length) return;
  const [first, last] = blocksInSight(view);
  for (let b = Math.max(0, first - 1); b <= Math.min(shown.length - 1, last + 1); b++) {
    fillBlock(view, shown[b]);
  }
  if (view.filled.size <= MOST_FILLED_BLOCKS) return;
  const near = new Set(shown.slice(Math.max(0, first - 20), last + 20));
  for (const block of [...view.filled]) if (!near.has(block)) releaseBlock(view, block);
}

function blocksInSight(view) {
  const top = view.ui.flow.getBoundingClientRect().top;
  return [blockAtHeight(view, top), blockAtHeight(view, top + view.ui.flow.clientHeight)];
}

/** Which of the blocks that are not folded away lies at a height of the window, by bisection. */
function blockAtHeight(view, y) {
  let low = 0;
  let high = view.shownBlocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (view.shownBlocks[middle].element.getBoundingClientRect().top <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

function blockOf(view, i) {
  let low = 0;
  let high = view.blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (view.blocks[middle].first <= i) low = middle;
    else high = middle - 1;
  }
  return view.blocks[low];
}

/** The element of a token, made where there is none yet; its section is unfolded. */
function spanOf(view, i) {
  const block = blockOf(view, i);
  if (block.section.folded) {
    block.section.set(false);
    afterFolding(view);
  }
  fillBlock(view, block);
  return view.spans[i];
}
