// The map of the whole rollout beside the text.

// No text lies on the map, so its colours may be stronger than a token's.
const MAP_CAP = 0.95;
const MOST_PIXELS_PER_TOKEN = 4;

function mapHeight(view) {
  const tokens = view.rollout.texts.length;
  return Math.min(view.ui.map.clientHeight, tokens * MOST_PIXELS_PER_TOKEN);
}

function drawMap(view) {
  const { map } = view.ui;
  const [width, height] = [map.clientWidth, map.clientHeight];
  if (!view.rollout || !width || !height) return;
  const context = sharpContext(map, width, height);
  if (view.rollout.turns) return drawTurnMap(view, context, width, height);
  if (!view.rollout.texts.length) return;
  drawMapRows(view, context, width);
  drawMapMarks(view, context, width);
}

/** The strongest level among tokens first..last-1; a mask's hits are joined. */
function strongestLevel(levels, first, last) {
  let strongest = 0;
  for (let i = first; i < last; i++) {
    const level = levels[i];
    if (level >= HIT_A) strongest = strongest >= HIT_A && strongest !== level ? HIT_BOTH : level;
    else if (level <= LEVELS && Math.abs(level) > Math.abs(strongest)) strongest = level;
  }
  return strongest;
}

/** Each row of the map shows the strongest of its tokens. */
function drawMapRows(view, context, width) {
  const { levels, rollout } = view;
  const height = mapHeight(view);
  const perRow = levels.length / height;
  for (let y = 0; y < height; y++) {
    const first = Math.floor(y * perRow);
    const last = Math.min(levels.length, Math.max(first + 1, Math.floor((y + 1) * perRow)));
    if (rollout.inLoss[first] === OUTSIDE) {
      context.fillStyle = view.faintColour;
      context.fillRect(0, y, 4, 1);
    }
    drawMapRow(view, context, strongestLevel(levels, first, last), y, width - 12);
  }
}

function drawMapRow(view, context, level, y, width) {
  if (level < HIT_A) {
    context.fillStyle = shade(view.palette, level, MAP_CAP);
    context.fillRect(7, y, width, 1);
    return;
  }
  context.fillStyle = shade(view.palette, SHADES, MAP_CAP);
  if (level !== HIT_B) context.fillRect(7, y, width / 2, 1);
  context.fillStyle = shade(view.palette, -SHADES, MAP_CAP);
  if (level !== HIT_A) context.fillRect(7 + width / 2, y, width / 2, 1);
}

function drawMapMarks(view, context, width) {
  const scale = mapHeight(view) / view.rollout.texts.length;
  context.fillStyle = view.accentColour;
  for (const { first } of tokenHits(view)) context.fillRect(0, first * scale, 5, 2);
  context.fillStyle = view.textColour;
  if (view.pin !== null) context.fillRect(0, view.pin * scale - 1, width, 2);
}

/** What the text shows now, marked on the map: an element over it, which moves without a drawing. */
function moveMapSight(view, [first, last]) {
  const scale = mapHeight(view) / view.rollout.texts.length;
  const tall = Math.max(8, (last - first) * scale);
  const { style } = view.ui.mapSight;
  style.transform = `translateY(${(first * scale).toFixed(1)}px)`;
  style.height = `${tall.toFixed(1)}px`;
}

function tokenOnMap(view, event) {
  const tokens = view.rollout.texts.length;
  const share = event.offsetY / mapHeight(view);
  return Math.max(0, Math.min(tokens - 1, Math.floor(share * tokens)));
}

/** A click goes there; holding and dragging scrolls through. */
function bindMap(view) {
  const { map } = view.ui;
  const go = (event) => {
    if (view.rollout?.turns) scrollTurnsTo(view, event);
    else if (view.spans?.length) scrollToToken(view, tokenOnMap(view, event));
  };
  map.onpointerdown = (event) => {
    map.setPointerCapture(event.pointerId);
    go(event);
  };
  map.onpointermove = (event) => map.hasPointerCapture(event.pointerId) && go(event);
}
