// The head of the table: group heads, heads that sort, the box that ticks all.

const GAP = 9;
const TICK_WIDTH = 18;
const LEAST_NAME = 190;
const NARROW_NAME = 150;
const NARROW = 640;
const PADDING = 24;
const EDGES = 14; // two borders and a scroll bar

/** The columns that there is room for. */
function fittingColumns(view) {
  const isNarrow = view.ui.root.clientWidth < NARROW;
  const columns = view.data.columns.filter((column) => !(isNarrow && column.roomy));
  const room = view.ui.root.clientWidth - EDGES;
  while (leastOf(view, columns) > room) {
    const place = columns.findLastIndex(({ spare, name }) => spare && name !== view.sort);
    if (place < 0) break;
    columns.splice(place, 1);
  }
  return columns;
}

function leastName(view) {
  return view.ui.root.clientWidth < NARROW ? NARROW_NAME : LEAST_NAME;
}

/** Pixels that these columns need. */
function leastOf(view, columns) {
  const widths = columns.map(({ kind, width }) => GAP + (kind === "name" ? leastName(view) : width));
  return TICK_WIDTH + PADDING + widths.reduce((sum, width) => sum + width, 0);
}

/** The widths of all columns; names and findings share what is left. */
function tracksOf(view) {
  const name = leastName(view);
  const tracks = view.columns.map(({ kind, width }) => {
    if (kind === "name") return `minmax(${name}px, 3fr)`;
    return kind === "chip" ? `minmax(${width}px, 1fr)` : `${width}px`;
  });
  return { tracks: `${TICK_WIDTH}px ${tracks.join(" ")}`, least: `${leastOf(view, view.columns)}px` };
}

function drawHead(view) {
  const { columns } = view;
  const groups = make("div", "groups");
  groups.setAttribute("aria-hidden", "true"); // the heads below say the same by their titles
  let from = 0;
  while (from < columns.length) {
    let to = from + 1;
    while (to < columns.length && columns[to].group === columns[from].group) to++;
    if (columns[from].group) {
      const { group: words, of } = columns[from];
      const group = make("div", "group", to - from < of ? `${words}, ${to - from} of ${of}` : words);
      group.style.gridColumn = `${from + 2} / ${to + 2}`;
      groups.append(group);
    }
    from = to;
  }
  groups.hidden = !groups.childElementCount;
  const heads = make("div", "heads");
  heads.setAttribute("role", "row");
  const tick = make("div", "cell ticks");
  tick.setAttribute("role", "columnheader");
  tick.append(view.ui.all);
  heads.append(tick, ...columns.map((column) => headCell(view, column)));
  view.ui.head.replaceChildren(groups, heads);
}

function headCell(view, column) {
  const cell = make("div", `cell ${column.kind}`);
  cell.setAttribute("role", "columnheader");
  cell.title = column.group ? `${column.help} (${column.group})` : column.help;
  const isSorted = view.sort === column.name;
  const button = makeButton(isSorted ? "sort on" : "sort");
  const label = make("span", "label");
  fillName(label, column.label);
  button.append(label);
  if (isSorted) button.append(make("span", "arrow", view.descending ? "↓" : "↑"));
  cell.setAttribute("aria-sort", isSorted ? (view.descending ? "descending" : "ascending") : "none");
  button.onclick = () => sortBy(view, column);
  cell.append(button);
  return cell;
}

/** Numbers and ages begin with the largest, texts with the first; a second click turns it around. */
function sortBy(view, column) {
  const startsDown = !["name", "text"].includes(column.kind);
  const descending = view.sort === column.name ? !view.descending : startsDown;
  choose(view, { sort: column.name, descending });
}

function compared(one, other) {
  if (typeof one === "string" && typeof other === "string") {
    return one.localeCompare(other, "en", { numeric: true });
  }
  if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
  return typeof one === "number" ? -1 : 1;
}

/** Rows in their order: what is not recorded comes last, whichever way. */
function sortedRows(view, rows) {
  const valueOf = (row) => (view.sort === "name" ? row.label : (row.cells[view.sort]?.sort ?? null));
  const keys = new Map(rows.map((row) => [row, valueOf(row)]));
  const places = new Map(rows.map((row) => [row, firstPlace(view, row)]));
  const sign = view.descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [one, other] = [keys.get(a), keys.get(b)];
    const before = places.get(a) - places.get(b);
    if (one === null || other === null) return (one === null) - (other === null) || before;
    return sign * compared(one, other) || before;
  });
}

/** Where a run, or the first of a group, stands in the order of discovery. */
function firstPlace(view, row) {
  return isGroup(row) ? row.members[0] : view.placeOf.get(row.name);
}
