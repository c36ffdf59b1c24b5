// A text on the page as chunks that the browser lays out only near the part in view. All text goes
// into text nodes; a piece knows them, so that matches in its text can be marked.

const CHUNK_CHARACTERS = 4096;
// A line longer than this is cut: it would have to be laid out as a whole.
const LONGEST_LINE = 65_536;
const LINE_PIXELS = { say: 19, pre: 17 };
const CHARACTERS_A_LINE = 100;
const LEAST_MORE_LINES = 3;

/** A stretch of text of a turn, to be searched and shown. `lines`: shown at first, all where undefined. */
function makePiece({ pieces }, text, className, { lines, fold } = {}) {
  const piece = { text: visible(text), className, fold, lines, nodes: [], shown: 0, box: null, more: null };
  pieces.push(piece);
  return piece;
}

/** The element of a piece, made on the first call. */
function pieceElement(view, piece) {
  if (piece.box) return piece.box;
  piece.box = make("div", piece.className);
  const end = cutAt(piece.text, piece.lines);
  appendChunks(piece, end);
  if (end < piece.text.length) piece.box.append(moreButton(view, piece, end));
  return piece.box;
}

/** Where a text is cut so that about `lines` of it are shown; its end where little would be hidden. */
function cutAt(text, lines) {
  if (lines === undefined) return text.length;
  let end = -1;
  for (let line = 0; line < lines; line++) {
    end = text.indexOf("\n", end + 1);
    if (end < 0) break;
  }
  const most = lines * CHARACTERS_A_LINE * 2;
  if (end >= 0 && end <= most) {
    const rest = text.slice(end + 1, end + 1 + LEAST_MORE_LINES * CHARACTERS_A_LINE);
    const isLittle = end + 1 + rest.length >= text.length && rest.split("\n").length <= LEAST_MORE_LINES;
    return isLittle ? text.length : end;
  }
  return text.length > most * 1.3 ? most : text.length;
}

function moreButton(view, piece, end) {
  const lines = countLines(piece.text.slice(end + 1));
  const rest = piece.text.length - end;
  const words = lines > 1 ? `+${withThousands(lines)} lines` : `+${withThousands(rest)} characters`;
  piece.more = makeButton("more", words, "", () => {
    showAllOf(piece);
    markTextHits(view);
    drawMap(view);
  });
  return piece.more;
}

function showAllOf(piece) {
  if (!piece.more) return;
  piece.more.remove();
  piece.more = null;
  // The line break before the hidden part is a break between two chunks.
  if (piece.text[piece.shown] === "\n") piece.shown += 1;
  appendChunks(piece, piece.text.length);
}

/** One of several: laid out on sight, and until then as high as its lines make likely. */
function sizeChunk(chunk, text, className) {
  chunk.classList.add("far");
  const lines = Math.max(countLines(text), text.length / CHARACTERS_A_LINE);
  chunk.style.containIntrinsicSize = `auto ${Math.round(lines * LINE_PIXELS[className])}px`;
}

function countLines(text) {
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < text.length - 1; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}

/** Appends the text from where it was shown to `end`, cut after line breaks. */
function appendChunks(piece, end) {
  const { text, box, className } = piece;
  let first = piece.shown;
  do {
    let last = text.indexOf("\n", first + CHUNK_CHARACTERS);
    if (last < 0 || last > end) last = end;
    last = Math.min(last, first + LONGEST_LINE);
    const node = document.createTextNode(text.slice(first, last));
    const chunk = make("div", "chunk");
    chunk.append(node);
    if (last - first < piece.text.length) sizeChunk(chunk, node.data, className);
    box.append(chunk);
    piece.nodes.push({ node, start: first });
    first = text[last] === "\n" && last < end ? last + 1 : last;
  } while (first < end);
  piece.shown = end;
}
