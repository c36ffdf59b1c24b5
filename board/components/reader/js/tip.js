// The card at a token: five values under the pointer. It follows n and p; all values are in the panel.

const TIP_ROWS = 5;
const TIP_ALTERNATIVES = 4;
const TIP_GAP = 14;
// Behind the metric that colours, these say most about a token, as far as they are recorded.
const TELLING = [
  ...["k3", "prob", "ref_prob", "entropy", "advantages", "values", "returns", "mismatch_ratio"],
  ...["importance_ratio", "mismatch_kl", "sampling_prob", "logprobs"],
];

/** The metrics on the card: the chosen one, the telling ones, then the others in the menu's order. */
function tipMetrics(view) {
  const { metrics } = view.rollout;
  const isRecorded = (metric) => metric && (metric.absent === null || metric.absent.includes(0));
  const telling = TELLING.map((name) => metricNamed(view.rollout, name));
  const ranked = [...telling, ...metrics.filter(({ spec }) => spec.kind !== "flag"), ...metrics];
  return [...new Set([view.metric, ...ranked.filter(isRecorded)])].filter(Boolean).slice(0, TIP_ROWS);
}

function fillTip(view, i) {
  const head = make("div", "tip-head");
  head.append(make("span", "index", `#${withThousands(i)}`));
  head.append(make("span", "piece", oneLine(view.rollout.texts[i], 60)));
  const notes = tokenNotes(view, i).map((note) => make("span", "note", visible(note)));
  head.append(...notes);
  const parts = [head];
  const shown = tipMetrics(view);
  if (shown.length) parts.push(metricTable(shown.map((metric) => metricRow(view, metric, i, metric.spec.label))));
  view.ui.tip.replaceChildren(...parts, ...alternativesTable(view, i, TIP_ALTERNATIVES));
}

/** Beside the pointer and over the text, flipped to the side of the window that has room. */
function placeTip(view, { clientX, clientY }) {
  placeTipAt(view, { left: clientX, right: clientX, top: clientY, bottom: clientY });
}

function placeTipAt(view, place) {
  const { tip, root, flow } = view.ui;
  const frame = root.getBoundingClientRect();
  const limit = flow.getBoundingClientRect().right;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const right = place.right + TIP_GAP;
  const left = right + width <= limit ? right : Math.min(place.left - TIP_GAP, limit) - width;
  const below = place.bottom + TIP_GAP;
  const above = place.top - TIP_GAP - height;
  const top = below + height <= window.innerHeight ? below : Math.max(0, above);
  tip.style.left = `${Math.max(0, left - frame.left)}px`;
  tip.style.top = `${top - frame.top}px`;
}

function hideTip(view) {
  view.ui.tip.hidden = true;
  view.tipToken = null;
}

/** An open card goes along with n and p, and stays at its token until the pointer moves. */
function followTip(view, i) {
  if (view.ui.tip.hidden) return;
  view.tipToken = i;
  fillTip(view, i);
  placeTipAt(view, spanOf(view, i).getBoundingClientRect());
}

/** While the text scrolls a card that follows stays at its token; one of the pointer goes. */
function keepTip(view) {
  if (view.tipToken === null) return hideTip(view);
  placeTipAt(view, spanOf(view, view.tipToken).getBoundingClientRect());
}

/** Whether the text moved under a pointer that rests: browsers send an event for that too. */
function isScrolledUnder(view, { clientX, clientY }) {
  const place = `${clientX},${clientY}`;
  const rests = view.tipToken !== null && view.pointerAt === place;
  view.pointerAt = place;
  if (!rests && view.tipToken !== null) hideTip(view);
  return rests;
}
