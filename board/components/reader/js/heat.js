// The heat map: every metric over the position, a row each, each row on its own scale.

const HEAT_ROW = 17;
const HEAT_GAP = 3;

function heatKey(view) {
  const prepared = view.rollout.metrics.filter(({ levels }) => levels).length;
  return [view.rollout.signature, view.spansKey, prepared].join("|");
}

function showHeat(view, wanted) {
  const { ui, rollout } = view;
  const hidden = !wanted || !rollout.metrics.length;
  const isDone = ui.heatLane.hidden === hidden && view.heatOf === rollout;
  if (isDone) return;
  Object.assign(view, { heatOf: rollout });
  ui.heatLane.hidden = hidden;
  ui.heatButton.hidden = !rollout.metrics.length;
  ui.heatButton.setAttribute("aria-pressed", String(!hidden));
  ui.heat.style.height = `${rollout.metrics.length * HEAT_ROW}px`;
  const names = rollout.metrics.map((metric) =>
    makeButton("heat-name", metric.spec.label, heatTitle(metric), () => pick(view, metric)),
  );
  ui.heatNames.replaceChildren(...names);
  markHeatName(view);
  prepareLater(view);
  drawPositions(view);
}

function heatTitle(metric) {
  return [metric.spec.label, metric.spec.formula].filter(Boolean).join("\n");
}

function markHeatName(view) {
  view.rollout.metrics.forEach((metric, rank) => {
    view.ui.heatNames.children[rank]?.classList.toggle("chosen", metric === view.metric);
  });
}

/** Scales and levels of the metrics that no one has chosen yet, one after the other. */
function prepareLater(view) {
  const { rollout, ui } = view;
  overFrames(view, "heat", () => {
    const next = rollout.metrics.find(({ levels }) => !levels);
    if (!next || ui.heatLane.hidden) return false;
    prepare(rollout, next);
    drawPositions(view);
    return true;
  });
}

/** One pixel a column and a row, then stretched: a rectangle each would take many times as long. */
function drawHeat(view, context, width) {
  const { rollout } = view;
  const columns = Math.floor(width);
  const pixels = new ImageData(columns, rollout.metrics.length);
  const colours = heatColours(view);
  rollout.metrics.forEach((metric, row) => {
    if (!metric.levels) return;
    const { levels } = metric;
    fillHeatRow(new Uint32Array(pixels.data.buffer, row * columns * 4, columns), levels, windowOf(view), colours);
  });
  const small = document.createElement("canvas");
  [small.width, small.height] = [columns, rollout.metrics.length];
  small.getContext("2d").putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  rollout.metrics.forEach((metric, row) => {
    const y = row * HEAT_ROW;
    context.fillStyle = view.trackColour;
    context.fillRect(0, y, width, HEAT_ROW - HEAT_GAP);
    context.drawImage(small, 0, row, columns, 1, 0, y, width, HEAT_ROW - HEAT_GAP);
  });
}

function fillHeatRow(row, levels, [from, to], colours) {
  const perColumn = (to - from) / row.length;
  for (let x = 0; x < row.length; x++) {
    const first = Math.floor(from + x * perColumn);
    const last = Math.min(levels.length, Math.max(first + 1, Math.floor(from + (x + 1) * perColumn)));
    row[x] = colours[heatLevel(levels, first, last) + LEVELS];
  }
}

/** The strongest level; absent only where nothing at all is recorded. */
function heatLevel(levels, first, last) {
  let absent = first < last;
  for (let i = first; i < last && absent; i++) absent = levels[i] > LEVELS;
  return absent ? ABSENT : strongestLevel(levels, first, last);
}

/** Colours by level + LEVELS as the bytes of a pixel; what is not recorded stays clear. */
function heatColours(view) {
  const colours = new Uint32Array(2 * LEVELS + 2);
  for (let level = -LEVELS; level <= LEVELS; level++) {
    const [r, g, b, alpha] = inkOf(view.palette, level, MAP_CAP);
    colours[level + LEVELS] = ((Math.round(255 * alpha) << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }
  const [r, g, b] = view.palette.none;
  colours[ABSENT + LEVELS] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  return colours;
}
