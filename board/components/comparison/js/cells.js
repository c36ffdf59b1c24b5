// Rows on screen: two columns, or one where there is no room for two. Model text as text nodes only.

const ROWS_PER_BLOCK = 40;
const LINE_PIXELS = 19;
const CHARACTER_PIXELS = 7.6;
// Strike-through and underline make long passages hard to read: these have a bar and a tint instead.
const LONG_DIFFERENCE = 160;

/** Builds all sections; the rows of a block are made when it comes near the view. */
function buildFlow(view) {
  view.blocks = new Map();
  view.nearby?.disconnect();
  const options = { root: view.ui.flow, rootMargin: "800px 0px" };
  view.nearby = new IntersectionObserver((entries) => {
    const near = entries.filter((entry) => entry.isIntersecting);
    near.forEach(({ target }) => fillBlock(view, target));
    if (near.length) drawMapSoon(view);
  }, options);
  for (const change of view.differences) change.elements = [];
  const sections = view.sections.map((section) => buildSection(view, section));
  view.ui.flow.replaceChildren(...sections);
  view.ui.flow.scrollTop = 0;
  if (view.ui.find.value) find(view, view.ui.find.value);
  drawMapSoon(view);
}

function buildSection(view, section) {
  const element = make("section", section.folded ? "equal" : "");
  section.element = element;
  for (const row of section.rows) Object.assign(row, { section, block: null, element: null });
  if (section.folded) {
    const button = makeButton("fold", "", "Show or fold these lines", () => toggleFold(view, section));
    section.button = button;
    element.append(button);
    showFold(view, section);
  } else {
    element.append(...buildBlocks(view, section.rows));
  }
  return element;
}

function buildBlocks(view, rows) {
  const blocks = [];
  for (let first = 0; first < rows.length; first += ROWS_PER_BLOCK) {
    const block = make("div", "block");
    const own = rows.slice(first, first + ROWS_PER_BLOCK);
    block.style.minHeight = `${own.reduce((sum, row) => sum + guessedHeight(view, row), 0)}px`;
    view.blocks.set(block, own);
    own.forEach((row, rank) => Object.assign(row, { block, share: rank / own.length }));
    view.nearby.observe(block);
    blocks.push(block);
  }
  return blocks;
}

function guessedHeight(view, { parts }) {
  const perLine = Math.max(20, view.columnWidth / CHARACTER_PIXELS);
  const lines = (without) => {
    const text = parts.filter(({ side }) => side !== without).map((part) => part.text).join("");
    const height = (line) => (prefers(view, "wrap") ? Math.max(1, Math.ceil(line.length / perLine)) : 1);
    return text.split("\n").reduce((sum, line) => sum + height(line), 0);
  };
  return LINE_PIXELS * (view.isInline ? lines(null) : Math.max(lines(RIGHT), lines(LEFT)));
}

function fillBlock(view, block) {
  const rows = view.blocks.get(block);
  if (!rows || block.firstChild) return;
  view.nearby.unobserve(block);
  block.append(...rows.map((row) => buildRow(view, row)));
  block.style.minHeight = "";
  for (const row of rows) markRow(view, row);
}

function buildRow(view, row) {
  const changed = row.changes.length > 0;
  const element = make("div", changed ? "row changed" : "row");
  Object.assign(row, { element, pieces: null });
  if (view.isInline) {
    element.append(buildCell(view, row.parts, LEFT));
    return element;
  }
  element.append(
    buildCell(view, row.parts.filter(({ side }) => side !== RIGHT), LEFT),
    buildCell(view, row.parts.filter(({ side }) => side !== LEFT), RIGHT),
  );
  return element;
}

/** side: whose tokens colour what both texts hold. */
function buildCell(view, parts, side) {
  const cell = make("div", parts.some(({ change }) => change) ? "cell changed" : "cell");
  for (const part of parts) {
    if (!part.change) {
      fillPart(view, cell, part, side);
      continue;
    }
    const element = make(part.side === LEFT ? "del" : "ins", changeClass(part.change));
    element.title = part.side === LEFT ? view.words.onlyLeft : view.words.onlyRight;
    fillPart(view, element, part, part.side);
    element.onclick = () => goToDifference(view, part.change.number, { scroll: false });
    part.change.elements.push(element);
    if (part.change.number === view.current) element.classList.add("current");
    cell.append(element);
  }
  return cell;
}

function changeClass({ left, right }) {
  return Math.max(left.length, right.length) > LONG_DIFFERENCE ? "long" : "short";
}

/** The part's text; cut into coloured tokens where a metric is chosen and the side has tokens. */
function fillPart(view, element, part, side) {
  const tokens = view.metric && view.tokens[side];
  if (!tokens) {
    fillPlain(element, part.text, Boolean(part.change));
    return;
  }
  const from = side === LEFT ? part.left : part.right;
  const until = from + part.text.length;
  for (let i = Math.max(0, bound(tokens.starts, from, true) - 1); tokens.starts[i] < until; i++) {
    const start = Math.max(from, tokens.starts[i]) - from;
    const text = part.text.slice(start, tokens.starts[i + 1] - from);
    if (!text) continue;
    const span = make("span", `token ${levelClass(tokens.levels[i])}`.trim());
    span.title = `${view.metric.label} ${tokenValue(tokens, i)}`;
    fillPlain(span, text, Boolean(part.change));
    element.append(span);
  }
}

/** Line breaks that differ are marked; those of both texts end a row. */
function fillPlain(element, text, marked) {
  if (marked) fillText(element, text);
  else element.append(visible(text));
}

function toggleFold(view, section) {
  section.open = !section.open;
  if (section.open) section.element.append(...buildBlocks(view, section.rows));
  else section.element.replaceChildren(section.button);
  showFold(view, section);
  drawMapSoon(view);
}

function showFold(view, section) {
  const count = counted(section.rows.length, "equal line");
  section.button.textContent = section.open ? `fold ${count}` : `… ${count}`;
  section.button.setAttribute("aria-expanded", String(Boolean(section.open)));
}

/** All folds open, or all closed where all are open. */
function toggleFolds(view) {
  const folds = view.sections.filter(({ folded }) => folded);
  const opens = folds.some(({ open }) => !open);
  folds.filter(({ open }) => Boolean(open) !== opens).forEach((section) => toggleFold(view, section));
  view.ui.folds.setAttribute("aria-pressed", String(!opens));
  if (view.current !== null) scrollToDifference(view, view.differences[view.current]);
}
