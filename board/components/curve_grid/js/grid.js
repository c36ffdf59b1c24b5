// The charts of a page in two columns. Each stays as it is until its data changes, zoom included.

const GRIDS = new WeakMap();

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".curves");
  const grid = GRIDS.get(root) ?? createGrid(root);
  GRIDS.set(root, grid);
  grid.pick = (chart, step, line) => setTriggerValue("picked", { chart, step, line });
  show(grid, data);
  return () => {
    grid.turn++;
    grid.resized.disconnect();
    for (const { plot } of grid.cells.values()) plot?.destroy();
    GRIDS.delete(root);
  };
}

/** Draws what is new; what was told meanwhile takes its place. */
async function show(grid, data) {
  const turn = ++grid.turn;
  const { step, across, charts } = opened(data);
  const known = new Map([...grid.cells.values()].map((cell) => [cell.sign, cell]));
  const found = await Promise.all(charts.map(async ({ sign, packed }) => known.get(sign) ?? { sign, told: await unpacked(packed) }));
  if (turn !== grid.turn) return;
  const moved = grid.step !== step;
  grid.step = step;
  grid.root.style.setProperty("--across", Math.min(across, charts.length));
  const cells = found.map((one) => (one.grid ? one : renewed(grid, one)));
  grid.cells = new Map(cells.map((cell) => [cell.key, cell]));
  const elements = cells.map((cell) => cell.element);
  const { children } = grid.root;
  if (elements.length !== children.length || elements.some((element, i) => children[i] !== element)) {
    grid.root.replaceChildren(...elements);
  }
  for (const cell of cells) {
    if (!known.has(cell.sign)) draw(cell);
    else if (moved && cell.plot) placeStep(cell.plot, cell);
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

async function unpacked(bytes) {
  const { readable, writable } = new DecompressionStream("deflate");
  const writer = writable.getWriter();
  writer.write(bytes);
  writer.close();
  const decoder = new TextDecoder();
  let text = "";
  for (const reader = readable.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return JSON.parse(text + decoder.decode());
    text += decoder.decode(value, { stream: true });
  }
}

function createGrid(root) {
  const grid = { root, turn: 0, step: null, cells: new Map(), pick: () => {} };
  grid.resized = new ResizeObserver(() => {
    for (const cell of grid.cells.values()) fit(cell);
  });
  grid.resized.observe(root);
  return grid;
}

/** The cell of a chart that is new or has other data. */
function renewed(grid, { sign, told }) {
  const cell = grid.cells.get(told.key) ?? createCell(grid, told.key);
  return Object.assign(cell, { sign, told, chart: told.chart, texts: null });
}

function createCell(grid, key) {
  const cell = { grid, key, zoom: null, hidden: new Set(), plot: null };
  cell.element = make("section", "card");
  cell.head = make("header");
  cell.place = make("div", "plot");
  cell.notes = make("div", "notes");
  cell.element.append(cell.head, cell.place, cell.notes);
  return cell;
}

function draw(cell) {
  const { told, chart } = cell;
  cell.head.replaceChildren(...headOf(cell));
  cell.notes.replaceChildren(...told.notes.map((note) => make("p", "", note)));
  cell.tip = make("div", "tip");
  cell.line = make("div", "step-line");
  cell.tip.hidden = cell.line.hidden = true;
  cell.line.style.borderColor = cell.chart.ink.text;
  cell.plot?.destroy();
  cell.place.replaceChildren(...(chart.legend ? [legendOf(cell)] : []));
  cell.plot = createPlot(cell, cell.place, cell.place.clientWidth);
  cell.plot.over.append(cell.line, cell.tip);
  cell.place.append(make("span", "axis-name", "step"));
  listen(cell);
}

function headOf(cell) {
  const { title, unit, help } = cell.told;
  const parts = [make("b", "", title)];
  if (unit) parts.push(make("span", "unit", unit));
  if (help.length) {
    const sign = make("button", "help", "?");
    sign.type = "button";
    sign.setAttribute("aria-label", help.join(" "));
    const text = make("div", "help-text");
    text.append(...help.map((line) => make("p", "", line)));
    parts.push(sign, text);
  }
  cell.out = make("button", "out", "whole run");
  cell.out.type = "button";
  cell.out.title = "Back from the zoom (double click)";
  cell.out.hidden = true;
  cell.out.addEventListener("click", () => zoomOut(cell));
  const tools = make("div", "tools");
  tools.append(cell.out, ...saversOf(cell));
  return [...parts, tools];
}

/** The names of the lines; a click hides one with its band. */
function legendOf(cell) {
  const legend = make("div", "legend");
  cell.chart.lines.forEach((line, i) => {
    const name = make("button", "", unescaped(line.name));
    name.type = "button";
    name.style.setProperty("--ink", line.ink);
    name.style.setProperty("--dash", line.dash === "solid" ? "solid" : line.dash === "dot" ? "dotted" : "dashed");
    name.setAttribute("aria-pressed", String(!cell.hidden.has(line.group)));
    name.addEventListener("click", () => {
      if (!cell.hidden.delete(line.group)) cell.hidden.add(line.group);
      name.setAttribute("aria-pressed", String(!cell.hidden.has(line.group)));
      cell.plot.setSeries(i + 1, { show: !cell.hidden.has(line.group) });
    });
    legend.append(name);
  });
  return legend;
}

function listen(cell) {
  const { over } = cell.plot;
  let began = null;
  over.addEventListener("mousedown", (event) => {
    began = [event.clientX, event.clientY];
  });
  over.addEventListener("click", (event) => {
    const moved = began && Math.hypot(event.clientX - began[0], event.clientY - began[1]);
    const found = nearestPoint(cell.plot);
    if (moved === null || moved >= DRAGGED_PIXELS || !found) return;
    cell.grid.pick(cell.key, found.step, cell.chart.lines[found.row - 1].group);
  });
}

function fit(cell) {
  const width = cell.place.clientWidth;
  if (cell.plot && width && width !== cell.plot.width) cell.plot.setSize({ width, height: cell.plot.height });
}
