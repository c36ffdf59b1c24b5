// The legend: the scale's colours under the histogram of the values, its ends in numbers, what lies beyond.

const BINS = 48;
const BAND = 5;
const LEGEND_WIDTH = 120;
const LEGEND_HEIGHT = 18;
const BEYOND_WIDTH = 26;
const BEYOND_GAP = 2;

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
  // How many values lie beyond the range is said last, and is underlined as they are.
  const [range, ...beyond] = (scale?.caption ?? "").split(" · ");
  ui.range.replaceChildren(range, ...beyond.flatMap((words) => [" · ", make("span", "underlined", words)]));
  ui.range.title = scale ? legendTitle(metric) : "";
  ui.ends ??= endsAround(ui.histogram);
  const drawn = Boolean(scale?.span);
  ui.histogram.hidden = ui.ends[0].hidden = ui.ends[1].hidden = !drawn;
  if (!drawn) return;
  scale.ends.forEach((text, rank) => (ui.ends[rank].textContent = text));
  drawHistogram(view, scale);
}

function legendTitle({ scale, spec }) {
  const log = scale.isLog ? "Colours on a log scale: the values span several powers of ten." : "";
  const full = scale.sides?.some(Boolean) ? "Full colours: beyond that range, the furthest value alone in the last." : "";
  return [spec.label, scale.ends?.join(" to "), scale.caption, full, log].filter(Boolean).join("\n");
}

function endsAround(histogram) {
  const ends = [make("span", "end"), make("span", "end")];
  histogram.before(ends[0]);
  histogram.after(ends[1]);
  return ends;
}

function drawHistogram(view, scale) {
  const [all, height] = [LEGEND_WIDTH, LEGEND_HEIGHT];
  const context = sharpContext(view.ui.histogram, all, height);
  const [left, right] = scale.sides.map((hasBeyond) => (hasBeyond ? BEYOND_WIDTH : 0));
  drawBeyond(view, context, scale.sides, all, height);
  context.translate(left, 0);
  const width = all - left - right;
  const [from, to] = scale.span;
  const counts = histogram(scale);
  const tallest = Math.log1p(Math.max(1, ...counts));
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

/** The full colours of values beyond the range, at the ends that have them. */
function drawBeyond(view, context, sides, all, height) {
  const step = (BEYOND_WIDTH - BEYOND_GAP) / BEYOND;
  for (let excess = 1; excess <= BEYOND; excess++) {
    sides.forEach((hasBeyond, right) => {
      if (!hasBeyond) return;
      context.fillStyle = shade(view.palette, right ? SHADES + excess : -SHADES - excess);
      context.fillRect(right ? all - (BEYOND - excess + 1) * step : (BEYOND - excess) * step, 0, step, height);
    });
  }
}

/** Values by their place on the scale, from its one end to the other. */
function histogram(scale) {
  const [from, to] = scale.span;
  const counts = new Array(BINS).fill(0);
  for (const x of scale.sorted) {
    if (scale.excess(x)) continue;
    const share = (scale.place(x) - from) / (to - from);
    counts[Math.min(BINS - 1, Math.floor(share * BINS))] += 1;
  }
  return counts;
}
