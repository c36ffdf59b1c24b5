// JSON with its keys, texts and numbers in colours: spans that hold text nodes, nothing else.

const JSON_PARTS = /("(?:\\.|[^"\\\n])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\btrue\b|\bfalse\b|\bnull\b)|[{}[\],:]/g;
// Longer ones stay plain: a span for each part would make the page heavy.
const LONGEST_COLOURED = 20_000;

function jsonElement(view, piece) {
  if (piece.box || piece.text.length > LONGEST_COLOURED) return pieceElement(view, piece);
  piece.box = make("div", piece.className);
  let at = 0;
  const append = (text, className) => {
    const node = document.createTextNode(text);
    const holder = className ? make("span", className) : piece.box;
    holder.append(node);
    if (className) piece.box.append(holder);
    piece.nodes.push({ node, start: at });
    at += text.length;
  };
  for (const found of piece.text.matchAll(JSON_PARTS)) {
    if (found.index > at) append(piece.text.slice(at, found.index), "");
    const [whole, text, colon, number] = found;
    if (text !== undefined) {
      append(text, colon === undefined ? "json-text" : "json-key");
      if (colon !== undefined) append(colon, "json-sign");
    } else append(whole, number === undefined ? "json-sign" : "json-number");
  }
  if (at < piece.text.length) append(piece.text.slice(at), "");
  piece.shown = piece.text.length;
  return piece.box;
}
