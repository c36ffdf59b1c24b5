// The list: one object per mounted element, handlers bound once, rows drawn when they change.

const VIEWS = new WeakMap();
const WIDTH_KEY = "rollout-board:list-width";
const HIDDEN_KEY = "rollout-board:list-hidden";
const PLACE_KEY = "rollout-board:list:";
const LEAST_WIDTH = 200;
const NARROW_WINDOW = 1000; // below it a rollout needs the whole width
const BOTTOM = 16;
const PEEK = 150; // of what stands below the list

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".list");
  const view = VIEWS.get(root) ?? createView(root);
  VIEWS.set(root, view);
  load(view, data);
  return () => {
    clearTimeout(view.rerun);
    view.stop.abort();
    view.untake();
    view.unfollow();
    view.resized.disconnect();
    VIEWS.delete(root);
  };
}

function load(view, data) {
  const shown = JSON.stringify([data.page, data.sort, data.descending, data.fits]);
  const isOther = view.data?.identity !== data.identity;
  data.page.columns.forEach((column, place) => (column.place = place));
  view.data = data;
  takeOpen(view, data);
  view.ui.root.classList.toggle("reading", data.opened !== null);
  fitHeight(view);
  const isNew = view.shown !== shown;
  view.shown = shown;
  if (isNew) layOut(view, { force: true });
  if (isOther) recall(view);
  else if (isNew && view.turned) view.ui.scroller.scrollTop = 0;
  view.turned = false;
  markRows(view);
  if (isNew || isOther) showRow(view, placeOf(view, view.open), isOther ? "center" : "nearest");
  fillFoot(view);
}

/** What the server says is open, or the URL where that was changed since. */
function takeOpen(view, { opened, answered }) {
  view.open = isBehindUrl(answered) ? addressInUrl() : opened;
  if (view.open) view.cursor = view.open;
}

function createView(root) {
  const view = { ui: build(root), data: null, columns: [], open: null, cursor: null };
  Object.assign(view, { rerun: null, shown: "", turned: false, stop: new AbortController() });
  bind(view);
  showWidth(Number(localStorage.getItem(WIDTH_KEY)) || 0);
  showHidden(view);
  return view;
}

function build(root) {
  const ui = { root };
  const frame = make("div", "grid");
  // Rows alone: what else stands in the frame is no part of a grid.
  ui.scroller = ui.grid = make("div", "scroller");
  ui.grid.setAttribute("role", "grid");
  ui.grid.setAttribute("aria-label", "Rollouts");
  ui.grid.tabIndex = 0;
  ui.head = make("div", "head");
  ui.head.setAttribute("role", "row");
  ui.rows = make("div", "rows");
  ui.scroller.append(ui.head, ui.rows);
  ui.range = make("span", "range");
  const button = (name, text, title) => {
    ui[name] = make("button", name, text);
    ui[name].type = "button";
    ui[name].title = title;
    ui[name].setAttribute("aria-label", title);
    return ui[name];
  };
  const foot = make("div", "foot");
  const keys = make("span", "keys");
  keys.append(make("kbd", "", "J"), make("kbd", "", "K"), " ", make("span", "", "next, previous"));
  foot.append(ui.range, button("previous", "‹", "Previous page"), button("next", "›", "Next page"));
  foot.append(make("span", "grow"), keys, button("hide", "", "Hide the list"));
  button("show", "", "Show the list").append(make("span", "upright", "Rollouts"));
  ui.edge = make("div", "edge");
  ui.edge.title = "Drag to resize, double-click to reset";
  frame.append(ui.scroller, foot);
  root.replaceChildren(frame, ui.show, ui.edge); // mounted again, it holds what was built before
  return ui;
}

function bind(view) {
  const { ui } = view;
  const { signal } = view.stop;
  view.untake = takeKeys(ui.root, (key) => takeListKey(view, key));
  view.unfollow = followOutbox(() => view.data && markLabels(view));
  const resize = () => {
    fitHeight(view);
    showHidden(view);
  };
  addEventListener("resize", resize, { signal });
  ui.grid.onkeydown = (event) => onListKey(view, event);
  ui.previous.onclick = () => turnPage(view, -1);
  ui.next.onclick = () => turnPage(view, 1);
  ui.hide.onclick = () => hide(view, true);
  ui.show.onclick = () => hide(view, false);
  ui.scroller.onscroll = () => {
    fillFoot(view);
    clearTimeout(view.scrolled);
    view.scrolled = setTimeout(() => remember(view), 100);
  };
  bindEdge(view);
  view.resized = new ResizeObserver(() => {
    if (view.data) layOut(view);
  });
  view.resized.observe(ui.root);
}

/** Draws the columns that fit; only where other ones do, or the rows changed. */
function layOut(view, { force = false } = {}) {
  const { root, grid } = view.ui;
  const columns = fittingColumns(view, root.clientWidth);
  const tracks = tracksOf(columns);
  fitHeight(view);
  if (force || tracks !== view.tracks) {
    Object.assign(view, { columns, tracks });
    grid.style.setProperty("--tracks", tracks);
    grid.style.setProperty("--least", `${leastWidth(columns)}px`);
    fillHead(view);
    drawRows(view);
    markRows(view);
  }
  fillFoot(view);
}

/** From its place to the lower end of the window. */
function fitHeight(view) {
  const { root } = view.ui;
  const main = document.querySelector("[data-testid=stMain]");
  const top = root.getBoundingClientRect().top + (main?.scrollTop ?? 0);
  const room = innerHeight - top - (view.data?.opened ? BOTTOM : PEEK);
  root.style.setProperty("--height", `${Math.max(room, 220)}px`);
}

// --- where one was ---------------------------------------------------------------------------------

function remember(view) {
  const place = { top: view.ui.scroller.scrollTop, at: view.open ?? view.cursor };
  sessionStorage.setItem(PLACE_KEY + view.data.identity, JSON.stringify(place));
}

function recall(view) {
  const place = JSON.parse(sessionStorage.getItem(PLACE_KEY + view.data.identity) ?? "{}");
  view.cursor = view.open ?? place.at ?? null;
  view.ui.scroller.scrollTop = place.top ?? 0;
}

// --- width -----------------------------------------------------------------------------------------

function showWidth(width) {
  const { style } = document.documentElement;
  if (width) style.setProperty("--rollout-list-width", `${width}px`);
  else style.removeProperty("--rollout-list-width");
}

/** In a narrow window the list makes room for the rollout until somebody asks for it. */
function showHidden(view) {
  const wanted = localStorage.getItem(HIDDEN_KEY) ?? (innerWidth < NARROW_WINDOW ? "1" : "0");
  document.documentElement.dataset.rolloutList = wanted === "1" ? "hidden" : "shown";
  view.ui.root.classList.toggle("aside", wanted === "1");
}

function hide(view, isHidden) {
  localStorage.setItem(HIDDEN_KEY, isHidden ? "1" : "0");
  showHidden(view);
}

function bindEdge(view) {
  const { edge, root } = view.ui;
  edge.onpointerdown = (event) => {
    edge.setPointerCapture(event.pointerId);
    const from = root.clientWidth - event.clientX;
    edge.onpointermove = (moved) => {
      const width = Math.max(LEAST_WIDTH, Math.min(from + moved.clientX, innerWidth * 0.6));
      localStorage.setItem(WIDTH_KEY, String(Math.round(width)));
      showWidth(width);
    };
    event.preventDefault();
  };
  edge.onpointerup = () => (edge.onpointermove = null);
  edge.ondblclick = () => {
    localStorage.removeItem(WIDTH_KEY);
    showWidth(0);
  };
}
