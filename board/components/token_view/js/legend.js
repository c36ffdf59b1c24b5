// The legend: the scale's colours under the histogram of the values.

const BINS = 50;
const BAND = 8;
const LEGEND_WIDTH = 150;
const LEGEND_HEIGHT = 30;

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
