// The legend: the scale's colours under the histogram of the values, its ends in numbers, what lies beyond.

const BINS = 48;
const BAND = 5;
const LEGEND_WIDTH = 120;
const LEGEND_HEIGHT = 18;

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
  const scale = view.rollout.texts.length ? metric?.scale : null;
  ui.range.textContent = scale ? scale.caption : "";
  ui.range.title = scale ? legendTitle(metric) : "";
  if (scale && countBeyond(scale.sorted, scale.isBeyond)) {
    ui.range.append(" ", make("span", "underlined", "underlined"));
  }
  ui.ends ??= endsAround(ui.histogram);
  const drawn = Boolean(scale?.span);
  ui.histogram.hidden = ui.ends[0].hidden = ui.ends[1].hidden = !drawn;
  if (!drawn) return;
  scale.ends.forEach((text, rank) => (ui.ends[rank].textContent = text));
  drawHistogram(view, scale);
}

function legendTitle({ scale, spec }) {
  const log = scale.isLog ? "Colours on a log scale: the values span several powers of ten." : "";
  return [spec.label, scale.ends?.join(" to "), scale.caption, log].filter(Boolean).join("\n");
}

function endsAround(histogram) {
  const ends = [make("span", "end"), make("span", "end")];
  histogram.before(ends[0]);
  histogram.after(ends[1]);
  return ends;
}

function drawHistogram(view, scale) {
  const [width, height] = [LEGEND_WIDTH, LEGEND_HEIGHT];
  const context = sharpContext(view.ui.histogram, width, height);
  const [from, to] = scale.span;
  const counts = histogram(scale);
  const tallest = Math.log1p(Math.max(...counts));
  const step = width / BINS;
  context.fillStyle = view.trackColour;
  context.fillRect(0, height - BAND, width, BAND);
  counts.forEach((count, bin) => {
    const place = from + ((bin + 0.5) / BINS) * (to - from);
    context.fillStyle = shade(view.palette, scale.tint(place) * SHADES);
    context.fillRect(bin * step, height - BAND, step, BAND);
    context.fillStyle = view.textColour;
    context.globalAlpha = 0.5;
    const bar = (Math.log1p(count) / tallest) * (height - BAND - 2);
    context.fillRect(bin * step, height - BAND - 1 - bar, step - 0.6, bar);
    context.globalAlpha = 1;
  });
}

/** Values by their place on the scale, from its one end to the other. */
function histogram(scale) {
  const [from, to] = scale.span;
  const counts = new Array(BINS).fill(0);
  for (const x of scale.sorted) {
    const share = (scale.place(x) - from) / (to - from);
    counts[Math.min(BINS - 1, Math.floor(share * BINS))] += 1;
  }
  return counts;
}
