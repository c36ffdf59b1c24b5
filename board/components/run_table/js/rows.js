// The rows: each stays as it is until its data changes.

const AT_ONCE = 40;
const FILL_PAUSE_MS = 8;

/** Puts the rows that are shown in their order onto the page. */
function drawRows(view) {
  const look = JSON.stringify(view.columns);
  if (look !== view.look) view.elements.clear();
  view.look = look;
  view.order = foldedRows(view);
  const elements = view.order.map((row) => elementOf(view, row));
  const { children } = view.ui.rows;
  if (elements.length !== children.length || elements.some((element, n) => children[n] !== element)) {
    view.ui.rows.replaceChildren(...elements);
  }
  fillRows(view, elements);
  view.ui.table.setAttribute("role", view.data.groups.length ? "treegrid" : "grid");
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
  const element = make("div", `row${row.is_old ? " old" : ""}${isGroup(row) ? " group-row" : ""}`);
  element.setAttribute("role", "row");
  if (row.is_old) element.title = "The log changed since; it is read again.";
  const box = tickBox(isGroup(row) ? `Compare the runs of ${row.label}` : `Compare ${row.label}`);
  box.tabIndex = -1;
  const ticks = make("div", "cell ticks");
  ticks.setAttribute("role", "gridcell");
  ticks.append(box);
  ticks.onclick = (event) => {
    event.stopPropagation();
    tick(view, row);
  };
  element.append(ticks);
  element.fill = () => {
    element.fill = null;
    element.append(...view.columns.map((column) => cellOf(view, column, row)));
  };
  element.onclick = ({ target }) => {
    if (!getSelection().isCollapsed) return;
    if (isGroup(row)) return fold(view, row);
    ask(view, target.closest(".chip > .value") && !row.waits ? "findings" : "overview", [row.name]);
  };
  return element;
}

/** Marks what is ticked, in its colours, and the row that the keys are at, which Tab leads to. */
function markRows(view) {
  const { colours } = view.data;
  const at = Math.max(view.order.findIndex((row) => keyOf(row) === view.cursor), 0);
  view.order.forEach((row, n) => {
    const element = view.ui.rows.children[n];
    const nth = isGroup(row) ? -1 : view.ticked.indexOf(row.name);
    const ticked = runsOf(view, row).filter((name) => view.ticked.includes(name)).length;
    const all = ticked === runsOf(view, row).length;
    const box = element.querySelector(".tick");
    element.classList.toggle("ticked", all);
    element.classList.toggle("cursor", keyOf(row) === view.cursor);
    element.tabIndex = n === at ? 0 : -1;
    element.setAttribute("aria-selected", String(all));
    box.setAttribute("aria-checked", all ? "true" : ticked ? "mixed" : "false");
    box.style.setProperty("--tick", nth >= 0 ? colours[nth % colours.length] : "");
    if (view.data.groups.length) markLevel(view, row, element);
  });
}

/** Says which rows can be unfolded, and which belong to one. */
function markLevel(view, row, element) {
  const isMember = view.parents.has(row.name);
  element.classList.toggle("member", isMember);
  element.setAttribute("aria-level", isMember ? "2" : "1");
  if (isGroup(row)) element.setAttribute("aria-expanded", String(view.unfolded.has(row.name)));
}

/** The age of each log, as time goes by. */
function tellAges(view) {
  for (const cell of view.ui.rows.querySelectorAll(".age[data-at]")) {
    const text = ageText({ at: Number(cell.dataset.at), text: cell.dataset.text });
    if (cell.textContent !== text) cell.textContent = text;
  }
}
