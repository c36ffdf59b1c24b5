// Tokens in reading order, in sections by role, painted by metric or mask.

const NOT_PAINTED = -1;
// Bits of view.marks.
const HIT = 1;
const CURRENT = 2;
const PINNED = 4;
const POINTED = 16;
const LABELLED = 32;

function buildFlow(view) {
  const { rollout, ui } = view;
  const count = rollout.texts.length;
  Object.assign(view, { spans: new Array(count), blocks: [], shownBlocks: [], filled: new Set() });
  Object.assign(view, { folds: [], sections: [], prompts: [], jumped: null, aside: null, marked: null });
  view.marks = new Uint8Array(count);
  view.painted = new Int32Array(count).fill(NOT_PAINTED);
  if (rollout.turns) return buildTurns(view);
  view.defaults = {};
  const parts = rollout.prompt.map((part, rank) => promptSection(view, part, rank + 1));
  for (const segment of shownSegments(rollout)) parts.push(segmentSection(view, segment));
  if (!count) parts.push(make("div", "empty", "This response has no tokens."));
  ui.flow.replaceChildren(...parts);
  ui.flow.scrollTop = 0;
  listShownBlocks(view);
  showPlainLater(view);
}

/** The segments, with a section of its own for values that have no token. */
function shownSegments({ segments, surplus, texts }) {
  if (!surplus) return segments;
  const end = texts.length - surplus;
  const known = segments
    .filter(({ start }) => start < end)
    .map((segment) => ({ ...segment, end: Math.min(segment.end, end) }));
  return [...known, { start: end, end: texts.length, role: "surplus", name: "" }];
}

function listShownBlocks(view) {
  view.shownBlocks = view.blocks.filter(({ section }) => !section.folded);
}

const FOLD_KINDS = { tool: "tool", function: "tool", environment: "tool", reasoning: "thinking", thinking: "thinking" };

function segmentSection(view, segment) {
  const { role, name, start, end, error } = segment;
  const surplus = role === "surplus";
  const unit = surplus ? "value" : "token";
  const box = make("section", "segment");
  box.dataset.role = role;
  const number = view.sections.length + 1;
  const [head, body] = [make("div", "head"), make("div", "tokens")];
  const words = make("span", "words");
  const button = makeButton("chevron-button", undefined, "Fold or unfold this turn");
  button.append(make("span", "chevron"));
  const who = surplus ? "values without a token" : visible(role || "response");
  if (view.rollout.segments.length > 1) head.append(button);
  head.append(make("span", "who", who));
  if (name) head.append(make("span", "name", visible(name)));
  head.append(make("span", "size", counted(end - start, unit)));
  if (error) head.append(failureElement(view, error));
  head.append(words);
  const kind = FOLD_KINDS[role] ?? FOLD_KINDS[name] ?? "turn";
  const fold = makeFold(view, kind, { button, words, body });
  words.textContent = firstWords(view.rollout.texts.slice(start, Math.min(end, start + 100)).join(""));
  fold.set(kind !== "turn" && prefers(view, FOLD_CHOICES[kind]));
  words.hidden = !fold.folded;
  appendBlocks(view, body, fold, start, end);
  box.append(head, body);
  view.sections.push(tokenSectionOf(box, number, segment, end - start, unit));
  return box;
}

/** Recolour: what is in sight now, the rest of what has elements a few blocks a frame. */
function paintTokens(view) {
  cancelAnimationFrame(view.frames.paint);
  if (!view.shownBlocks.length) return;
  const [first, last] = blocksInSight(view);
  const now = new Set(view.shownBlocks.slice(first, last + 1));
  for (const block of now) paintBlock(view, block);
  const rest = [...view.filled].filter((block) => !now.has(block));
  if (!rest.length) return;
  overFrames(view, "paint", () => {
    paintBlock(view, rest.pop());
    return rest.length > 0;
  });
}

function paintBlock(view, { first, last, filled }) {
  if (!filled) return;
  for (let i = first; i < last; i++) paintToken(view, i);
}

/** A token whose look stays is not touched. */
function paintToken(view, i) {
  const level = view.levels[i];
  const look = (level + 64) | (view.marks[i] << 8);
  if (!view.spans[i] || view.painted[i] === look) return;
  view.painted[i] = look;
  view.spans[i].className = tokenClass(view, i, level);
}

function tokenClass(view, i, level) {
  const marks = view.marks[i];
  const { texts } = view.rollout;
  const names = ["token", levelClass(level)];
  if (joinsNext(texts[i], texts[i + 1])) names.push("joins");
  if (isSurplus(view.rollout, i)) names.push("surplus");
  else if (view.rollout.inLoss[i] === OUTSIDE) names.push("outside");
  if (marks & HIT) names.push("hit");
  if (marks & CURRENT) names.push("current");
  if (marks & PINNED) names.push("pinned");
  if (marks & POINTED) names.push("pointed");
  if (marks & LABELLED) names.push("labelled");
  return names.filter(Boolean).join(" ");
}

function setMark(view, i, bit, on) {
  if (on) view.marks[i] |= bit;
  else view.marks[i] &= ~bit;
  paintToken(view, i);
}

function tokenAt(target) {
  return target?.closest?.(".token")?.tokenIndex;
}

/** Scroll the flow, never the page. Blocks get their true height on sight, so look again after. */
function scrollToToken(view, i, attempts = 3) {
  const flow = view.ui.flow;
  const place = spanOf(view, i).getBoundingClientRect();
  const frame = flow.getBoundingClientRect();
  const margin = frame.height * 0.15;
  if (place.top >= frame.top + margin && place.bottom <= frame.bottom - margin) return;
  flow.scrollTop += place.top - frame.top - frame.height / 2;
  fillInSight(view);
  if (attempts > 1) requestAnimationFrame(() => scrollToToken(view, i, attempts - 1));
}

/** The token on the next line up or down that is nearest to the pinned one's place. */
function tokenOnLine(view, i, direction) {
  const place = spanOf(view, i).getClientRects()[0];
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

/** First and last token that the flow shows now, with fractions, by interpolation within blocks. */
function tokensInSight(view) {
  const top = view.ui.flow.getBoundingClientRect().top;
  return [tokenAtHeight(view, top), tokenAtHeight(view, top + view.ui.flow.clientHeight)];
}

function tokenAtHeight(view, y) {
  if (!view.shownBlocks.length) return 0;
  const { element, first, last } = view.shownBlocks[blockAtHeight(view, y)];
  const box = element.getBoundingClientRect();
  const share = Math.max(0, Math.min(1, (y - box.top) / (box.height || 1)));
  return first + share * (last - first);
}
