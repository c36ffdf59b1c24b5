// The token view: one object per mounted element, handlers bound once, data read when it changes.

const VIEWS = new WeakMap();
const REPORT_DELAY_MS = 250;

export default function ({ data, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".token-view");
  const view = VIEWS.get(root) ?? createView(root, parentElement);
  VIEWS.set(root, view);
  view.report = setStateValue;
  root.style.setProperty("--height", `${data.view.height}px`);
  const themed = applyTheme(view);
  if (view.rollout?.signature !== data.view.signature) load(view, data);
  else honour(view, data.view, themed);
  return () => {
    clearTimeout(view.reporting);
    cancelAnimationFrame(view.painting);
    view.resized.disconnect();
    VIEWS.delete(root);
  };
}

function createView(root, shadow) {
  const get = (name) => root.querySelector(`.${name}`);
  const ui = {
    root,
    metric: get("metric"),
    histogram: get("histogram"),
    range: get("range"),
    previousPeak: get("previous-peak"),
    nextPeak: get("next-peak"),
    peakCount: get("peak-count"),
    find: get("find"),
    findCount: get("find-count"),
    flow: get("flow"),
    map: get("map"),
    panel: get("panel"),
    formula: get("formula"),
    keys: get("keys"),
    tip: get("tip"),
  };
  const sheet = new CSSStyleSheet();
  shadow.adoptedStyleSheets = [...shadow.adoptedStyleSheets, sheet];
  const view = { ui, sheet, rollout: null, metric: null, pin: null, hits: [], hit: -1, sent: {}, asked: {} };
  bind(view);
  return view;
}

// --- theme -------------------------------------------------------------------------------------

function applyTheme(view) {
  const style = getComputedStyle(view.ui.root);
  const theme = ["background", "text", "primary"].map((name) =>
    style.getPropertyValue(`--st-${name}-color`).trim(),
  );
  if (view.theme === theme.join()) return false;
  view.theme = theme.join();
  const name = brightness(theme[0]) < 0.5 ? "dark" : "light";
  view.ui.root.dataset.theme = name;
  view.palette = PALETTES[name];
  [, view.textColour, view.accentColour] = theme;
  view.faintColour = name === "dark" ? "rgb(255 255 255 / .28)" : "rgb(0 0 0 / .22)";
  view.sheet.replaceSync(paletteRules(view.palette));
  return true;
}

/** Mean of the channels in 0..1; a canvas reads every notation of a colour. */
function brightness(colour) {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = colour || "#ffffff";
  context.fillRect(0, 0, 1, 1);
  const [r, g, b] = context.getImageData(0, 0, 1, 1).data;
  return (r + g + b) / 765;
}

// --- data and requests from Python -------------------------------------------------------------

function load(view, data) {
  const rollout = readRollout(data);
  const count = rollout.texts.length;
  Object.assign(view, { rollout, pin: null, hits: [], hit: -1, metric: null });
  cancelAnimationFrame(view.painting);
  Object.assign(view, { base: new Array(count), levels: new Int8Array(count) });
  view.painted = new Int8Array(count);
  view.asked = { metric: data.view.metric, pinned: data.view.pinned };
  view.sent = { metric: [], pinned: [] };
  clearTimeout(view.reporting);
  view.ui.tip.hidden = true;
  buildFlow(view);
  fillMetricChoice(view);
  showKeys(view);
  const chosen = rollout.metrics.find((metric) => metric.name === data.view.metric);
  choose(view, chosen ?? rollout.metrics[0] ?? null);
  if (data.view.pinned !== null) goTo(view, data.view.pinned, { silent: true });
  if (view.ui.find.value) find(view, view.ui.find.value);
}

/** Follow a metric or pin that Python asks for anew; an answer to our own report is no request. */
function honour(view, wanted, themed) {
  if (isRequest(view, "metric", wanted.metric)) {
    const metric = view.rollout.metrics.find(({ name }) => name === wanted.metric);
    if (metric) choose(view, metric);
  }
  if (isRequest(view, "pinned", wanted.pinned)) {
    if (wanted.pinned === null) pin(view, null, { silent: true });
    else goTo(view, wanted.pinned, { silent: true });
  }
  if (themed) {
    drawLegend(view);
    drawMap(view);
  }
}

function isRequest(view, name, value) {
  if (view.asked[name] === value) return false;
  view.asked[name] = value;
  const echo = view.sent[name].indexOf(value);
  view.sent[name].splice(0, echo + 1);
  return echo < 0;
}

function report(view, name, value) {
  view.sent[name].push(value);
  view.report(name, { signature: view.rollout.signature, value });
}

// --- metric ------------------------------------------------------------------------------------

function fillMetricChoice(view) {
  const options = view.rollout.metrics.map((metric, rank) => {
    const recorded = metric.absent === null || metric.absent.includes(0);
    const option = make("option", "", metric.spec.label + (recorded ? "" : " (not recorded)"));
    option.value = rank;
    return option;
  });
  if (!options.length) options.push(make("option", "", "no token metric recorded"));
  view.ui.metric.replaceChildren(...options);
  view.ui.metric.disabled = !view.rollout.metrics.length;
}

function choose(view, metric) {
  view.metric = metric && prepare(view.rollout, metric);
  const { ui } = view;
  if (metric) ui.metric.value = view.rollout.metrics.indexOf(metric);
  ui.range.textContent = metric && view.rollout.texts.length ? metric.scale.caption : "";
  ui.formula.textContent = metric?.spec.formula ? `ƒ ${metric.spec.formula}` : "";
  ui.formula.title = ui.formula.textContent;
  paintTokens(view);
  showMissingKeys(view);
  showPeakCount(view);
  drawLegend(view);
  drawMap(view);
  fillPanel(view);
}

function showKeys(view) {
  const key = (className, words) => {
    const item = make("span", "key");
    item.append(make("span", className, "ab"), words);
    return item;
  };
  const keys = { outside: key("token outside", "outside the loss") };
  keys.absent = key("token absent", "not recorded");
  keys.nan = key("token nan", "not a number");
  keys.outside.hidden = !view.rollout.inLoss.includes(OUTSIDE);
  view.keys = keys;
  view.ui.keys.replaceChildren(...Object.values(keys));
}

function showMissingKeys(view) {
  view.keys.absent.hidden = !view.levels.includes(ABSENT);
  view.keys.nan.hidden = !view.levels.includes(NOT_A_NUMBER);
}

// --- pin and peaks -----------------------------------------------------------------------------

function pin(view, i, { now = false, silent = false } = {}) {
  const { spans } = view;
  if (i === view.pin) return;
  if (view.pin !== null) spans[view.pin].classList.remove("pinned");
  view.pin = i;
  if (i !== null) spans[i].classList.add("pinned");
  showPeakCount(view);
  fillPanel(view);
  drawMap(view);
  clearTimeout(view.reporting);
  if (silent) return;
  // Held arrow keys pin many tokens a second; Python hears of the one where they stop.
  view.reporting = setTimeout(() => report(view, "pinned", i), now ? 0 : REPORT_DELAY_MS);
}

function goTo(view, i, how) {
  if (i < 0 || i >= view.spans.length) return;
  pin(view, i, how);
  scrollToToken(view, i);
}

/** From nowhere to the strongest peak; from a token to the next peak in reading order, around. */
function goToPeak(view, direction) {
  const ranked = view.metric?.ranked ?? [];
  if (!ranked.length) return;
  if (view.pin === null) return goTo(view, ranked[0]);
  const inOrder = Int32Array.from(ranked).sort();
  const at = bound(inOrder, view.pin, direction > 0);
  const next = direction > 0 ? at : at - 1;
  goTo(view, inOrder[(next + inOrder.length) % inOrder.length]);
}

function showPeakCount(view) {
  const ranked = view.metric?.ranked ?? [];
  const place = ranked.indexOf(view.pin);
  const words = place < 0 ? counted(ranked.length, "peak") : `#${place + 1} of ${ranked.length}`;
  view.ui.peakCount.textContent = ranked.length ? words : "no peaks";
  view.ui.previousPeak.disabled = view.ui.nextPeak.disabled = !ranked.length;
}

// --- events ------------------------------------------------------------------------------------

function bind(view) {
  const { ui } = view;
  ui.metric.onchange = () => {
    choose(view, view.rollout.metrics[Number(ui.metric.value)]);
    report(view, "metric", view.metric.name);
  };
  ui.previousPeak.onclick = () => goToPeak(view, -1);
  ui.nextPeak.onclick = () => goToPeak(view, 1);
  ui.find.oninput = () => find(view, ui.find.value);
  ui.root.onkeydown = (event) => onKey(view, event);
  bindFlow(view);
  view.resized = new ResizeObserver(() => drawMap(view));
  view.resized.observe(ui.map);
}

function bindFlow(view) {
  const { flow, map, tip } = view.ui;
  let hovered;
  let frame = 0;
  flow.onmousemove = (event) => {
    const i = tokenAt(event.target);
    if (i !== undefined && (i !== hovered || tip.hidden)) fillTip(view, i);
    hovered = i;
    tip.hidden = i === undefined;
    if (!tip.hidden) placeTip(view, event);
  };
  flow.onmouseleave = () => (tip.hidden = true);
  flow.onscroll = () => {
    tip.hidden = true;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => drawMap(view));
  };
  flow.onclick = (event) => {
    const i = tokenAt(event.target);
    if (i !== undefined) pin(view, i, { now: true });
  };
  map.onclick = (event) => {
    if (view.spans.length) scrollToToken(view, tokenOnMap(view, event));
  };
}

function onKey(view, event) {
  // Page-wide shortcuts listen on the document and would fire while a user types here.
  event.stopPropagation();
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = event.target === view.ui.find || event.target === view.ui.metric;
  const action = inField ? fieldAction(view, event) : flowAction(view, event);
  if (!action) return;
  event.preventDefault();
  action();
}

function fieldAction(view, event) {
  if (event.target !== view.ui.find) return undefined;
  if (event.key === "Enter") return () => nextHit(view, event.shiftKey ? -1 : 1);
  if (event.key === "Escape") return () => endFind(view);
  return undefined;
}

function endFind(view) {
  view.ui.find.value = "";
  find(view, "");
  view.ui.flow.focus();
}

function flowAction(view, event) {
  const step = (i) => () => goTo(view, i);
  const from = view.pin;
  switch (event.key) {
    case "n":
      return () => goToPeak(view, 1);
    case "p":
      return () => goToPeak(view, -1);
    case "/":
      return () => view.ui.find.focus();
    case "Escape":
      return () => (view.ui.find.value ? endFind(view) : pin(view, null, { now: true }));
    case "ArrowRight":
      return step(from === null ? 0 : from + 1);
    case "ArrowLeft":
      return step(from === null ? view.spans.length - 1 : from - 1);
    case "ArrowDown":
    case "ArrowUp": {
      // Without a pinned token the arrows scroll, as they do everywhere.
      const direction = event.key === "ArrowDown" ? 1 : -1;
      return from === null ? undefined : () => goTo(view, tokenOnLine(view, from, direction) ?? from);
    }
    default:
      return undefined;
  }
}
