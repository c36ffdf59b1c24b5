// What strip chart and heat map share: which tokens they span, zooming, and the marks over them.

const LEAST_WINDOW = 16;
const DRAG_PIXELS = 4;

/** Tokens from..to lie across the width; the whole response unless zoomed. */
function windowOf(view) {
  return view.window ?? [0, Math.max(1, view.rollout.texts.length)];
}

function xOfToken(view, i, width) {
  const [from, to] = windowOf(view);
  return ((i + 0.5 - from) / (to - from)) * width;
}

function tokenAtX(view, x, width) {
  const [from, to] = windowOf(view);
  const i = Math.floor(from + (x / width) * (to - from));
  return Math.max(0, Math.min(view.rollout.texts.length - 1, i));
}

/** The user's choice of a stretch: shown at once, then told to Python. */
function pickZoom(view, window) {
  zoomTo(view, window);
  const [from, to] = view.window ?? [0, 0];
  const last = Math.min(view.rollout.texts.length, Math.ceil(to)) - 1;
  report(view, "zoom", view.window && [Math.floor(from), last]);
}

function zoomTo(view, window) {
  const count = view.rollout.texts.length;
  let [from, to] = window ?? [0, count];
  const missing = Math.min(count, LEAST_WINDOW) - (to - from);
  if (missing > 0) [from, to] = [from - missing / 2, to + missing / 2];
  [from, to] = [Math.max(0, Math.min(from, count)), Math.min(count, to)];
  view.window = to - from >= count ? null : [from, to];
  view.ui.whole.hidden = view.window === null;
  drawPositions(view);
}

/** Once a frame, however many things ask for it. */
function drawPositions(view) {
  moveSight(view);
  cancelAnimationFrame(view.frames.lanes);
  view.frames.lanes = requestAnimationFrame(() => {
    if (!view.rollout || view.rollout.turns) return;
    drawLane(view, view.ui.strip, stripKey(view), drawStrip);
    if (!view.ui.heatLane.hidden) drawLane(view, view.ui.heat, heatKey(view), drawHeat);
  });
}

/** The picture below the marks is drawn anew only when what it shows has changed. */
function drawLane(view, canvas, what, draw) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width || !height) return;
  const key = [what, width, height, view.theme, view.window, window.devicePixelRatio].join("|");
  const context = sharpContext(canvas, width, height);
  if (!view.rollout.texts.length) return;
  if (canvas.pictureKey !== key) {
    canvas.picture = document.createElement("canvas");
    draw(view, sharpContext(canvas.picture, width, height), width, height);
    canvas.pictureKey = key;
  }
  context.drawImage(canvas.picture, 0, 0, width, height);
  drawPositionMarks(view, context, width, height);
}

function drawPositionMarks(view, context, width, height) {
  context.fillStyle = view.accentColour;
  for (const { first: hit } of tokenHits(view)) context.fillRect(xOfToken(view, hit, width) - 1, 0, 2, 4);
  const line = (i, thick, alpha) => {
    context.globalAlpha = alpha;
    context.fillRect(xOfToken(view, i, width) - thick / 2, 0, thick, height);
  };
  context.fillStyle = view.textColour;
  if (view.pin !== null) line(view.pin, 2, 1);
  if (view.pointed !== null) line(view.pointed, 1, 0.6);
  context.globalAlpha = 0.2;
  if (view.drag) context.fillRect(view.drag[0], 0, view.drag[1] - view.drag[0], height);
  context.globalAlpha = 1;
}

/** The stretch that the text shows now, on map, strip and heat map, once a frame. */
function moveSight(view) {
  cancelAnimationFrame(view.frames.sight);
  view.frames.sight = requestAnimationFrame(() => {
    const { ui, rollout } = view;
    if (rollout.turns) return moveTurnSight(view);
    const sights = [ui.mapSight, ui.stripSight, ui.heatSight];
    const [first, last] = rollout.texts.length ? tokensInSight(view) : [0, 0];
    // Not worth a mark where it is all there is.
    const isAll = last - first >= rollout.texts.length - 1;
    for (const sight of sights) sight.hidden = isAll;
    showCurrent(view);
    if (isAll) return;
    moveMapSight(view, [first, last]);
    for (const lane of sights.slice(1)) moveLaneSight(view, lane, [first, last]);
  });
}

function moveLaneSight(view, { style, parentElement }, [first, last]) {
  const width = parentElement.clientWidth;
  const left = xOfToken(view, first - 0.5, width);
  style.transform = `translateX(${left.toFixed(1)}px)`;
  style.width = `${Math.max(2, xOfToken(view, last - 0.5, width) - left).toFixed(1)}px`;
}

/** The token under the pointer, wherever it is pointed at: shown in text, strip and heat map alike. */
function point(view, i) {
  if (i === view.pointed) return;
  if (view.pointed !== null) setMark(view, view.pointed, POINTED, false);
  view.pointed = i;
  if (i !== null) setMark(view, i, POINTED, true);
  showReadout(view);
  drawPositions(view);
}

function showReadout(view) {
  const { rollout, metric, second, ui } = view;
  const i = view.pointed ?? view.pin;
  ui.readout.classList.toggle("hint", i === null);
  if (i === null) {
    ui.readout.textContent = "drag to zoom, click to go there";
    return;
  }
  const words = [metric, second].filter(Boolean).map((shown) => {
    const { text, unit } = valueWords(shown, i);
    return `${shown.spec.label} ${[text, unit].filter(Boolean).join(" ")}`;
  });
  ui.readout.textContent = [`#${withThousands(i)} ${oneLine(rollout.texts[i], 20)}`, ...words].join(" · ");
}

function bindPositions(view, canvas) {
  let start = null;
  const at = (event) => Math.max(0, Math.min(canvas.clientWidth, event.offsetX));
  const token = (event) => tokenAtX(view, at(event), canvas.clientWidth);
  canvas.onpointerdown = (event) => {
    start = at(event);
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    if (!view.rollout.texts.length) return;
    const far = start !== null && Math.abs(at(event) - start) > DRAG_PIXELS;
    view.drag = far ? [Math.min(start, at(event)), Math.max(start, at(event))] : null;
    point(view, token(event));
    drawPositions(view);
  };
  canvas.onpointerup = (event) => {
    if (!view.rollout.texts.length || start === null) return;
    if (view.drag) pickZoom(view, view.drag.map((x) => tokenAtX(view, x, canvas.clientWidth)));
    else goTo(view, token(event), { now: true });
    start = view.drag = null;
  };
  canvas.onpointerleave = () => point(view, null);
  canvas.ondblclick = () => pickZoom(view, null);
}
