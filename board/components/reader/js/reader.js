// The reader: one object per mounted element, handlers bound once, data read when it changes.

const VIEWS = new WeakMap();
const REPORT_DELAY_MS = 250;

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".reader");
  const view = VIEWS.get(root) ?? createView(root, parentElement);
  VIEWS.set(root, view);
  Object.assign(view, { report: setStateValue, trigger: setTriggerValue });
  view.fixedHeight = data.view.height;
  fitHeight(view);
  const themed = applyTheme(view);
  if (isOutdated(data.view)) return undefined;
  root.classList.remove("waiting");
  if (view.rollout?.signature !== data.view.signature) load(view, data);
  else honour(view, data.view, themed);
  fillMenu(view.menu, data.view.choices);
  return () => {
    closeMenu(view.menu);
    setFull(view, false);
    view.unbindHeight();
    stopSearch(view);
    clearTextMarks(view);
    view.unbindAhead();
    view.unbindAlike();
    clearTimeout(view.reporting);
    clearTimeout(view.reportingMasks);
    stopFrames(view);
    view.resized.disconnect();
    view.untake();
    view.unfollow();
    VIEWS.delete(root);
  };
}

// What of the user's doing Python hears of, and may ask for.
const CHOICES = ["metric", "pinned", "over", "strip", "masks", "zoom", "heat", "raw", "read"];
const PARTS = [
  ...["metric", "over", "histogram", "range", "previous-peak", "next-peak", "peak-count", "find", "find-count"],
  ...["regex", "flow", "map", "panel", "formula", "keys", "tip", "strip", "first", "second", "readout", "whole"],
  ...["heat", "heat-lane", "heat-names", "what-if", "what-if-button"],
  ...["legend", "map-sight", "strip-sight", "heat-sight", "heat-button", "fact-line", "notes", "details", "outline"],
  ...["fold-tool", "fold-thinking", "previous-hit", "next-hit", "wrap", "mono", "copy-button", "copy-menu", "labels", "label-button"],
  ...["read-button", "outline-button", "details-button", "full-button", "compare-button", "compare-menu"],
];

function createView(root, shadow) {
  const ui = { root };
  for (const name of PARTS) {
    const camel = name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    ui[camel] = root.querySelector(`.${name}`);
  }
  const sheet = new CSSStyleSheet();
  shadow.adoptedStyleSheets = [...shadow.adoptedStyleSheets, sheet];
  const view = { ui, sheet, rollout: null, hits: [], sent: {}, asked: {}, isRegex: false, pointed: null };
  Object.assign(view, { served: null, frames: {}, settings: stored(SETTINGS_KEY, {}), defaults: {}, ranges: [], sections: [] });
  view.whatIf = { open: false, slots: SLOTS.map(() => ({ numbers: {} })), sources: [], hits: [] };
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
  view.pageColour = theme[0];
  view.font = style.getPropertyValue("--st-font").trim() || "sans-serif";
  view.trackColour = name === "dark" ? "rgb(255 255 255 / .06)" : "rgb(0 0 0 / .05)";
  view.faintColour = name === "dark" ? "rgb(255 255 255 / .28)" : "rgb(0 0 0 / .22)";
  view.sheet.replaceSync(paletteRules(view.palette));
  return true;
}

// --- data and requests from Python -------------------------------------------------------------

function load(view, data) {
  const rollout = readRollout(data);
  const count = rollout.texts.length;
  endWriting(view, data.view.place);
  stopFrames(view);
  clearTimeout(view.reporting);
  clearTimeout(view.reportingMasks);
  Object.assign(view, { rollout, pin: null, pointed: null, window: null, drag: null });
  Object.assign(view, { lastStop: null, tipToken: null });
  Object.assign(view, { hits: [], hit: -1, metric: null, levels: new Int8Array(count) });
  stopSearch(view);
  clearTextMarks(view);
  Object.assign(view, { spansKey: spansKey(data.view) });
  view.asked = Object.fromEntries(CHOICES.map((name) => [name, JSON.stringify(data.view[name])]));
  view.sent = Object.fromEntries(CHOICES.map((name) => [name, []]));
  view.ui.root.classList.toggle("is-text", Boolean(rollout.turns));
  fillFacts(view, data.view);
  Object.assign(view, { labelled: null, place: data.view.place });
  view.ui.readButton.hidden = !data.view.canSwitch;
  view.ui.readButton.textContent = rollout.turns ? "Tokens" : "Text";
  view.ui.tip.hidden = view.ui.whole.hidden = true;
  buildFlow(view);
  fillLabels(view, data.view.labels);
  showTextStyle(view);
  showFoldButtons(view);
  fillOutline(view);
  fillDetails(view, data.view.details);
  showDetails(view);
  fillMetricChoice(view);
  fillStripChoice(view);
  showOver(view, data.view);
  showKeys(view);
  takeMasks(view, data.view.masks);
  view.second = metricNamed(rollout, data.view.strip) ?? null;
  choose(view, metricNamed(rollout, data.view.metric) ?? rollout.metrics[0] ?? null);
  showHeat(view, data.view.heat);
  chooseSecond(view, view.second);
  if (data.view.zoom) zoomTo(view, windowFrom(data.view.zoom));
  if (data.view.pinned !== null) goTo(view, data.view.pinned, { silent: true });
  if (view.ui.find.value) find(view, view.ui.find.value);
  fillInSight(view);
}

/** Follow what Python asks for anew; an answer to our own report is no request. */
function honour(view, wanted, themed) {
  if (spansKey(wanted) !== view.spansKey) takeSpans(view, wanted);
  if (isRequest(view, "metric", wanted.metric)) {
    const metric = metricNamed(view.rollout, wanted.metric);
    if (metric) choose(view, metric);
  }
  if (isRequest(view, "pinned", wanted.pinned)) {
    if (wanted.pinned === null) pin(view, null, { silent: true });
    else goTo(view, wanted.pinned, { silent: true });
  }
  if (isRequest(view, "over", wanted.over)) showOver(view, wanted);
  if (isRequest(view, "strip", wanted.strip)) chooseSecond(view, metricNamed(view.rollout, wanted.strip));
  if (isRequest(view, "zoom", wanted.zoom)) zoomTo(view, windowFrom(wanted.zoom));
  if (isRequest(view, "masks", wanted.masks)) {
    takeMasks(view, wanted.masks);
    recolour(view);
  }
  if (isRequest(view, "heat", wanted.heat)) showHeat(view, wanted.heat);
  fillFacts(view, wanted);
  fillDetails(view, wanted.details);
  fillLabels(view, wanted.labels);
  if (themed) {
    drawLegend(view);
    drawMap(view);
    showStripNames(view);
  }
  drawPositions(view);
}

function spansKey(wanted) {
  return JSON.stringify(wanted.specs.map(({ span }) => span));
}

/** Other ends of the colour scales, such as the step's in place of the rollout's. */
function takeSpans(view, wanted) {
  view.spansKey = spansKey(wanted);
  view.rollout.metrics.forEach((metric, rank) => {
    metric.spec.span = wanted.specs[rank].span;
    Object.assign(metric, { scale: null, levels: null, ranked: null });
  });
  choose(view, view.metric);
  prepareLater(view);
}

function showOver(view, wanted) {
  view.ui.over.value = wanted.over;
}

/** Tokens first..last as the stretch that strip and heat map span; null for the whole response. */
function windowFrom(zoom) {
  return zoom && [zoom[0], zoom[1] + 1];
}

function isRequest(view, name, wanted) {
  const value = JSON.stringify(wanted);
  if (view.asked[name] === value) return false;
  view.asked[name] = value;
  const echo = view.sent[name].indexOf(value);
  view.sent[name].splice(0, echo + 1);
  return echo < 0;
}

function report(view, name, value) {
  // What was fetched ahead was made for the choices before this one.
  if (name !== "pinned" && name !== "zoom") window.__rolloutBoardAhead?.clear();
  view.sent[name].push(JSON.stringify(value));
  view.report(name, { signature: view.rollout.signature, value });
}

// --- metric ------------------------------------------------------------------------------------

function fillMetricChoice(view) {
  const options = metricOptions(view.rollout);
  if (!options.length) options.push(make("option", "", "no token metric recorded"));
  view.ui.metric.replaceChildren(...options);
  view.ui.metric.disabled = !view.rollout.metrics.length;
}

function choose(view, metric) {
  view.metric = metric && prepare(view.rollout, metric);
  const { ui } = view;
  if (metric) ui.metric.value = view.rollout.metrics.indexOf(metric);
  ui.formula.textContent = metric?.spec.formula ? `ƒ ${metric.spec.formula}` : "";
  ui.formula.title = ui.formula.textContent;
  recolour(view);
  drawLegend(view);
  showStripNames(view);
  markHeatName(view);
  fillPanel(view);
}

/** The user's choice of a metric: shown at once, then told to Python. */
function pick(view, metric) {
  choose(view, metric);
  report(view, "metric", metric.name);
}

/** Colours by the metric, or by the masks while their drawer is open. */
function recolour(view) {
  const plain = () => view.metric?.levels ?? new Int8Array(view.rollout.texts.length);
  view.levels = view.whatIf.open ? maskLevels(view) : plain();
  paintTokens(view);
  showMissingKeys(view);
  showPeakCount(view);
  drawMap(view);
  drawPositions(view);
  showReadout(view);
}

function showKeys(view) {
  const key = (className, words) => {
    const item = make("span", "key");
    item.append(make("span", className, "ab"), words);
    return item;
  };
  const keys = { outside: key("token outside", "outside the loss, no colour") };
  keys.absent = key("token absent", "not recorded");
  keys.nan = key("token nan", "not a number");
  keys.surplus = key("token surplus", "value without a token");
  keys.a = key("token mask-a", "only A");
  keys.b = key("token mask-b", "only B");
  keys.ab = key("token mask-a mask-b", "A and B");
  const { inLoss, surplus, texts } = view.rollout;
  keys.outside.hidden = !inLoss.subarray(0, texts.length - surplus).includes(OUTSIDE);
  keys.surplus.hidden = !surplus;
  view.keys = keys;
  view.ui.keys.replaceChildren(...Object.values(keys));
}

function showMissingKeys(view) {
  view.keys.absent.hidden = !view.levels.includes(ABSENT);
  view.keys.nan.hidden = !view.levels.includes(NOT_A_NUMBER);
  for (const name of ["a", "b", "ab"]) view.keys[name].hidden = !view.whatIf.open;
}

// --- pin and peaks -----------------------------------------------------------------------------

function pin(view, i, { now = false, silent = false } = {}) {
  if (i === view.pin) return;
  if (view.pin !== null) setMark(view, view.pin, PINNED, false);
  view.pin = i;
  if (i === null) hideTip(view);
  else setMark(view, i, PINNED, true);
  showPeakCount(view);
  fillPanel(view);
  drawMap(view);
  showReadout(view);
  drawPositions(view);
  clearTimeout(view.reporting);
  if (silent) return;
  // Held arrow keys pin many tokens a second; Python hears of the one where they stop.
  view.reporting = setTimeout(() => report(view, "pinned", i), now ? 0 : REPORT_DELAY_MS);
}

function goTo(view, i, how) {
  if (i < 0 || i >= view.spans.length) return;
  pin(view, i, how);
  scrollToToken(view, i);
  followTip(view, i);
}

/** What n and p go through: the metric's peaks, or what the masks hit while their drawer is open. */
function stops(view) {
  if (!view.whatIf.open) return view.metric ? rankedOf(view.rollout, view.metric) : [];
  const hit = [];
  view.levels.forEach((level, i) => level >= HIT_A && hit.push(i));
  return hit;
}

/** To the stop after or before the last one, around. */
function goToPeak(view, direction) {
  const found = stops(view);
  if (!found.length) return;
  const next = nextStop(found, view.pin, view.lastStop, direction, view.whatIf.open);
  view.lastStop = found[next];
  goTo(view, found[next]);
}

function showPeakCount(view) {
  const found = stops(view);
  view.ui.peakCount.textContent = stopWords(found, view.pin, view.whatIf.open);
  view.ui.previousPeak.disabled = view.ui.nextPeak.disabled = !found.length;
}

// --- events ------------------------------------------------------------------------------------

function bind(view) {
  const { ui } = view;
  ui.metric.onchange = () => pick(view, view.rollout.metrics[Number(ui.metric.value)]);
  ui.over.onchange = () => report(view, "over", ui.over.value);
  ui.second.onchange = () => {
    chooseSecond(view, view.rollout.metrics[Number(ui.second.value)]);
    report(view, "strip", view.second?.name ?? null);
  };
  ui.previousPeak.onclick = () => goToPeak(view, -1);
  ui.nextPeak.onclick = () => goToPeak(view, 1);
  bindFind(view);
  ui.labelButton.onclick = () => toggleLabels(view);
  ui.readButton.onclick = () => report(view, "read", view.rollout.turns ? "tokens" : "text");
  bindCopy(view);
  bindCompare(view);
  ui.heatButton.onclick = () => {
    showHeat(view, ui.heatLane.hidden);
    report(view, "heat", !ui.heatLane.hidden);
  };
  ui.whole.onclick = () => pickZoom(view, null);
  ui.whatIfButton.onclick = () => {
    openWhatIf(view, !view.whatIf.open);
    changeMasks(view);
  };
  ui.root.onkeydown = (event) => onKey(view, event);
  bindFlow(view);
  bindMap(view);
  bindPositions(view, ui.strip);
  bindPositions(view, ui.heat);
  bindLayout(view);
  view.unbindHeight = bindHeight(view);
  view.unbindAhead = bindAhead(view);
  view.untake = takeKeys(ui.root, (key) => takeReaderKey(view, key));
  view.unfollow = followOutbox(() => isWritingLabel(view) || showOutbox(view));
  view.unbindAlike = bindAlike(view);
  ui.panel.onscroll = () => (view.panelIsScrolled = true);
  view.resized = new ResizeObserver(() => resize(view));
  for (const part of [ui.map, ui.strip, ui.flow]) view.resized.observe(part);
}

/** The menu's answers are fetched when it opens; what is chosen replaces the reader by a comparison. */
function bindCompare(view) {
  const { compareButton, compareMenu } = view.ui;
  view.menu = createMenu(compareMenu, {
    ask: (wanted) => view.report("picker", wanted),
    choose: (vs) => view.trigger("vs", vs),
  });
  compareButton.onclick = () => toggleMenu(view.menu, compareButton);
}

function resize(view) {
  if (!view.rollout) return;
  fillInSight(view);
  drawMap(view);
  drawPositions(view);
}

function bindFlow(view) {
  const { flow, tip } = view.ui;
  flow.onmousemove = (event) => {
    if (isScrolledUnder(view, event)) return;
    const i = tokenAt(event.target);
    const given = event.target.closest(".given")?.given;
    if (i !== undefined && (i !== view.pointed || tip.hidden)) fillTip(view, i);
    if (given) fillGivenTip(view, given);
    tip.hidden = i === undefined && !given;
    point(view, i ?? null);
    if (!tip.hidden) placeTip(view, event);
  };
  flow.onmouseleave = () => {
    hideTip(view);
    point(view, null);
  };
  flow.onscroll = () => {
    keepTip(view);
    fillInSight(view);
    moveSight(view);
  };
  flow.onclick = (event) => {
    const i = tokenAt(event.target);
    if (i !== undefined) pin(view, i, { now: true });
  };
}
