// The legend's histogram and the map of the whole response.

const BINS = 50;
const BAND = 8;
const LEGEND_WIDTH = 150;
const LEGEND_HEIGHT = 30;
// No text lies on the map, so its colours may be stronger than a token's.
const MAP_CAP = 0.95;
const MOST_PIXELS_PER_TOKEN = 4;

/** A context in CSS pixels, sharp on every screen. */
function sharpContext(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

function drawLegend(view) {
  const { metric, ui } = view;
  const plain = !metric || !metric.scale.sorted.length || metric.spec.kind === "flag";
  ui.histogram.hidden = plain;
  if (plain) return;
  const [width, height] = [LEGEND_WIDTH, LEGEND_HEIGHT];
  const context = sharpContext(ui.histogram, width, height);
  const [from, to] = scaleEnds(metric.spec);
  const counts = histogram(metric, from, to);
  const tallest = Math.log1p(Math.max(...counts));
  const step = width / BINS;
  counts.forEach((count, bin) => {
    const level = Math.round((from + ((bin + 0.5) / BINS) * (to - from)) * LEVELS);
    context.fillStyle = shade(view.palette, level);
    context.fillRect(bin * step, height - BAND, step, BAND);
    context.fillStyle = view.textColour;
    context.globalAlpha = 0.5;
    const bar = (Math.log1p(count) / tallest) * (height - BAND - 2);
    context.fillRect(bin * step, height - BAND - 1 - bar, step - 0.8, bar);
    context.globalAlpha = 1;
  });
}

/** Where the legend begins and ends on the scale's -1..1, from the smallest value to the largest. */
function scaleEnds(spec) {
  if (spec.kind === "diverging") return [-1, 1];
  return spec.notable === "low" ? [-1, 0] : [0, 1];
}

function histogram(metric, from, to) {
  const counts = new Array(BINS).fill(0);
  for (const x of metric.scale.sorted) {
    const share = (metric.scale.of(x) - from) / (to - from);
    counts[Math.min(BINS - 1, Math.floor(share * BINS))] += 1;
  }
  return counts;
}

function mapHeight(view) {
  const tokens = view.rollout.texts.length;
  return Math.min(view.ui.map.clientHeight, tokens * MOST_PIXELS_PER_TOKEN);
}

/** Each row of the map shows the strongest of its tokens. */
function drawMapRows(view, context, width) {
  const { levels, rollout } = view;
  const height = mapHeight(view);
  const perRow = levels.length / height;
  for (let y = 0; y < height; y++) {
    const first = Math.floor(y * perRow);
    const last = Math.max(first + 1, Math.floor((y + 1) * perRow));
    let strongest = 0;
    for (let i = first; i < last && i < levels.length; i++) {
      if (levels[i] <= LEVELS && Math.abs(levels[i]) > Math.abs(strongest)) strongest = levels[i];
    }
    if (rollout.inLoss[first] === OUTSIDE) {
      context.fillStyle = view.faintColour;
      context.fillRect(0, y, 4, 1);
    }
    context.fillStyle = shade(view.palette, strongest, MAP_CAP);
    context.fillRect(7, y, width - 12, 1);
  }
}

function drawMap(view) {
  const { map } = view.ui;
  const [width, height] = [map.clientWidth, map.clientHeight];
  if (!view.rollout || !width || !height) return;
  const context = sharpContext(map, width, height);
  if (!view.rollout.texts.length) return;
  drawMapRows(view, context, width);
  drawMapMarks(view, context, width);
}

function drawMapMarks(view, context, width) {
  const scale = mapHeight(view) / view.rollout.texts.length;
  context.fillStyle = view.accentColour;
  for (const { first } of view.hits) context.fillRect(0, first * scale, 5, 2);
  if (view.pin !== null) {
    context.fillStyle = view.textColour;
    context.fillRect(0, view.pin * scale - 1, width, 2);
  }
  const [first, last] = tokensInSight(view);
  context.strokeStyle = view.accentColour;
  context.lineWidth = 1.5;
  const tall = Math.max(8, (last - first) * scale);
  context.strokeRect(1.5, Math.max(1, first * scale), width - 3, tall - 2);
}

/** First and last token that the flow shows now, by interpolation within the blocks. */
function tokensInSight(view) {
  const { flow } = view.ui;
  const top = flow.getBoundingClientRect().top;
  return [tokenAtHeight(view, top), tokenAtHeight(view, top + flow.clientHeight)];
}

function tokenAtHeight(view, y) {
  const { element, first, last } = view.blocks[blockAtHeight(view, y)];
  const box = element.getBoundingClientRect();
  const share = Math.max(0, Math.min(1, (y - box.top) / (box.height || 1)));
  return first + share * (last - first);
}

function tokenOnMap(view, event) {
  const tokens = view.rollout.texts.length;
  const share = event.offsetY / mapHeight(view);
  return Math.max(0, Math.min(tokens - 1, Math.floor(share * tokens)));
}
