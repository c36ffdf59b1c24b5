// Draws the line of the chosen step over every curve, beside the figures: a figure that changed
// would be mounted anew, which costs a tenth of a second each and loses the reader's zoom.

const LINE = "rollout-board-step-line";
const known = new WeakSet();
let shown = null; // {step, colour, charts: a selector} while a marker is on the page
let asked = false;

export default function (component) {
  const { step, charts } = component.data;
  const place = component.parentElement.host ?? component.parentElement; // a shadow root has no style
  const colour = getComputedStyle(place).getPropertyValue("--st-text-color");
  shown = { step, charts, colour };
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
  }
  mark(plot);
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
