// Draws the line of the chosen step over every curve, beside the figures: a figure that changed
// would be mounted anew, which costs a tenth of a second each and loses the reader's zoom.

const LINE = "rollout-board-step-line";
const known = new WeakSet();
let shown = null; // {step, colour, charts: a selector, tell} while a marker is on the page
let zooms = {}; // by the key of a chart: {x: [from, to], y: [from, to]}, what was not zoomed left out
let asked = false;

export default function (component) {
  const { step, charts } = component.data;
  const place = component.parentElement.host ?? component.parentElement; // a shadow root has no style
  const colour = getComputedStyle(place).getPropertyValue("--st-text-color");
  const tell = (found) => component.setStateValue("zooms", found);
  shown = { step, charts, colour, tell };
  const watch = new MutationObserver(drawSoon);
  watch.observe(document.body, { childList: true, subtree: true });
  drawSoon();
  return () => {
    watch.disconnect();
    shown = null;
    for (const line of document.querySelectorAll(`.${LINE}`)) line.remove();
  };
}

function drawSoon() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (shown) for (const plot of document.querySelectorAll(shown.charts)) follow(plot);
  });
}

function follow(plot) {
  if (typeof plot.on !== "function") return; // not drawn yet
  if (!known.has(plot)) {
    known.add(plot);
    plot.on("plotly_afterplot", drawSoon); // zoomed or resized
    plot.on("plotly_relayout", (change) => keepZoom(plot, change));
  }
  mark(plot);
}

// A figure that grew is mounted anew: what the reader zoomed to is told, so that it comes back so.
function keepZoom(plot, change) {
  const key = keyOf(plot);
  const axes = ["x", "y"].filter((axis) =>
    Object.keys(change).some((name) => name.startsWith(`${axis}axis.`)),
  );
  if (!shown || !key || axes.length === 0) return;
  const zoom = { ...zooms[key] };
  for (const axis of axes) {
    delete zoom[axis];
    if (!change[`${axis}axis.autorange`]) zoom[axis] = [...plot._fullLayout[`${axis}axis`].range];
  }
  zooms = { ...zooms, [key]: zoom };
  shown.tell(zooms);
}

function keyOf(plot) {
  const named = plot.closest('[class*="st-key-"]');
  return [...(named?.classList ?? [])].find((name) => name.startsWith("st-key-"))?.slice(7);
}

function mark(plot) {
  const box = plot.querySelector(".svg-container");
  if (!box) return;
  const place = placeOf(plot);
  const line = box.querySelector(`:scope > .${LINE}`) ?? box.appendChild(newLine());
  line.style.display = place ? "block" : "none";
  if (!place) return;
  line.style.left = `${place.left}px`;
  line.style.top = `${place.top}px`;
  line.style.height = `${place.height}px`;
  line.style.borderLeftColor = shown.colour || "currentColor";
}

// Where plotly put its axes; without them, or with the step outside the zoom, there is no line.
function placeOf(plot) {
  const x = plot._fullLayout?.xaxis;
  const y = plot._fullLayout?.yaxis;
  if (!x?.d2p || !y) return null;
  const along = x.d2p(shown.step);
  if (!(along >= 0 && along <= x._length)) return null;
  return { left: x._offset + along, top: y._offset, height: y._length };
}

function newLine() {
  const line = document.createElement("div");
  line.className = LINE;
  Object.assign(line.style, {
    position: "absolute",
    width: "0",
    borderLeft: "1.4px dotted",
    opacity: "0.65",
    pointerEvents: "none",
  });
  return line;
}
