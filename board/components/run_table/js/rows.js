// The rows: each stays as it is until its data changes.

const AT_ONCE = 40;
const FILL_PAUSE_MS = 8;

/** Puts the rows that are shown in their order onto the page. */
function drawRows(view) {
  const { rows } = view.data;
  const look = JSON.stringify(view.columns);
  if (look !== view.look) view.elements.clear();
  view.look = look;
  view.order = sortedPlaces(view);
  const elements = view.order.map((place) => elementOf(view, rows[place]));
  const { children } = view.ui.rows;
  if (elements.length !== children.length || elements.some((element, n) => children[n] !== element)) {
    view.ui.rows.replaceChildren(...elements);
  }
  fillRows(view, elements);
  view.ui.grid.setAttribute("aria-rowcount", String(elements.length));
  view.ui.empty.hidden = elements.length > 0;
  view.ui.empty.textContent = view.data.empty;
}

/** Fills the rows that are seen first, and the others when those have been painted. */
function fillRows(view, elements) {
  clearTimeout(view.filling);
  const empty = elements.filter((element) => element.fill);
  empty.splice(0, AT_ONCE).forEach((element) => element.fill());
  if (empty.length) view.filling = setTimeout(() => fillRows(view, empty), FILL_PAUSE_MS);
}

function elementOf(view, row) {
  const sign = JSON.stringify(row);
  const known = view.elements.get(row.name);
  if (known?.sign === sign) return known.element;
  const element = rowOf(view, row);
  view.elements.set(row.name, { sign, element });
  return element;
}

function rowOf(view, row) {
  const element = make("div", row.is_old ? "row old" : "row");
  element.setAttribute("role", "row");
  if (row.is_old) element.title = "The log changed since; it is read again.";
  const box = tickBox(`Compare ${row.label}`);
  box.tabIndex = -1;
  const ticks = make("div", "cell ticks");
  ticks.setAttribute("role", "gridcell");
  ticks.append(box);
  ticks.onclick = (event) => {
    event.stopPropagation();
    tick(view, row.name);
  };
  element.append(ticks);
  element.fill = () => {
    element.fill = null;
    element.append(...view.columns.map((column) => cellOf(view, column, row)));
  };
  element.onclick = ({ target }) => {
    if (!getSelection().isCollapsed) return;
    ask(view, target.closest(".chip > .value") && !row.waits ? "findings" : "overview", [row.name]);
  };
  return element;
}

/** Marks what is ticked, in its colours, and the row that the keys are at. */
function markRows(view) {
  const { colours } = view.data;
  view.order.forEach((place, n) => {
    const { name } = view.data.rows[place];
    const element = view.ui.rows.children[n];
    const nth = view.ticked.indexOf(name);
    const box = element.querySelector(".tick");
    element.classList.toggle("ticked", nth >= 0);
    element.classList.toggle("cursor", name === view.cursor);
    box.setAttribute("aria-checked", String(nth >= 0));
    box.style.setProperty("--tick", nth >= 0 ? colours[nth % colours.length] : "");
  });
}

/** The age of each log, as time goes by. */
function tellAges(view) {
  for (const cell of view.ui.rows.querySelectorAll(".age[data-at]")) {
    const text = ageText({ at: Number(cell.dataset.at), text: cell.dataset.text });
    if (cell.textContent !== text) cell.textContent = text;
  }
}
