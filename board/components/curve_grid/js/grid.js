// The charts of a page in rows. Each stays as it is until its data changes.

const GRIDS = new WeakMap();

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".curves");
  const grid = GRIDS.get(root) ?? createGrid(root);
  GRIDS.set(root, grid);
  grid.pick = (chart, step, line, dot) => setTriggerValue("clicked", { chart, step, line, dot });
  grid.open = ({ id, kind, step }) => setTriggerValue("opened", { id, kind, step });
  show(grid, data);
  return () => {
    grid.turn++;
    grid.resized.disconnect();
    grid.left.abort();
    for (const cell of grid.cells.values()) drop(cell);
    GRIDS.delete(root);
  };
}

/** Draws what is new; data that arrives meanwhile replaces it. */
async function show(grid, data) {
  const turn = ++grid.turn;
  const { step, across, marks, one_legend, charts } = opened(data);
  const known = new Map([...grid.cells.values()].map((cell) => [cell.sign, cell]));
  const found = await Promise.all(charts.map(async ({ sign, packed }) => known.get(sign) ?? { sign, card: await unpacked(packed) }));
  if (turn !== grid.turn) return;
  Object.assign(grid, { step, marks });
  const cells = found.map((one) => (one.grid ? one : renewed(grid, one)));
  const steps = stepsOf(cells.map((cell) => cell.chart), marks);
  // Another lane of marks, or another axis of steps: of every chart.
  const frame = JSON.stringify([steps, marks, one_legend]);
  const isMoved = frame !== grid.frame;
  Object.assign(grid, { frame, steps });
  for (const cell of grid.cells.values()) if (!cells.includes(cell)) drop(cell);
  grid.cells = new Map(cells.map((cell) => [cell.key, cell]));
  arrange(grid, cells, Math.min(across, charts.length), one_legend);
  PAGE.zoom = zoomOfUrl();
  for (const cell of cells) {
    if (isMoved || !known.has(cell.sign)) draw(cell);
    else cell.rescale();
    cell.point(PAGE.pointed, false);
  }
  for (const bar of PAGE.bars) bar.render();
}

/** Puts the cards, below one legend of them all if so, onto the page; those that are there stay. */
function arrange(grid, cells, across, oneLegend) {
  grid.root.style.setProperty("--across", across);
  grid.root.style.setProperty("--across-narrow", Math.min(across, 2));
  grid.hasOneLegend = oneLegend;
  const lines = new Map(cells.flatMap((cell) => cell.chart.lines.map((line) => [line.name, line])));
  const legend = oneLegend && lines.size > 1 ? [legendOf(grid, [...lines.values()])] : [];
  grid.legend.replaceChildren(...legend);
  grid.legend.hidden = !legend.length;
  const elements = [grid.legend, ...cells.map((cell) => cell.element)];
  const { children } = grid.root;
  if (elements.length !== children.length || elements.some((element, i) => children[i] !== element)) {
    grid.root.replaceChildren(...elements);
  }
}

/** What all charts have in common, and the bytes of each: board/components/curve_grid/__init__.py. */
function opened(data) {
  const end = data.indexOf(10);
  const common = JSON.parse(new TextDecoder().decode(data.subarray(0, end)));
  let at = end + 1;
  const charts = common.charts.map(([sign, size]) => ({ sign, packed: data.subarray(at, (at += size)) }));
  return { ...common, charts };
}

function createGrid(root) {
  const grid = { root, turn: 0, step: null, marks: [], steps: [0, 0], cells: new Map(), hidden: new Set() };
  grid.legend = make("div", "one-legend");
  grid.left = new AbortController();
  window.addEventListener("keydown", (event) => event.key === "Escape" && !isTyping(event) && resetZooms(grid), { signal: grid.left.signal });
  grid.resized = new ResizeObserver(() => {
    for (const cell of grid.cells.values()) fit(cell);
  });
  grid.resized.observe(root);
  return grid;
}

function resetZooms(grid) {
  for (const cell of grid.cells.values()) if (cell.valueZoom) zoomOut(cell);
  if (PAGE.zoom) zoomTo(null);
}

/** The cell of a chart that is new or has other data. */
function renewed(grid, { sign, card }) {
  const cell = grid.cells.get(card.key) ?? createCell(grid, card.key);
  return Object.assign(cell, { sign, card, chart: card.chart, texts: null });
}

function createCell(grid, key) {
  const cell = { grid, key, valueZoom: null, hidden: grid.hidden, plot: null, marks: [] };
  cell.rescale = () => rescale(cell);
  cell.point = (step, isSource) => point(cell, step, isSource);
  cell.element = make("section", "card");
  cell.head = make("header");
  cell.place = make("div", "plot");
  cell.notes = make("div", "notes");
  cell.element.append(cell.head, cell.place, cell.notes);
  PAGE.cells.add(cell);
  return cell;
}

function drop(cell) {
  PAGE.cells.delete(cell);
  cell.plot?.destroy();
}

function draw(cell) {
  const { card, chart, grid } = cell;
  cell.head.replaceChildren(...headOf(cell));
  cell.notes.replaceChildren(...card.notes.map((note) => make("p", "", note)));
  cell.tip = make("div", "tip");
  cell.line = make("div", "step-line");
  cell.cross = make("div", "step-line cross");
  cell.tip.hidden = cell.line.hidden = cell.cross.hidden = true;
  cell.line.style.borderColor = cell.cross.style.borderColor = chart.ink.text;
  cell.plot?.destroy();
  cell.ownLegend = chart.legend && !grid.hasOneLegend;
  cell.place.replaceChildren(...(cell.ownLegend ? [legendOf(grid, chart.lines.filter((line) => line.named))] : []));
  cell.plot = createPlot(cell, cell.place, cell.place.clientWidth);
  cell.lane = laneOf(cell);
  cell.plot.over.append(cell.line, cell.cross, cell.tip, cell.lane);
  cell.place.append(make("span", "axis-name", "step"));
  listen(cell);
  cell.rescale();
}

function headOf(cell) {
  const { title, unit, help } = cell.card;
  const name = make("span", "name");
  name.append(make("b", "", title), make("span", "unit", unit));
  if (help.length) name.title = help.join("\n\n");
  cell.out = make("button", "out", "whole run");
  cell.out.type = "button";
  cell.out.title = "Back from the zoom (double click or Esc)";
  cell.out.addEventListener("click", () => zoomOut(cell));
  cell.readout = make("span", "readout");
  const tools = make("span", "tools");
  tools.append(cell.out, ...saversOf(cell));
  return [name, cell.readout, tools];
}

/** The names of the lines; a click hides one, with its band, wherever it is drawn. */
function legendOf(grid, lines) {
  const legend = make("div", "legend");
  for (const line of lines) {
    const name = make("button", "", unescaped(line.name));
    name.type = "button";
    name.style.setProperty("--ink", line.ink);
    name.style.setProperty("--dash", line.dash === "solid" ? "solid" : line.dash === "dot" ? "dotted" : "dashed");
    name.setAttribute("aria-pressed", String(!grid.hidden.has(line.name)));
    name.addEventListener("click", () => {
      if (!grid.hidden.delete(line.name)) grid.hidden.add(line.name);
      name.setAttribute("aria-pressed", String(!grid.hidden.has(line.name)));
      for (const cell of grid.cells.values()) showLines(cell);
    });
    legend.append(name);
  }
  return legend;
}

function showLines({ plot, chart, hidden }) {
  chart.lines.forEach((line, i) => {
    const show = !hidden.has(line.name);
    if (plot.series[i + 1].show !== show) plot.setSeries(i + 1, { show });
  });
}

function listen(cell) {
  const { over } = cell.plot;
  let began = null;
  over.addEventListener("mousedown", (event) => {
    began = [event.clientX, event.clientY];
  });
  over.addEventListener("mouseleave", () => pointAt(null, cell));
  over.addEventListener("click", (event) => {
    const moved = began && Math.hypot(event.clientX - began[0], event.clientY - began[1]);
    if (moved === null || moved >= DRAGGED_PIXELS) return;
    const dot = pointedDot(cell.plot, cell);
    const found = dot ? null : nearestPoint(cell.plot);
    if (dot) cell.grid.pick(cell.key, dot.step, "", dot.id);
    else if (found) cell.grid.pick(cell.key, found.step, cell.chart.lines[found.row - 1].group, null);
  });
}

function fit(cell) {
  const width = cell.place.clientWidth;
  if (cell.plot && width && width !== cell.plot.width) cell.plot.setSize({ width, height: cell.plot.height });
}
