// The rows of the page that the list shows.

function drawRows(view) {
  const { page } = view.data;
  const { rows } = view.ui;
  rows.classList.toggle("two-lines", page.words !== null);
  rows.replaceChildren(...page.addresses.map((_, n) => rowOf(view, n)));
  view.ui.grid.setAttribute("aria-rowcount", page.total);
  markLabels(view);
}

/** Labels that the list has not been told of yet, in the column of labels or else at the end of the row. */
function markLabels(view) {
  const { run, received, page } = view.data;
  const labels = new Map();
  const add = (one, text, reason) => labels.set(keyOf([one.step, one.index]), { text, reason });
  for (const one of OUTBOX.of(run, received)) if (one.kind === "label") add(one, one.value, "");
  for (const one of OUTBOX.refused(run)) add(one, `${one.value || one.kind}: not stored`, one.reason);
  const column = view.columns.findIndex((one) => one.name === "label");
  for (const mark of view.ui.rows.querySelectorAll(".sent")) mark.remove();
  page.addresses.forEach((address, n) => {
    const label = labels.get(keyOf(address));
    if (!label) return;
    const mark = make("span", label.reason ? "sent refused" : "sent", label.text);
    mark.title = label.reason || "On its way to the label file";
    const line = view.ui.rows.children[n].firstElementChild;
    (line.children[column] ?? line).append(mark);
  });
}

function rowOf(view, n) {
  const { page } = view.data;
  const row = make("div", "row");
  row.id = `row-${n}`;
  row.setAttribute("role", "row");
  row.setAttribute("aria-rowindex", page.first + n + 1);
  const line = make("div", "line");
  for (const column of view.columns) line.append(cellOf(column, page.values[n][column.place]));
  row.append(line);
  if (page.words !== null) row.append(make("div", "words", page.words[n]));
  row.onclick = () => {
    if (getSelection().isCollapsed) openRow(view, n);
  };
  return row;
}

function cellOf(column, value) {
  const cell = make("div", `cell ${lookOf(column)}`);
  cell.setAttribute("role", "gridcell");
  const text = valueText(value);
  if (column.kind === "bar") cell.append(barOf(value, column), make("span", "figure", text));
  else cell.textContent = text;
  if (text === MISSING) cell.classList.add("missing");
  if (column.kind === "text") cell.title = text;
  return cell;
}

/** Marks the open row, or else the one that the keys are at. */
function markRows(view) {
  const open = view.open ? placeOf(view, view.open) : -1;
  const at = open >= 0 ? open : placeOf(view, view.cursor);
  const { rows, grid } = view.ui;
  for (const row of rows.querySelectorAll(".open, .cursor")) {
    row.classList.remove("open", "cursor");
    row.removeAttribute("aria-selected");
  }
  const row = rows.children[at];
  if (!row) return grid.removeAttribute("aria-activedescendant");
  row.classList.add(open >= 0 ? "open" : "cursor");
  row.setAttribute("aria-selected", "true");
  grid.setAttribute("aria-activedescendant", row.id);
}

function showRow(view, n, block = "nearest") {
  const row = view.ui.rows.children[n];
  const { scroller, head } = view.ui;
  if (!row) return;
  const top = row.offsetTop - head.offsetHeight;
  const bottom = row.offsetTop + row.offsetHeight;
  const { scrollTop, clientHeight } = scroller;
  if (top >= scrollTop && bottom <= scrollTop + clientHeight) return;
  const middle = top - (clientHeight - head.offsetHeight) / 2;
  const nearest = top < scrollTop ? top : bottom - clientHeight;
  scroller.scrollTop = block === "center" ? middle : nearest;
}

/** Which rows are in view, of how many; with several pages, the way to the next. */
function fillFoot(view) {
  const { scroller, rows, range, head, previous, next } = view.ui;
  const { first, total, addresses, size } = view.data.page;
  const height = rows.firstElementChild?.offsetHeight || 1;
  const seen = Math.floor((scroller.clientHeight - head.offsetHeight + 2) / height);
  const from = Math.min(Math.round(scroller.scrollTop / height), Math.max(addresses.length - seen, 0));
  const to = Math.min(from + Math.max(seen, 1), addresses.length);
  const figure = (number) => number.toLocaleString("en-US");
  range.textContent = `${figure(first + from + 1)}–${figure(first + to)} of ${figure(total)}`;
  previous.hidden = next.hidden = total <= size;
  previous.disabled = first === 0;
  next.disabled = first + addresses.length >= total;
}
