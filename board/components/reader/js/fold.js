// What folds: turns, thinking and tool output; all of a kind with one key.

const FIRST_WORDS = 240;

/**
 * Something that folds. `button` folds and unfolds it, `words` stand for it while it is folded, `body` is
 * hidden; `fill` makes the body's contents when they are first shown.
 */
function makeFold(view, kind, { button, words, body, fill, parent }) {
  const entry = { kind, body, parent, folded: null, isFilled: false };
  entry.set = (folded) => {
    if (folded === entry.folded) return;
    entry.folded = folded;
    if (!folded && !entry.isFilled) {
      entry.isFilled = true;
      fill?.();
    }
    body.hidden = folded;
    if (words) words.hidden = !folded;
    button.setAttribute("aria-expanded", String(!folded));
  };
  button.onclick = () => {
    entry.set(!entry.folded);
    afterFolding(view);
  };
  view.folds.push(entry);
  return entry;
}

/** Matches in what came to light are marked, the map and the outline follow. */
function afterFolding(view) {
  listShownBlocks(view);
  fillInSight(view);
  markTextHits(view);
  drawMap(view);
  moveSight(view);
}

/** Folds or unfolds all of a kind ("tool", "thinking"), and remembers it for the next rollout. */
function foldAll(view, kind) {
  const folded = !prefers(view, FOLD_CHOICES[kind]);
  remember(view, FOLD_CHOICES[kind], folded);
  keepPlace(view, () => {
    for (const entry of view.folds) if (entry.kind === kind) entry.set(folded);
  });
  showFoldButtons(view);
  afterFolding(view);
}

const FOLD_CHOICES = { tool: "foldTool", thinking: "foldThinking" };

function showFoldButtons(view) {
  const { turns } = view.rollout;
  const kinds = turns ? foldKindsOf(turns) : new Set(view.folds.map(({ kind }) => kind));
  for (const [kind, name] of Object.entries(FOLD_CHOICES)) {
    const button = kind === "tool" ? view.ui.foldTool : view.ui.foldThinking;
    button.hidden = !kinds.has(kind);
    button.setAttribute("aria-pressed", String(prefers(view, name)));
  }
  const none = view.ui.foldTool.hidden && view.ui.foldThinking.hidden;
  view.ui.root.classList.toggle("without-folds", none);
}

/** Changes what is shown and leaves the turn that stands at the top where it is. */
function keepPlace(view, change) {
  const section = view.sections[currentSection(view)]?.element;
  const top = section?.getBoundingClientRect().top;
  change();
  if (section) view.ui.flow.scrollTop += section.getBoundingClientRect().top - top;
}

/** Opens every fold around a piece, and shows the whole of it. */
function revealPiece(view, piece) {
  for (let fold = piece.fold; fold; fold = fold.parent) fold.set(false);
  piece.finish?.();
  if (piece.box) showAllOf(piece);
}

function firstWords(text) {
  return oneLine(text.slice(0, 4 * FIRST_WORDS).trim().replace(/\s+/g, " "), FIRST_WORDS);
}

// --- system prompts ------------------------------------------------------------------------------

const SEEN_KEY = "rollout-board.seen-prompts";
const MOST_SEEN = 300;

/** Whether this prompt was shown before on this machine; from now on it was. */
function wasSeen(text) {
  const hash = hashOf(text);
  const seen = stored(SEEN_KEY, []);
  if (seen.includes(hash)) return true;
  store(SEEN_KEY, [...seen.slice(1 - MOST_SEEN), hash]);
  return false;
}

/** FNV-1a over the characters. */
function hashOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return `${text.length}.${(hash >>> 0).toString(36)}`;
}
