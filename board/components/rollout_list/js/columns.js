// Which columns are shown, and the head above them.

const GAP = 8;
const PADDING = 24;
const NARROW = 520; // below it a text of its own column has no room

/** A rollout's own number is a name: it stands at the left, as names do. */
const lookOf = (column) => (column.name === "index" ? "index" : column.kind);
const isWords = (column) => column.kind === "words";

/** The columns that fit into a width, those of most worth first; what is sorted by is always there. */
function fittingColumns(view, width) {
  const { columns } = view.data.page;
  if (!view.data.fits) return columns;
  let room = width - PADDING;
  const shown = new Set();
  const take = (column) => {
    shown.add(column);
    room -= column.width + GAP;
  };
  columns.filter((one) => one.name === "index" || one.name === view.data.sort).forEach(take);
  for (const column of [...columns].sort((a, b) => a.worth - b.worth)) {
    if (shown.has(column) || (isWords(column) && width < NARROW)) continue;
    if (column.width + GAP <= room) take(column);
  }
  return columns.filter((column) => shown.has(column));
}

/** The pixels that columns need; with less room the list scrolls sideways. */
function leastWidth(columns) {
  return columns.reduce((sum, column) => sum + column.width + GAP, PADDING);
}

function tracksOf(columns) {
  const last = columns.length - 1;
  const grows = columns.some(isWords);
  return columns
    .map((column, n) => {
      if (isWords(column)) return `minmax(${column.width}px, ${column.name === "response" ? 3 : 2}fr)`;
      return !grows && n === last ? `minmax(${column.width}px, 1fr)` : `${column.width}px`;
    })
    .join(" ");
}

function fillHead(view) {
  const { head } = view.ui;
  head.replaceChildren(...view.columns.map((column) => headCell(view, column)));
}

function headCell(view, column) {
  const { sort, descending } = view.data;
  const isSorted = column.name === sort;
  const cell = make("div", `head-cell ${lookOf(column)}`);
  cell.setAttribute("role", "columnheader");
  cell.title = column.help;
  if (isWords(column)) {
    cell.textContent = column.label;
    return cell;
  }
  const button = make("button", isSorted ? "sort on" : "sort");
  button.type = "button";
  button.append(make("span", "label", column.label));
  if (isSorted) button.append(make("span", "arrow", descending ? "↓" : "↑"));
  cell.setAttribute("aria-sort", isSorted ? (descending ? "descending" : "ascending") : "none");
  button.onclick = () => sortBy(view, column);
  cell.append(button);
  return cell;
}

/** Numbers begin with the largest, texts and places with the first; a second click turns it around. */
function sortBy(view, column) {
  const { sort, descending } = view.data;
  const startsDown = column.kind !== "text" && column.name !== "index";
  const down = column.name === sort ? !descending : startsDown;
  const name = column.name === "index" ? null : column.name; // the page leaves out what is its default
  goTo(view, { sort: name, desc: down ? 1 : null, page: null }, { push: true });
}
