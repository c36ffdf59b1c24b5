// The strip chart: one or two metrics over the position, on one axis where they mean the same.

const STRIP_MARGIN = 5;
const STRIP_HEAD = 4;

function stripKey(view) {
  return [view.rollout.signature, view.spansKey, view.metric?.name, view.second?.name].join("|");
}

/** Smallest and largest finite value of the tokens in each pixel column that count, those in the loss where
 * any is, as in the colours; NaN where there is none. */
function envelope(metric, [from, to], columns, inLoss) {
  const [low, high] = [new Float32Array(columns).fill(NaN), new Float32Array(columns).fill(NaN)];
  const perColumn = (to - from) / columns;
  for (let x = 0; x < columns; x++) {
    const first = Math.floor(from + x * perColumn);
    const last = Math.max(first + 1, Math.floor(from + (x + 1) * perColumn));
    for (let i = first; i < last && i < metric.values.length; i++) {
      const value = metric.values[i];
      if (!Number.isFinite(value) || isAbsent(metric, i) || inLoss[i] === OUTSIDE) continue;
      if (!(low[x] <= value)) low[x] = value;
      if (!(high[x] >= value)) high[x] = value;
    }
  }
  return { low, high };
}

function rangeOfEnvelope({ low, high }) {
  let [least, most] = [Infinity, -Infinity];
  for (let x = 0; x < low.length; x++) {
    if (low[x] < least) least = low[x];
    if (high[x] > most) most = high[x];
  }
  return least <= most ? [least, most] : null;
}

/** Metrics of one meaning, such as value and return, lie on one axis: on two they would seem to cross. */
function sharesAxis(one, other) {
  return Boolean(one && other && one.spec.axis && one.spec.axis === other.spec.axis);
}

/** What each curve is drawn from: the second metric below, the chosen one over it; null without values. */
function curvesOf(view, columns) {
  const curves = [view.second, view.metric].map((metric, rank) => {
    if (!metric) return null;
    const shape = envelope(metric, windowOf(view), columns, view.rollout.inLoss);
    const range = rangeOfEnvelope(shape);
    const isSecond = rank === 0;
    const colour = isSecond ? secondColour(view) : firstColour(view);
    return range && { metric, shape, range, colour, isSecond, isLog: isLogCurve(metric, range) };
  });
  const [second, first] = curves;
  if (first && second && sharesAxis(first.metric, second.metric)) {
    const range = [Math.min(first.range[0], second.range[0]), Math.max(first.range[1], second.range[1])];
    const isLog = first.isLog && second.isLog;
    for (const curve of [first, second]) Object.assign(curve, { range, isLog, isShared: true });
  }
  return curves.filter(Boolean);
}

/** As its colours, where no value is negative. */
function isLogCurve({ scale }, [least, most]) {
  return Boolean(scale?.isLog && scale.floor !== undefined && least >= 0 && most > scale.floor);
}

function drawStrip(view, context, width, height) {
  const curves = curvesOf(view, Math.floor(width));
  for (const curve of curves) drawCurve(view, context, curve, width, height);
  // Over both curves, or a line through a number reads as its sign.
  for (const curve of curves) {
    if (!(curve.isShared && curve.isSecond)) drawAxisEnds(view, context, curve, width, height);
  }
}

function firstColour(view) {
  return shade(view.palette, SHADES, 1);
}

function secondColour(view) {
  return shade(view.palette, -SHADES, 1);
}

/** From a value to its height in the strip. */
function heightOf({ range: [least, most], isLog, metric }, height) {
  const top = STRIP_HEAD;
  const room = height - STRIP_MARGIN - top;
  if (isLog) {
    const along = between(metric.scale.floor, Math.max(most, metric.scale.floor * 10), true);
    return (value) => height - STRIP_MARGIN - along(value) * room;
  }
  const span = most - least || 1;
  return (value) => height - STRIP_MARGIN - ((value - least) / span) * room;
}

function drawCurve(view, context, curve, width, height) {
  const { shape, colour, isSecond, metric, range } = curve;
  const y = heightOf(curve, height);
  drawCentre(view, context, metric, range, y, width);
  context.strokeStyle = colour;
  context.lineWidth = 1.2;
  context.beginPath();
  let gap = true;
  shape.low.forEach((value, x) => {
    if (Number.isNaN(value)) return (gap = true);
    if (gap) context.moveTo(x + 0.5, y(shape.high[x]));
    context.lineTo(x + 0.5, y(shape.high[x]));
    context.lineTo(x + 0.5, y(value) + 0.01);
    return (gap = false);
  });
  // Where two curves lie over each other both are seen.
  context.globalAlpha = isSecond ? 0.7 : 1;
  context.stroke();
  context.globalAlpha = 1;
}

function drawCentre(view, context, metric, [least, most], y, width) {
  const { kind, centre } = metric.spec;
  if (kind !== "diverging" || centre < least || centre > most) return;
  context.fillStyle = view.faintColour;
  context.fillRect(0, y(centre), width, 1);
}

/** The ends of an axis: the first metric's at the left, the second's at the right. */
function drawAxisEnds(view, context, curve, width, height) {
  const { range, colour, isSecond, isShared, isLog, metric } = curve;
  const least = isLog ? metric.scale.floor : range[0];
  context.font = `11px ${view.font}`;
  context.textAlign = isSecond ? "right" : "left";
  const x = isSecond ? width - 3 : 3;
  for (const [value, y] of [[range[1], STRIP_HEAD + 8], [least, height - 3]]) {
    const text = readable(value);
    const across = context.measureText(text).width + 6;
    context.fillStyle = view.pageColour;
    context.fillRect(isSecond ? width - across : 0, y - 10, across, 13);
    context.fillStyle = isShared ? view.textColour : colour;
    context.fillText(text, x, y);
  }
}

/** The menu of the strip's second metric, and the first one's name in its colour. */
function fillStripChoice(view) {
  const { ui, rollout } = view;
  const none = make("option", "", "second metric …");
  none.value = -1;
  ui.second.replaceChildren(none, ...metricOptions(rollout));
}

function chooseSecond(view, metric) {
  view.second = metric ?? null;
  view.ui.second.value = metric ? view.rollout.metrics.indexOf(metric) : -1;
  showStripNames(view);
  showReadout(view);
  drawPositions(view);
}

/** Both names in the colours of their curves, and which axis is whose. */
function showStripNames(view) {
  const { ui, metric, second } = view;
  const shared = sharesAxis(metric, second);
  const axis = second ? (shared ? "one axis" : "axis at the left") : "";
  const log = metric?.scale?.isLog && metric.scale.floor !== undefined ? "log" : "";
  const words = metric ? [metric.spec.label, [axis, log].filter(Boolean).join(", ")] : [""];
  ui.first.replaceChildren(words[0], make("span", "axis", words[1] ? ` ${words[1]}` : ""));
  ui.first.style.setProperty("--ink", firstColour(view));
  ui.first.title = [...words, metric?.spec.formula].filter(Boolean).join(", ");
  ui.second.style.setProperty("--ink", second ? secondColour(view) : "transparent");
  ui.second.title = second && !shared ? `${second.spec.label}, axis at the right` : "";
}
