// Two texts side by side: one object per mounted element, handlers bound once, data read when it changes.

const VIEWS = new WeakMap();
const LONGEST_CLOSING_MS = 5000;
const NARROW_PIXELS = 720;
const PARTS_OF_VIEW = [
  ...["pick", "target", "previous", "count", "next", "folds", "colouring", "metric", "similarity", "full-button", "close"],
  ...["compare-menu", "left", "right", "notice", "main", "flow", "map", "sight", "find", "find-count", "regex"],
  ...["previous-hit", "next-hit", "wrap", "mono"],
];

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".comparison");
  const view = VIEWS.get(root) ?? createView(root, parentElement);
  VIEWS.set(root, view);
  Object.assign(view, { setState: setStateValue, trigger: setTriggerValue });
  const themed = applyTheme(view);
  const { signature, metric } = data.view;
  if (view.signature !== signature) load(view, data);
  else if (view.metricName !== metric || themed) colour(view, data);
  fillMenu(view.menu, data.view.choices);
  return () => {
    closeMenu(view.menu);
    view.resized.disconnect();
    view.unbindHeight();
    view.nearby?.disconnect();
    stopSearch(view);
    clearTextMarks(view);
    view.untake();
    VIEWS.delete(root);
  };
}

function createView(root, shadow) {
  const ui = { root };
  for (const name of PARTS_OF_VIEW) {
    const camel = name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    ui[camel] = root.querySelector(`.${name}`);
  }
  const sheet = new CSSStyleSheet();
  shadow.adoptedStyleSheets = [...shadow.adoptedStyleSheets, sheet];
  const view = { ui, sheet, current: null, differences: [], sections: [], tokens: {}, metric: null, searched: [] };
  Object.assign(view, { settings: stored(SETTINGS_KEY, {}), defaults: { mono: true }, ranges: [] });
  showTextStyle(view);
  view.menu = createMenu(ui.compareMenu, {
    ask: (wanted) => view.setState("picker", wanted),
    choose: (vs) => view.trigger("vs", vs),
  });
  bind(view);
  return view;
}

function bind(view) {
  const { ui } = view;
  ui.pick.onclick = () => toggleMenu(view.menu, ui.pick);
  ui.previous.onclick = () => moveDifference(view, -1);
  ui.next.onclick = () => moveDifference(view, 1);
  ui.folds.onclick = () => toggleFolds(view);
  ui.metric.onchange = () => view.trigger("metric", ui.metric.value);
  ui.fullButton.onclick = () => setFull(view, !isFull(view));
  ui.close.onclick = () => view.trigger("vs", "");
  // Before the list beside it, whose Escape closes the rollout: it closes the comparison first.
  view.untake = takeKeys(ui.root, (key) => takeComparisonKey(view, key), { early: true });
  view.unbindHeight = bindHeight(view);
  bindFinder(view, rowFinder(view));
  ui.wrap.onclick = () => toggleTextStyle(view, "wrap");
  ui.mono.onclick = () => toggleTextStyle(view, "mono");
  bindMap(view);
  view.resized = new ResizeObserver(() => fitWidth(view));
  view.resized.observe(ui.flow);
}

// --- place on the page ---------------------------------------------------------------------------

/** One column where there is no room for two: in a narrow place, and for lines that are not wrapped. */
function fitWidth(view) {
  const width = view.ui.flow.clientWidth;
  const isInline = width < NARROW_PIXELS || !prefers(view, "wrap");
  if (!width || (view.width === width && view.isInline === isInline)) return;
  const isOther = view.isInline !== isInline;
  Object.assign(view, { width, isInline, columnWidth: isInline ? width - 40 : width / 2 - 30 });
  view.ui.root.classList.toggle("inline", isInline);
  if (isOther) buildFlow(view);
  else drawMapSoon(view);
}

function toggleTextStyle(view, name) {
  remember(view, name, !prefers(view, name));
  showTextStyle(view);
  fitWidth(view);
  if (view.current !== null) goToDifference(view, view.current);
  drawMapSoon(view);
}

function applyTheme(view) {
  const background = getComputedStyle(view.ui.root).getPropertyValue("--st-background-color").trim();
  if (view.background === background) return false;
  view.background = background;
  const name = brightness(background) < 0.5 ? "dark" : "light";
  view.ui.root.dataset.theme = name;
  view.sheet.replaceSync(paletteRules(PALETTES[name]));
  return true;
}

// --- data ----------------------------------------------------------------------------------------

function load(view, data) {
  view.closedAt = -Infinity;
  const { words, signature } = data.view;
  fitHeight(view);
  const { rows, differences } = rowsOf(readStretches(data.stretches));
  Object.assign(view, { signature, words, differences, current: null, sections: sectionsOf(rows) });
  view.ui.target.textContent = words.right;
  view.ui.similarity.textContent = words.similarity;
  view.ui.similarity.title = words.similarityHelp;
  view.ui.notice.textContent = words.notice;
  view.ui.notice.hidden = !words.notice;
  view.ui.folds.hidden = !view.sections.some(({ folded }) => folded);
  view.ui.folds.setAttribute("aria-pressed", "true");
  showSide(view.ui.left, words.left, words.leftFacts);
  showSide(view.ui.right, words.right, words.rightFacts);
  fillMetrics(view, data.view);
  readTokens(view, data);
  showCount(view);
  view.isInline = null;
  fitWidth(view);
}

function readStretches(table) {
  const [left, right] = ["left", "right"].map((name) => readTexts(table, name));
  const [equal, aligned] = ["equal", "aligned"].map((name) => table.getChild(name));
  return left.map((text, i) => ({
    left: text,
    right: equal.get(i) ? text : right[i],
    equal: equal.get(i),
    aligned: aligned.get(i),
  }));
}

function showSide(element, title, facts) {
  const parts = facts.flatMap(([label, value, change]) => {
    const fact = make("span", "fact");
    if (label) fact.append(make("span", "label", label), " ");
    fact.append(make("b", "", value));
    if (change) fact.append(" ", make("span", "change", change));
    return [fact];
  });
  element.replaceChildren(make("span", "swatch"), make("b", "title", title), ...parts);
  element.title = element.textContent;
}

// --- colours of tokens ---------------------------------------------------------------------------

function fillMetrics(view, { specs, metric }) {
  const { ui } = view;
  ui.colouring.hidden = !specs.length;
  const names = [{ name: "", label: "differences only" }, ...specs];
  ui.metric.replaceChildren(
    ...names.map(({ name, label }) => {
      const option = make("option", "", label);
      option.value = name;
      option.selected = name === metric;
      return option;
    }),
  );
}

function colour(view, data) {
  readTokens(view, data);
  view.ui.metric.value = view.metricName;
  const { scrollTop } = view.ui.flow;
  buildFlow(view);
  view.ui.flow.scrollTop = scrollTop;
}

/** The chosen metric on both sides, on one scale. */
function readTokens(view, data) {
  const { metric, specs } = data.view;
  view.metricName = metric;
  view.metric = specs.find(({ name }) => name === metric) ?? null;
  view.ui.root.classList.toggle("coloured", Boolean(view.metric));
  view.tokens = {};
  if (!view.metric) return;
  for (const [side, name] of [[LEFT, "left"], [RIGHT, "right"]]) {
    const table = data[`${name}_tokens`];
    const column = data[`${name}_metrics`].getChild(metric);
    if (!table.numRows || !column) continue;
    const texts = readTexts(table, "text");
    const values = readMetric(view.metric, column);
    prepare({ inLoss: readMask(table, 0) }, values);
    view.tokens[side] = { starts: startsIn(texts), levels: values.levels, values };
  }
}

function startsIn(texts) {
  const rollout = { texts, starts: null };
  startsOf(rollout);
  return rollout.starts;
}

function tokenValue({ values }, i) {
  return isAbsent(values, i) ? "not recorded" : `${readable(values.values[i])}${unitOf(values.spec)}`;
}

// --- keyboard ------------------------------------------------------------------------------------

function takeComparisonKey(view, { key }) {
  // It stands here until what takes its place is there, whose keys these are.
  if (performance.now() - view.closedAt < LONGEST_CLOSING_MS) return "later";
  const action = {
    d: () => moveDifference(view, 1),
    D: () => moveDifference(view, -1),
    e: () => toggleFolds(view),
    n: () => nextHit(view, 1),
    p: () => nextHit(view, -1),
    "/": () => view.ui.find.focus(),
    w: () => toggleTextStyle(view, "wrap"),
    W: () => toggleTextStyle(view, "mono"),
    f: () => setFull(view, !isFull(view)),
    c: () => toggleMenu(view.menu, view.ui.pick),
    Escape: () => escape(view),
  }[key];
  if (!action) return false;
  action();
  return true;
}

/** What Escape closes, the innermost first. */
function escape(view) {
  if (view.ui.find.value) endFind(view);
  else if (isFull(view)) setFull(view, false);
  else {
    view.closedAt = performance.now();
    view.trigger("vs", "");
  }
}
