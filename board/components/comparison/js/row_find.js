// Matches in the two texts, looked for row by row: so those in rows that are not on the page count too.

/** What the finder needs to know of a comparison. */
function rowFinder(view) {
  return {
    texts: () => {
      const rows = view.sections.flatMap((section) => section.rows);
      view.searched = rows.flatMap((row) => cellTexts(view, row).map((text, cell) => ({ row, cell, text })));
      return view.searched.map(({ text }) => text);
    },
    take: (hits) => takeRowHits(view, hits),
    first: (direction) => (direction < 0 ? view.hits.length - 1 : 0),
    show: () => showRowHit(view),
  };
}

/** The texts of a row's cells as they are shown; one of both where they are equal. */
function cellTexts(view, { parts, changes }) {
  const shown = (without) => parts.filter(({ side }) => side !== without).map(({ text }) => visible(text)).join("");
  return view.isInline || !changes.length ? [shown(null)] : [shown(RIGHT), shown(LEFT)];
}

/** All matches are marked; one in text that both sides share counts once. */
function takeRowHits(view, hits) {
  for (const { row } of view.hits) row.hits = [];
  const found = hits.map(([rank, at, length]) => ({ ...view.searched[rank], at, length }));
  for (const { row } of found) row.hits = [];
  for (const hit of found) hit.row.hits.push(hit);
  view.hits = found.filter((hit) => !isShared(hit));
  markRows(view);
  drawMapSoon(view);
}

/** Whether a match in the right cell lies in a part that the left cell has too. */
function isShared({ row, cell, at, length }) {
  if (cell === 0) return false;
  let start = 0;
  for (const { side, text } of row.parts) {
    if (side === LEFT) continue;
    const end = start + visible(text).length;
    if (at >= start && at + length <= end) return side === BOTH;
    start = end;
  }
  return false;
}

function markRows(view) {
  clearTextMarks(view);
  for (const rows of view.blocks.values()) for (const row of rows) markRow(view, row);
}

function markRow(view, row) {
  for (const hit of row.hits ?? []) for (const piece of piecesOf(view, hit)) markHit(view, { ...hit, piece });
}

/** The cells on the page that show the text of a match. */
function piecesOf(view, { row, cell }) {
  if (!row.element) return [];
  row.pieces ??= [...row.element.children].map((box) => {
    const piece = { box, nodes: [], shown: 0 };
    listNodes(piece);
    return piece;
  });
  return row.changes.length ? [row.pieces[cell]] : row.pieces;
}

function showRowHit(view) {
  const hit = view.hits[view.hit];
  const { section } = hit.row;
  if (section.folded && !section.open) toggleFold(view, section);
  fillBlock(view, hit.row.block);
  showRangeOf(view, { ...hit, piece: piecesOf(view, hit)[0] });
  drawMapSoon(view);
}

/** Marks of the matches on the map, one a line of it at most. */
function drawHits(view, context, width, scale, colour) {
  const { flow } = view.ui;
  const from = flow.getBoundingClientRect().top - flow.scrollTop;
  const [drawn, boxes] = [new Set(), new Map()];
  context.fillStyle = colour;
  view.hits.forEach((hit, rank) => {
    const isNow = rank === view.hit;
    const y = Math.round((heightOfHit(hit, boxes) - from) * scale);
    if (drawn.has(y) && !isNow) return;
    drawn.add(y);
    context.fillRect(0, y, isNow ? width : 5, 2);
  });
}

/** As far down its row as the match is in its text; of a folded row the top of the fold. */
function heightOfHit({ row, at, text }, boxes) {
  const { element, block, share, section } = row;
  const shown = [element, block].find((one) => one?.isConnected);
  const box = boxOf(shown ?? section.element, boxes);
  if (!shown) return box.top;
  return box.top + box.height * (shown === element ? at / text.length : share);
}
