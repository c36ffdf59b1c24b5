// The map of a conversation: its turns in the colours of their roles, as high as they stand on the page.

const ROLE_NAMES = { user: "user", system: "system", developer: "system", prompt: "system", tool: "tool", environment: "tool", function: "tool" };

function drawTurnMap(view, context, width, height) {
  const { flow, root } = view.ui;
  const frame = flow.getBoundingClientRect();
  const scale = Math.min(height, flow.scrollHeight) / flow.scrollHeight;
  const style = getComputedStyle(root);
  const { scrollTop } = flow;
  const at = (y) => (y - frame.top + scrollTop) * scale;
  const names = ["assistant", "user", "system", "tool", "error"];
  const colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--role-${name}`)]));
  for (const { element, role, failure } of view.sections) {
    const box = element.getBoundingClientRect();
    const [top, tall] = [at(box.top), Math.max(1, box.height * scale - 1)];
    context.fillStyle = colours[ROLE_NAMES[role] ?? "assistant"];
    context.globalAlpha = 0.55;
    context.fillRect(9, top, width - 18, tall);
    context.globalAlpha = 1;
    context.fillStyle = colours.error;
    if (failure) context.fillRect(width - 7, top, 4, Math.max(2, Math.min(tall, 6)));
  }
  drawTurnHits(view, context, width, at, style.getPropertyValue("--hit-now"));
}

/** A mark a row of the map at most; a folded match is marked where its fold stands. */
function drawTurnHits(view, context, width, at, colour) {
  const [marked, boxes] = [new Set(), new Map()];
  context.fillStyle = colour;
  view.hits.forEach((hit, rank) => {
    const y = Math.round(at(heightOfHit(hit, boxes)));
    if (marked.has(y) && rank !== view.hit) return;
    marked.add(y);
    const isNow = rank === view.hit;
    context.fillRect(0, y - (isNow ? 1 : 0), isNow ? width : 7, isNow ? 3 : 2);
  });
}

/** Of the chunk that holds it, as far down as the match stands in its text. */
function heightOfHit({ piece, at }, boxes) {
  const entry = nodeAt(piece, at);
  let fold = piece.fold;
  for (let outer = fold; outer; outer = outer.parent) if (outer.folded) fold = outer;
  if (!entry || fold?.folded) {
    const anchor = entry && !fold?.folded ? piece.box : fold.body.parentElement;
    return boxOf(anchor, boxes).top;
  }
  const box = boxOf(entry.node.parentElement, boxes);
  return box.top + (box.height * (at - entry.start)) / Math.max(1, entry.node.length);
}

function moveTurnSight(view) {
  const { flow, map, mapSight } = view.ui;
  const scale = Math.min(map.clientHeight, flow.scrollHeight) / flow.scrollHeight;
  mapSight.hidden = flow.scrollHeight <= flow.clientHeight + 1;
  mapSight.style.transform = `translateY(${(flow.scrollTop * scale).toFixed(1)}px)`;
  mapSight.style.height = `${Math.max(8, flow.clientHeight * scale).toFixed(1)}px`;
  showCurrent(view);
}

function scrollTurnsTo(view, event) {
  const { flow, map } = view.ui;
  const scale = Math.min(map.clientHeight, flow.scrollHeight) / flow.scrollHeight;
  flow.scrollTop = event.offsetY / scale - flow.clientHeight / 2;
}
