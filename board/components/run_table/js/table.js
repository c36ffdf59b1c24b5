// The table of runs: one object per mounted element, handlers bound once.

const VIEWS = new WeakMap();
const PLACE_KEY = "rollout-board:runs";
const SEARCH_DELAY_MS = 250;
const ANSWER_MS = 4000;
const AGE_MS = 1000;
const BOTTOM = 14;
const LEAST_HEIGHT = 240;

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".runs");
  const view = VIEWS.get(root) ?? createView(root);
  VIEWS.set(root, view);
  view.trigger = (asked) => setTriggerValue("asked", asked);
  take(view, data);
  return () => {
    view.turn++;
    clearTimeout(view.filling);
    clearTimeout(view.rerun);
    clearTimeout(view.searching);
    clearInterval(view.clock);
    view.stop.abort();
    view.untake();
    view.resized.disconnect();
    VIEWS.delete(root);
  };
}

/** What arrives meanwhile takes the place of what is still being unpacked. */
async function take(view, packed) {
  const turn = ++view.turn;
  const data = await unpacked(packed);
  if (turn === view.turn) load(view, data);
}

function load(view, data) {
  const isFirst = view.data === null;
  view.data = data;
  view.placeOf = new Map(data.rows.map(({ name }, place) => [name, place]));
  const sent = JSON.stringify([data.sort, data.descending, data.ticked]);
  const own = JSON.stringify([view.sort, view.descending, view.ticked]);
  // An answer to what was asked before the last click does not take that click back.
  if (sent === own) view.changedAt = -Infinity;
  else if (isFirst || performance.now() - view.changedAt > ANSWER_MS) {
    Object.assign(view, { sort: data.sort, descending: data.descending, ticked: [...data.ticked] });
  }
  const { search, refused } = view.ui;
  search.placeholder = `Search names and settings, or filter: ${data.example}`;
  const isTyped = search.getRootNode().activeElement === search;
  if (isFirst || !isTyped) search.value = data.search;
  const isRefused = Boolean(data.refused) && search.value.trim() === data.search;
  refused.textContent = isRefused ? data.refused : "";
  refused.hidden = !isRefused;
  draw(view);
  if (isFirst) recall(view);
}

/** The keys go on from the row that Tab led to. */
function focusRow(view, target) {
  const n = [...view.ui.rows.children].indexOf(target);
  if (n < 0 || keyOf(view.order[n]) === view.cursor) return;
  view.cursor = keyOf(view.order[n]);
  markRows(view);
}

/** Shows a choice at once, and tells the URL. */
function choose(view, { sort = view.sort, descending = view.descending, ticked = view.ticked }) {
  Object.assign(view, { sort, descending, ticked, changedAt: performance.now() });
  draw(view);
  const isUsual = sort === "changed";
  changeUrl(view, {
    runs_sort: isUsual ? null : sort,
    runs_desc: descending ? null : 0,
    runs_ticked: listText(ticked),
  });
}

/** Opens runs on another page. */
function ask(view, page, runs) {
  view.cursor = runs.length === 1 ? runs[0] : view.cursor;
  remember(view);
  PAGE_KEYS.leave();
  view.trigger({ page, runs });
}

function searchFor(view, { now = false } = {}) {
  clearTimeout(view.searching);
  const change = () => changeUrl(view, { runs_search: view.ui.search.value.trim() || null });
  if (now) change();
  else view.searching = setTimeout(change, SEARCH_DELAY_MS);
}

function draw(view) {
  view.columns = fittingColumns(view);
  layOut(view);
  drawHead(view);
  drawRows(view);
  markRows(view);
  drawTicks(view);
}

/** Another width may have room for other columns. */
function resize(view) {
  if (!view.data) return;
  if (fittingColumns(view).length !== view.columns.length) draw(view);
  else layOut(view);
}

/** The widths of the columns, and the height to the lower end of the window. */
function layOut(view) {
  const { root } = view.ui;
  const { tracks, least } = tracksOf(view);
  root.style.setProperty("--tracks", tracks);
  root.style.setProperty("--least", least);
  const main = document.querySelector("[data-testid=stMain]");
  const top = root.getBoundingClientRect().top + (main?.scrollTop ?? 0);
  root.style.setProperty("--height", `${Math.max(innerHeight - top - BOTTOM, LEAST_HEIGHT)}px`);
}

function createView(root) {
  const view = { ui: build(root), data: null, elements: new Map(), columns: [], order: [], cursor: null, look: "" };
  Object.assign(view, { sort: "", descending: true, ticked: [], changedAt: -Infinity, stop: new AbortController() });
  Object.assign(view, { turn: 0, filling: null, unfolded: new Set(), parents: new Map(), placeOf: new Map() });
  const { ui } = view;
  const { signal } = view.stop;
  view.untake = takeKeys(ui.root, (key) => takeTableKey(view, key));
  addEventListener("resize", () => resize(view), { signal });
  ui.search.oninput = () => searchFor(view);
  ui.search.onkeydown = (event) => onSearchKey(view, event);
  ui.all.onclick = () => tickAll(view);
  ui.rows.addEventListener("focusin", ({ target }) => focusRow(view, target));
  ui.clear.onclick = () => clearTicks(view);
  ui.compare.onclick = () => ask(view, "compare", view.ticked);
  ui.scroller.onscroll = () => {
    ui.grid.classList.toggle("moved", ui.scroller.scrollLeft > 0);
    clearTimeout(view.scrolled);
    view.scrolled = setTimeout(() => remember(view), 100);
  };
  view.clock = setInterval(() => view.data && tellAges(view), AGE_MS);
  view.resized = new ResizeObserver(() => resize(view));
  view.resized.observe(root);
  return view;
}

function build(root) {
  const ui = { root, head: make("div", "head"), rows: make("div", "rows"), empty: make("div", "empty") };
  ui.search = make("input", "search");
  Object.assign(ui.search, { type: "text", spellcheck: false, autocomplete: "off" });
  ui.search.setAttribute("aria-label", "Search runs");
  const field = make("label", "field");
  field.append(make("span", "lens"), ui.search, make("kbd", "", "/"));
  ui.refused = make("div", "refused");
  ui.refused.setAttribute("role", "alert");
  ui.all = tickBox("Tick all runs that are shown");
  ui.grid = make("div", "grid");
  ui.table = make("div", "table");
  ui.table.setAttribute("aria-label", "Runs");
  ui.table.setAttribute("aria-multiselectable", "true");
  for (const part of [ui.head, ui.rows]) part.setAttribute("role", "rowgroup");
  ui.table.append(ui.head, ui.rows);
  ui.scroller = make("div", "scroller");
  ui.scroller.append(ui.table, ui.empty);
  ui.grid.append(ui.scroller);
  ui.bar = make("div", "bar");
  ui.dots = make("span", "dots");
  ui.differ = make("span", "differ");
  ui.clear = makeButton("clear", "Clear ");
  ui.clear.append(make("kbd", "", "Esc"));
  ui.compare = makeButton("compare", "Compare");
  ui.bar.append(ui.dots, ui.differ, ui.clear, ui.compare);
  root.replaceChildren(field, ui.refused, ui.grid, ui.bar); // mounted again, it holds what was built before
  return ui;
}

// --- where one was ---------------------------------------------------------------------------------

function remember(view) {
  const place = { top: view.ui.scroller.scrollTop, at: view.cursor, unfolded: [...view.unfolded] };
  sessionStorage.setItem(PLACE_KEY, JSON.stringify(place));
}

function recall(view) {
  const place = JSON.parse(sessionStorage.getItem(PLACE_KEY) ?? "{}");
  view.cursor = place.at ?? null;
  view.unfolded = new Set(place.unfolded ?? []);
  draw(view);
  view.ui.scroller.scrollTop = place.top ?? 0;
}
