// The frame: the height of the window, full screen, and what this browser remembers.

const SETTINGS_KEY = "rollout-board.reader";
const BELOW = 12;
const LEAST_HEIGHT = 420;
// As in narrow.css.
const NARROW = 660;
const FALLBACKS = { wrap: true, mono: false, foldTool: false, foldThinking: false, outline: true, details: false };

function stored(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? fallback;
  } catch {
    return fallback;
  }
}

function store(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // A browser that stores nothing remembers nothing.
  }
}

/** A setting of this browser: as chosen, else as it suits this rollout, else the usual one. */
function prefers(view, name) {
  return view.settings[name] ?? view.defaults[name] ?? FALLBACKS[name];
}

function remember(view, name, value) {
  view.settings = { ...stored(SETTINGS_KEY, {}), [name]: value };
  store(SETTINGS_KEY, view.settings);
}

/** Whether outline or details stand beside the text. In a narrow place, where they would cover it, only
 * where they were asked for since the rollout was opened. */
function isAtSide(view, name) {
  return isNarrow(view) ? view.aside === name : prefers(view, name);
}

function setAtSide(view, name, shown) {
  if (isNarrow(view)) view.aside = shown ? name : null;
  else remember(view, name, shown);
}

function isNarrow(view) {
  return view.ui.root.clientWidth < NARROW;
}

function showTextStyle(view) {
  const { root, wrap, mono } = view.ui;
  root.dataset.wrap = prefers(view, "wrap") ? "on" : "off";
  root.dataset.font = prefers(view, "mono") ? "mono" : "";
  wrap.setAttribute("aria-pressed", String(prefers(view, "wrap")));
  mono.setAttribute("aria-pressed", String(prefers(view, "mono")));
}

function toggleTextStyle(view, name) {
  remember(view, name, !prefers(view, name));
  keepPlace(view, () => showTextStyle(view));
  afterFolding(view);
}

/** As high as the window leaves below where the reader begins on the page. */
function fitHeight(view) {
  const { root } = view.ui;
  if (root.classList.contains("full")) return;
  const page = root.getRootNode().host?.closest?.("section, main") ?? document.scrollingElement;
  const top = root.getBoundingClientRect().top + (page?.scrollTop ?? 0);
  const height = Math.max(LEAST_HEIGHT, Math.floor(window.innerHeight - top - BELOW));
  const wanted = view.fixedHeight ?? height;
  if (view.height === wanted) return;
  view.height = wanted;
  root.style.setProperty("--height", `${wanted}px`);
}

/** Over the whole window: in the browser's top layer, above whatever else is on the page. */
function setFull(view, full) {
  const { root, fullButton } = view.ui;
  if (root.classList.contains("full") === full) return;
  const change = () => {
    root.classList.toggle("full", full);
    if (full) {
      root.popover = "manual";
      root.showPopover?.();
    } else {
      root.hidePopover?.();
      root.popover = null;
    }
  };
  keepPlace(view, change);
  fullButton.setAttribute("aria-pressed", String(full));
  view.ui.flow.focus({ preventScroll: true });
}

function bindLayout(view) {
  const { ui } = view;
  ui.wrap.onclick = () => toggleTextStyle(view, "wrap");
  ui.mono.onclick = () => toggleTextStyle(view, "mono");
  ui.fullButton.onclick = () => setFull(view, !ui.root.classList.contains("full"));
  ui.detailsButton.onclick = () => toggleDetails(view);
  ui.outlineButton.onclick = () => toggleOutline(view);
  ui.foldTool.onclick = () => foldAll(view, "tool");
  ui.foldThinking.onclick = () => foldAll(view, "thinking");
  const fit = () => fitHeight(view);
  const page = new ResizeObserver(fit);
  // What stands above may grow or go, which moves the reader without a change of its own size.
  for (const element of [document.body, ui.root.getRootNode().host?.parentElement]) if (element) page.observe(element);
  window.addEventListener("resize", fit);
  return () => {
    page.disconnect();
    window.removeEventListener("resize", fit);
  };
}

function toggleOutline(view) {
  setAtSide(view, "outline", view.ui.outline.hidden);
  fillOutline(view);
}
