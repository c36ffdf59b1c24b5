// Stretches of two texts as rows of lines that stand beside each other.

// A longer piece is cut, so that no row is much taller than the view.
const MOST_PIECE = 3000;
// Unchanged rows shown before and after a difference, and how many more are worth a fold.
const CONTEXT_ROWS = 3;
const FEWEST_FOLDED = 4;

const LEFT = -1;
const BOTH = 0;
const RIGHT = 1;

/**
 * Rows in reading order, and the differences in them.
 *
 * stretches: [{left, right, equal, aligned}] of the whole texts. A row is {parts, changes}; a part is
 * {side, text, left, right, change}: of both texts or of one, with its offsets in them, and the
 * difference that it belongs to (null: none). A row ends where both texts have a line break.
 */
function rowsOf(stretches) {
  const state = { rows: [], differences: [], row: { parts: [], changes: [] }, left: 0, right: 0 };
  for (const stretch of stretches) {
    if (stretch.equal) addEqual(state, stretch.left);
    else addDifference(state, stretch);
  }
  if (state.row.parts.length) endRow(state);
  return { rows: state.rows, differences: state.differences };
}

function endRow(state) {
  state.rows.push(state.row);
  state.row = { parts: [], changes: [] };
}

function addPart(state, side, text, change) {
  if (!text) return;
  state.row.parts.push({ side, text, left: state.left, right: state.right, change });
  if (side !== RIGHT) state.left += text.length;
  if (side !== LEFT) state.right += text.length;
}

function addEqual(state, text) {
  for (const line of text.split(/(?<=\n)/)) {
    for (const piece of pieces(line)) {
      addPart(state, BOTH, piece, null);
      if (piece.endsWith("\n") || piece.length >= MOST_PIECE / 2) endRow(state);
    }
  }
}

function addDifference(state, { left, right, aligned }) {
  const change = { number: state.differences.length, left, right, aligned, elements: [], row: null, last: null };
  state.differences.push(change);
  const [own, other] = [pieces(left), pieces(right)];
  for (let i = 0; i < Math.max(own.length, other.length); i++) {
    if (i) endRow(state);
    state.row.changes.push(change);
    change.row ??= state.row;
    change.last = state.row;
    addPart(state, LEFT, own[i] ?? "", change);
    addPart(state, RIGHT, other[i] ?? "", change);
  }
}

/** The text in pieces of at most MOST_PIECE characters, cut after a line, else after a word. */
function pieces(text) {
  const found = [];
  let from = 0;
  while (text.length - from > MOST_PIECE) {
    const window = text.slice(from, from + MOST_PIECE);
    const end = window.lastIndexOf("\n") + 1 || window.lastIndexOf(" ") + 1 || wholeCharacters(window);
    found.push(text.slice(from, from + end));
    from += end;
  }
  found.push(text.slice(from));
  return found;
}

/** Length of the text without half a character at its end. */
function wholeCharacters(text) {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last < 0xdc00 ? text.length - 1 : text.length;
}

/**
 * Sections {rows, folded}: rows around differences, and long stretches of unchanged rows between.
 * Texts without a difference are one section that is not folded.
 */
function sectionsOf(rows) {
  if (!rows.some(({ changes }) => changes.length)) return [{ rows, folded: false }];
  const isNear = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (!row.changes.length) return;
    isNear.fill(1, Math.max(0, at - CONTEXT_ROWS), at + CONTEXT_ROWS + 1);
  });
  const sections = [];
  for (let from = 0; from < rows.length; ) {
    let to = from;
    while (to < rows.length && isNear[to] === isNear[from]) to++;
    const folded = !isNear[from] && to - from >= FEWEST_FOLDED;
    sections.push({ rows: rows.slice(from, to), folded });
    from = to;
  }
  return sections;
}
