// Tokens in reading order: sections by role, each in blocks that the browser skips while off screen.

const BLOCK_TOKENS = 256;
// A response without line breaks still has to be cut somewhere, or no block is ever skipped.
const LONGEST_BLOCK = 2048;
const LINE_HEIGHT = 26;
const LINE_CHARACTERS = 90;
const PAINT_BUDGET_MS = 6;
const FOLDED_CHARACTERS = 500;
const FOLDED_LINES = 6;

function buildFlow(view) {
  const { rollout, ui } = view;
  view.spans = new Array(rollout.texts.length);
  view.blocks = [];
  const parts = [];
  if (rollout.prompt.length) parts.push(promptSection(rollout.prompt));
  for (const segment of rollout.segments) parts.push(segmentSection(view, segment));
  if (!rollout.texts.length) parts.push(make("div", "empty", "This response has no tokens."));
  ui.flow.replaceChildren(...parts);
  ui.flow.scrollTop = 0;
}

function section(role, title) {
  const box = make("section", "segment");
  box.dataset.role = role;
  box.append(make("div", "role", title));
  return box;
}

function segmentSection(view, segment) {
  const { role, name, start, end } = segment;
  const words = [role || "response", name].filter(Boolean).join(" ");
  const box = section(role, `${words} · ${counted(end - start, "token")}`);
  for (let first = start; first < end; ) {
    const last = blockEnd(view.rollout.texts, first, end);
    box.append(tokenBlock(view, first, last));
    first = last;
  }
  return box;
}

/** Blocks end after a line break, where cutting the text leaves its layout as it was. */
function blockEnd(texts, first, end) {
  for (let i = first + 1; i < end; i++) {
    const size = i - first;
    if (size >= LONGEST_BLOCK || (size >= BLOCK_TOKENS && texts[i - 1].endsWith("\n"))) return i;
  }
  return end;
}

function tokenBlock(view, first, last) {
  const { texts, inLoss } = view.rollout;
  const block = make("div", "block");
  let lines = 1;
  let characters = 0;
  for (let i = first; i < last; i++) {
    const span = document.createElement("span");
    span.tokenIndex = i;
    fillText(span, texts[i]);
    view.spans[i] = span;
    view.base[i] = inLoss[i] === OUTSIDE ? "token outside" : "token";
    span.className = view.base[i];
    block.append(span);
    characters += texts[i].length;
    if (texts[i].includes("\n")) lines += 1;
  }
  const height = Math.max(lines, characters / LINE_CHARACTERS) * LINE_HEIGHT;
  block.style.containIntrinsicSize = `auto ${Math.round(height)}px`;
  view.blocks.push({ element: block, first, last });
  return block;
}

function promptSection(prompt) {
  const text = prompt.join("");
  const size = prompt.length > 1 ? counted(prompt.length, "token") : counted(text.length, "character");
  const box = section("prompt", `prompt · ${size}`);
  const long = text.length > FOLDED_CHARACTERS || text.split("\n").length > FOLDED_LINES;
  const body = make("div", long ? "prompt folded" : "prompt");
  fillText(body, long ? text.slice(0, 2 * FOLDED_CHARACTERS) : text);
  box.append(body);
  if (long) box.firstChild.append(foldButton(body, text));
  return box;
}

function foldButton(body, text) {
  const button = make("button", "fold", "show all");
  button.type = "button";
  button.onclick = () => {
    const open = !body.classList.toggle("folded");
    button.textContent = open ? "fold" : "show all";
    body.replaceChildren();
    fillText(body, open ? text : text.slice(0, 2 * FOLDED_CHARACTERS));
  };
  return button;
}

/** Recolour by the chosen metric: what is in sight now, the rest a few blocks a frame. */
function paintTokens(view) {
  const { rollout, metric, levels, blocks, ui } = view;
  for (let i = 0; i < levels.length; i++) {
    levels[i] = metric ? levelOf(metric, metric.scale, i) : 0;
  }
  cancelAnimationFrame(view.painting);
  if (!rollout.texts.length) return;
  const top = ui.flow.getBoundingClientRect().top;
  const [first, last] = [blockAtHeight(view, top), blockAtHeight(view, top + ui.flow.clientHeight)];
  blocks.slice(first, last + 1).forEach((block) => paintBlock(view, block));
  markHits(view);
  paintLater(view, [...blocks.slice(last + 1), ...blocks.slice(0, first)]);
}

function paintLater(view, blocks) {
  if (!blocks.length) return;
  view.painting = requestAnimationFrame(() => {
    const until = performance.now() + PAINT_BUDGET_MS;
    let done = 0;
    while (done < blocks.length && performance.now() < until) paintBlock(view, blocks[done++]);
    markHits(view);
    paintLater(view, blocks.slice(done));
  });
}

/** A token whose colour stays is not touched. */
function paintBlock(view, { first, last }) {
  const { spans, base, levels, painted } = view;
  for (let i = first; i < last; i++) {
    if (levels[i] === painted[i]) continue;
    painted[i] = levels[i];
    spans[i].className = `${base[i]} ${levelClass(levels[i])}`;
  }
  if (view.pin !== null && first <= view.pin && view.pin < last) spans[view.pin].classList.add("pinned");
}

/** Which block lies at a height of the window, by bisection. */
function blockAtHeight(view, y) {
  let low = 0;
  let high = view.blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (view.blocks[middle].element.getBoundingClientRect().top <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

function tokenAt(target) {
  return target?.closest?.(".token")?.tokenIndex;
}

/** Scroll the flow, never the page. Blocks get their true height on sight, so look again after. */
function scrollToToken(view, i, attempts = 3) {
  const flow = view.ui.flow;
  const place = view.spans[i].getBoundingClientRect();
  const frame = flow.getBoundingClientRect();
  const margin = frame.height * 0.15;
  if (place.top >= frame.top + margin && place.bottom <= frame.bottom - margin) return;
  flow.scrollTop += place.top - frame.top - frame.height / 2;
  if (attempts > 1) requestAnimationFrame(() => scrollToToken(view, i, attempts - 1));
}

/** The token on the next line up or down that is nearest to the pinned one's place. */
function tokenOnLine(view, i, direction) {
  const place = view.spans[i].getClientRects()[0];
  const left = view.ui.flow.getBoundingClientRect().left;
  const root = view.ui.root.getRootNode();
  for (let line = 1; line <= 6; line++) {
    const y = place.top + place.height / 2 + direction * line * LINE_HEIGHT;
    for (let x = place.left + 3; x > left; x -= 24) {
      const found = tokenAt(root.elementFromPoint(x, y));
      if (found !== undefined && (found - i) * direction > 0) return found;
    }
  }
  return undefined;
}
