// J and K or arrows move, Enter or O opens or unfolds, X or Space ticks, / searches, Escape clears.

/** Whether the key was pressed on the page or in the table, and not in a menu or another field. */
function isOurs(view, { path: [target] }) {
  return target === document.body || target.matches?.("[data-testid=stMain]") || view.ui.root.contains(target);
}

/** A key of the page: true where it is the table's, also at an end of it. */
function takeTableKey(view, pressed) {
  if (!view.data) return "later";
  const key = pressed.key.length === 1 ? pressed.key.toLowerCase() : pressed.key;
  if (key.startsWith("Arrow") && !isOurs(view, pressed)) return false;
  const at = view.order.find((row) => keyOf(row) === view.cursor) ?? view.order[0];
  if (key === "j" || key === "ArrowDown") move(view, 1);
  else if (key === "k" || key === "ArrowUp") move(view, -1);
  else if (key === "/") view.ui.search.select();
  else if (key === "Escape" && view.ticked.length) clearTicks(view);
  else if ((key === "ArrowRight" || key === "ArrowLeft") && groupAt(view)) {
    fold(view, groupAt(view), key === "ArrowRight");
    showRow(view, view.order.findIndex((row) => keyOf(row) === view.cursor));
  } else if (!["x", " ", "Enter", "o"].includes(key)) return false;
  else if (!at) return true;
  else if (key === "x" || key === " ") tick(view, at);
  else if (isGroup(at)) fold(view, at);
  else ask(view, "overview", [at.name]);
  return true;
}

function move(view, by) {
  const names = view.order.map(keyOf);
  if (!names.length) return;
  const from = names.indexOf(view.cursor);
  const to = from < 0 ? (by > 0 ? 0 : names.length - 1) : Math.min(Math.max(from + by, 0), names.length - 1);
  view.cursor = names[to];
  markRows(view);
  showRow(view, to);
  remember(view);
}

/** Scrolls a row into view, below the head and above the bar. */
function showRow(view, n) {
  const { scroller, head, bar } = view.ui;
  const row = view.ui.rows.children[n];
  if (!row) return;
  if (view.ui.rows.contains(view.ui.rows.getRootNode().activeElement)) row.focus({ preventScroll: true });
  const top = row.offsetTop - head.offsetHeight;
  const room = scroller.clientHeight - (bar.hidden ? 0 : bar.offsetHeight + 24);
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (row.offsetTop + row.offsetHeight > scroller.scrollTop + room) {
    scroller.scrollTop = row.offsetTop + row.offsetHeight - room;
  }
}

/** Escape in the field empties it, and leaves it where it is empty; Enter goes to the rows. */
function onSearchKey(view, event) {
  const { search } = view.ui;
  if (event.key === "Escape") {
    if (!search.value) search.blur();
    search.value = "";
    searchFor(view, { now: true });
  } else if (event.key === "Enter" || event.key === "ArrowDown") {
    searchFor(view, { now: true });
    search.blur();
    if (event.key === "ArrowDown") move(view, 1);
  } else return;
  event.preventDefault();
}
