// The strip chart: one or two metrics over the position, each on an axis of its own.

const STRIP_MARGIN = 5;

function stripKey(view) {
  return [view.rollout.signature, view.metric?.name, view.second?.name].join("|");
}

/** Smallest and largest finite value of the tokens in each pixel column; NaN where there is none. */
function envelope(metric, [from, to], columns) {
  const [low, high] = [new Float32Array(columns).fill(NaN), new Float32Array(columns).fill(NaN)];
  const perColumn = (to - from) / columns;
  for (let x = 0; x < columns; x++) {
    const first = Math.floor(from + x * perColumn);
    const last = Math.max(first + 1, Math.floor(from + (x + 1) * perColumn));
    for (let i = first; i < last && i < metric.values.length; i++) {
      const value = metric.values[i];
      if (!Number.isFinite(value) || isAbsent(metric, i)) continue;
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

function drawStrip(view, context, width, height) {
  const right = { width, height, colour: secondColour(view), left: false };
  const left = { width, height, colour: view.accentColour, left: true };
  const ends = [drawCurve(view, context, view.second, right), drawCurve(view, context, view.metric, left)];
  // Over both curves, or a line through a number reads as its sign.
  if (ends[0]) drawAxisEnds(view, context, ends[0], right);
  if (ends[1]) drawAxisEnds(view, context, ends[1], left);
}

function secondColour(view) {
  return shade(view.palette, LEVELS, 1);
}

/** The smallest and the largest value drawn; null where there is none. */
function drawCurve(view, context, metric, { width, height, colour, left }) {
  if (!metric) return null;
  const shape = envelope(metric, windowOf(view), Math.floor(width));
  const range = rangeOfEnvelope(shape);
  if (!range) return null;
  const [least, most] = range;
  const span = most - least || 1;
  const y = (value) => height - STRIP_MARGIN - ((value - least) / span) * (height - 2 * STRIP_MARGIN);
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
  context.globalAlpha = left ? 1 : 0.7;
  context.stroke();
  context.globalAlpha = 1;
  return range;
}

function drawCentre(view, context, metric, [least, most], y, width) {
  const { kind, centre } = metric.spec;
  if (kind !== "diverging" || centre < least || centre > most) return;
  context.fillStyle = view.faintColour;
  context.fillRect(0, y(centre), width, 1);
}

function drawAxisEnds(view, context, [least, most], { width, height, colour, left }) {
  context.font = `10.5px ${view.font}`;
  context.textAlign = left ? "left" : "right";
  const x = left ? 3 : width - 3;
  for (const [value, y] of [[most, 11], [least, height - 3]]) {
    const text = readable(value);
    const across = context.measureText(text).width + 6;
    context.fillStyle = view.pageColour;
    context.fillRect(left ? 0 : width - across, y - 10, across, 13);
    context.fillStyle = colour;
    context.fillText(text, x, y);
  }
}

/** The menu of the strip's second metric, and the first one's name in its colour. */
function fillStripChoice(view) {
  const { ui, rollout } = view;
  const none = make("option", "", "second metric …");
  none.value = -1;
  const options = rollout.metrics.map((metric, rank) => {
    const option = make("option", "", metric.spec.label);
    option.value = rank;
    return option;
  });
  ui.second.replaceChildren(none, ...options);
}

function chooseSecond(view, metric) {
  view.second = metric ?? null;
  view.ui.second.value = metric ? view.rollout.metrics.indexOf(metric) : -1;
  showStripNames(view);
  showReadout(view);
  drawPositions(view);
}

function showStripNames(view) {
  const { ui, metric } = view;
  ui.first.textContent = metric ? metric.spec.label : "";
  ui.first.title = ui.first.textContent;
  ui.second.style.color = view.second ? secondColour(view) : "";
}
