// Where a view is: as high as the window leaves, or over the whole window.

const BELOW = 12;
const LEAST_HEIGHT = 420;

function isFull({ ui }) {
  return ui.root.classList.contains("full");
}

/** As high as the window leaves below where the view begins on the page. */
function fitHeight(view) {
  const { root } = view.ui;
  if (isFull(view)) return;
  const page = root.getRootNode().host?.closest?.("section, main") ?? document.scrollingElement;
  const top = root.getBoundingClientRect().top + (page?.scrollTop ?? 0);
  const height = Math.max(LEAST_HEIGHT, Math.floor(window.innerHeight - top - BELOW));
  const wanted = view.fixedHeight ?? height;
  if (view.height === wanted) return;
  view.height = wanted;
  root.style.setProperty("--height", `${wanted}px`);
}

/** Keeps the height fitting; returns what ends that. */
function bindHeight(view) {
  const fit = () => fitHeight(view);
  const page = new ResizeObserver(fit);
  // What stands above may grow or go, which moves the view without a change of its own size.
  for (const element of [document.body, view.ui.root.getRootNode().host?.parentElement]) if (element) page.observe(element);
  window.addEventListener("resize", fit);
  return () => {
    page.disconnect();
    window.removeEventListener("resize", fit);
  };
}

/** Over the whole window: in the browser's top layer, above whatever else is on the page. */
function setFull(view, full) {
  const { root, fullButton, flow } = view.ui;
  if (isFull(view) === full) return;
  root.classList.toggle("full", full);
  if (full) {
    root.popover = "manual";
    root.showPopover?.();
  } else {
    root.hidePopover?.();
    root.popover = null;
  }
  fullButton.setAttribute("aria-pressed", String(full));
  flow.focus({ preventScroll: true });
}

/** Mean of the channels of a colour in 0..1; a canvas reads every notation of a colour. */
function brightness(colour) {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = colour || "#ffffff";
  context.fillRect(0, 0, 1, 1);
  const [r, g, b] = context.getImageData(0, 0, 1, 1).data;
  return (r + g + b) / 765;
}
