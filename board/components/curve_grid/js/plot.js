// One chart: lines, their bands, axes and zoom. What it draws comes from board/charts/curves.py.

const DASHES = { dash: [9, 6], dot: [3, 4], dashdot: [9, 5, 3, 5] };
const FONT = '"Source Sans", "Source Sans Pro", sans-serif';
const NEAR_PIXELS = 40;
const MOST_VALUES = 4;
const DRAGGED_PIXELS = 5;
const EDGE = 0.055;
// Values that differ by less are equal: means of the same numbers in another order.
const ROUNDING = 1e-9;
const LEGEND = 22;
const LANE = 13;
// What stands for a number that is not recorded, of a share and of any other.
const MISSING = new Set(["-", "not recorded"]);

/** The ends of both axes: of the page's zoom where this run has such steps, else of the whole run. */
function rangeOf(cell) {
  const { chart, grid, valueZoom } = cell;
  const zoom = zoomOf(grid);
  const x = stepEnds(...(zoom ?? grid.steps));
  return { x, y: valueZoom ?? (zoom ? valueRange(chart, x) : (chart.y.range ?? valueRange(chart))) };
}

function zoomOf({ steps: [first, last] }) {
  return PAGE.zoom && PAGE.zoom[0] <= last && PAGE.zoom[1] >= first ? PAGE.zoom : null;
}

/** From the smallest to the largest of the lines between two steps, and of what their bands may reach. */
function valueRange(chart, [from, to] = [-Infinity, Infinity]) {
  const isSeen = (step, value) => value !== null && step >= from && step <= to && (value > 0 || !chart.y.log);
  const drawn = [...chart.lines, ...chart.shapes.filter(({ recorded }) => recorded), ...chart.dots];
  const values = drawn.flatMap(({ x, y, low, high }) =>
    [y, low, high].flatMap((numbers) => (numbers ?? []).filter((value, i) => isSeen(x[i], value))),
  );
  if (values.length === 0) return chart.y.log ? [0.1, 10] : [0, 1];
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (chart.y.log) return [low / 1.2, high * 1.2];
  const size = Math.max(Math.abs(high), Math.abs(low));
  const isFlat = high - low <= size * ROUNDING;
  const margin = isFlat ? (size || 1) * 0.5 : (high - low) * EDGE;
  return [chart.y.nonnegative ? Math.max(0, low - margin) : low - margin, high + margin];
}

/** The columns that uPlot draws: steps, and a row of means for each line. */
function columnsOf(chart) {
  if (chart.lines.length === 0) return [[], []];
  return uPlot.join(chart.lines.map(({ x, y }) => [x, y]));
}

function createPlot(cell, place, width) {
  const { chart } = cell;
  const { ink } = chart;
  const range = (_, low, high) => [low, high];
  const ends = rangeOf(cell);
  const axis = { stroke: ink.muted, font: `11.5px ${FONT}`, ticks: { show: false } };
  const lane = cell.grid.marks.length ? LANE : 0;
  return new uPlot(
    {
      width,
      height: chart.height - (cell.ownLegend ? LEGEND : 0),
      padding: [10, 10, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, auto: false, min: ends.x[0], max: ends.x[1], range },
        y: { auto: false, min: ends.y[0], max: ends.y[1], range, distr: chart.y.log ? 3 : 1 },
      },
    series: [{}, ...(chart.lines.length ? chart.lines.map((line, i) => seriesOf(cell, line, i)) : [{}])],
      axes: [
        { ...axis, size: 28 + lane, gap: 5 + lane, grid: { show: false }, splits: () => stepTicks(...(zoomOf(cell.grid) ?? cell.grid.steps)), values: (_, at) => at.map(String) },
        { ...axis, size: gutter, gap: 7, space: 40, grid: { stroke: ink.grid, width: 1 }, values: labelsOf(chart) },
      ],
      cursor: {
        points: { size: 8 },
        hover: { prox: NEAR_PIXELS, skip: [null, undefined] },
        drag: { x: true, y: true, uni: 24, dist: DRAGGED_PIXELS, setScale: false, click: () => {} },
        bind: { dblclick: () => () => zoomOut(cell) },
        x: false,
        y: false,
      },
      hooks: {
        drawAxes: [(plot) => drawShapes(plot, cell)],
        setSelect: [(plot) => zoomToSelection(plot, cell)],
        draw: [(plot) => placeOverlays(plot, cell)],
        setCursor: [(plot) => pointTo(plot, cell)],
      },
    },
    columnsOf(chart),
    place,
  );
}

function seriesOf(cell, line, i) {
  return {
    scale: "y",
    stroke: line.ink,
    width: line.width,
    dash: DASHES[line.dash],
    show: !cell.hidden.has(line.name),
    spanGaps: line.connect,
    points: { show: false, size: 7, fill: line.ink, filter: (plot) => lonePoints(plot, line, i + 1) },
  };
}

/** A step between two gaps has no line: it is a point. */
function lonePoints(plot, line, row) {
  if (!line.lone) return null;
  const lone = new Set(line.x.filter((_, i) => line.lone[i]));
  return plot.data[0].flatMap((step, i) => (lone.has(step) && plot.data[row][i] != null ? [i] : []));
}

function labelsOf({ y }) {
  return (_, values, axis, space, distance) => (y.log ? logLabels(values) : valueLabels(y, values, distance));
}

/** As wide as the longest label, and as the word below the axis. */
function gutter(plot, labels) {
  if (!labels) return 30;
  plot.ctx.font = plot.axes[1].font[0];
  const widest = Math.max(0, ...labels.map((label) => plot.ctx.measureText(label ?? "").width));
  return Math.max(30, Math.ceil(widest / devicePixelRatio) + 12);
}

/** Bands, bars of lone steps, and what was recorded behind a smoothed line. */
function drawShapes(plot, cell) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  if (cell.chart.y.zeroline) strokeZero(plot, cell.chart.ink.zero);
  const hidden = new Set(cell.chart.lines.filter((line) => cell.hidden.has(line.name)).map((line) => line.group));
  for (const shape of cell.chart.shapes) {
    if (!hidden.has(shape.group)) drawShape(plot, shape);
  }
  for (const shape of cell.chart.shapes) {
    if (!hidden.has(shape.group) && !shape.recorded) drawCut(plot, shape, inkOfGroup(cell.chart, shape.group));
  }
  drawDots(plot, cell);
  ctx.restore();
}

function drawShape(plot, { x, y, ink, width }) {
  const path = new Path2D();
  let down = false;
  for (let i = 0; i < x.length; i++) {
    if (x[i] === null || y[i] === null) {
      if (down && !width) path.closePath();
      down = false;
      continue;
    }
    const at = [plot.valToPos(x[i], "x", true), plot.valToPos(y[i], "y", true)];
    if (down) path.lineTo(...at);
    else path.moveTo(...at);
    down = true;
  }
  if (width) {
    plot.ctx.strokeStyle = ink;
    plot.ctx.lineWidth = width * devicePixelRatio;
    plot.ctx.stroke(path);
  } else {
    plot.ctx.fillStyle = ink;
    plot.ctx.fill(path);
  }
}

function inkOfGroup({ lines }, group) {
  return lines.find((line) => line.group === group)?.ink;
}

/** A dotted line on the end of the axis, for as long as a band goes on beyond it. */
function drawCut({ ctx, bbox, scales, valToPos }, { x, y }, ink) {
  const { min, max } = scales.y;
  ctx.strokeStyle = ink;
  ctx.lineWidth = 3 * devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  for (const [isCut, at] of [[(value) => value > max, bbox.top], [(value) => value < min, bbox.top + bbox.height]]) {
    x.forEach((step, i) => {
      if (step === null || y[i] === null || !isCut(y[i])) return;
      const [here, before] = [valToPos(step, "x", true), i && x[i - 1] !== null && y[i - 1] !== null && isCut(y[i - 1])];
      ctx.moveTo(before ? valToPos(x[i - 1], "x", true) : here - 3 * devicePixelRatio, at);
      ctx.lineTo(before ? here : here + 3 * devicePixelRatio, at);
    });
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

function strokeZero({ ctx, bbox, valToPos }, ink) {
  const y = Math.round(valToPos(0, "y", true)) + 0.5;
  ctx.strokeStyle = ink;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
}

// --- zoom --------------------------------------------------------------------------------------

/** A drag along the steps zooms all charts of the page; one along the values this chart alone. */
function zoomToSelection(plot, cell) {
  const { left, top, width, height } = plot.select;
  if (width <= 0 || height <= 0) return;
  const [isAllSteps, isAllValues] = [width >= plot.over.clientWidth, height >= plot.over.clientHeight];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (!isAllValues) cell.valueZoom = [plot.posToVal(top + height, "y"), plot.posToVal(top, "y")];
  if (isAllSteps) return cell.rescale();
  const [low, high] = cell.grid.steps;
  const first = Math.max(low, Math.floor(plot.posToVal(left, "x")));
  const last = Math.min(high, Math.max(Math.ceil(plot.posToVal(left + width, "x")), first + 1));
  if (0 <= first && first < last) zoomTo([first, last]);
}

function rescale(cell) {
  const { x, y } = rangeOf(cell);
  cell.plot.batch(() => {
    cell.plot.setScale("x", { min: x[0], max: x[1] });
    cell.plot.setScale("y", { min: y[0], max: y[1] });
  });
  const zoom = zoomOf(cell.grid);
  cell.element.dataset.zoom = (zoom ?? []).join();
  // The line above the charts has the way back, where there is one.
  cell.out.hidden = !(cell.valueZoom || (zoom && !PAGE.bars.size));
}

function zoomOut(cell) {
  cell.valueZoom = null;
  if (PAGE.zoom) zoomTo(null);
  else cell.rescale();
}

// --- the chosen step, and the one under the pointer ----------------------------------------------

function placeOverlays(plot, cell) {
  placeLine(plot, cell.line, cell.grid.step);
  placeLine(plot, cell.cross, PAGE.pointed);
  placeMarks(plot, cell);
}

function placeLine(plot, line, step) {
  const { min, max } = plot.scales.x;
  line.hidden = step === null || !(step >= min && step <= max);
  if (!line.hidden) line.style.left = `${plot.valToPos(step, "x")}px`;
}

/** The pointer is on this chart: what is there, and the same step in all the others. */
function pointTo(plot, cell) {
  if (!plot.over.matches(":hover")) return;
  pointAt(nearestPoint(plot)?.step ?? null, cell);
  showTip(plot, cell);
}

/** Shows a step under the pointer of any chart; null: none, and the values are those of the chosen one. */
function point(cell, step, isSource) {
  const { plot, grid } = cell;
  placeLine(plot, cell.line, grid.step);
  placeLine(plot, cell.cross, step);
  cell.readout.replaceChildren(...readoutOf(cell, step ?? grid.step));
  if (isSource) return;
  cell.tip.hidden = true;
  const isSeen = !cell.cross.hidden;
  plot.setCursor({ left: isSeen ? plot.valToPos(step, "x") : -10, top: isSeen ? 0 : -10 }, false);
}

/** The step and the values of the lines there, in their colours where there are several. */
function readoutOf(cell, step) {
  const lines = cell.chart.lines.flatMap((line, i) => (cell.hidden.has(line.name) || !line.named ? [] : [{ line, text: textsOf(cell)[i].get(step) }]));
  const values = lines.flatMap(({ line, text }) => {
    const value = /<b>(.*?)<\/b>/.exec(text ?? "")?.[1];
    return value && !MISSING.has(value) ? [{ line, value: shortNumber(unescaped(value)) }] : [];
  });
  if (!values.length || values.length > MOST_VALUES) return step === null ? [] : [make("span", "", `step ${step}`)];
  const parts = values.map(({ line, value }) => {
    const part = make("b", "", value);
    part.title = unescaped(line.name);
    if (cell.chart.lines.length > 1) part.style.setProperty("--ink", line.ink);
    return part;
  });
  return [make("span", "", `step ${step}`), ...parts];
}

/** Of each line by step what is said of it there. */
function textsOf(cell) {
  cell.texts ??= cell.chart.lines.map((line) => new Map(line.x.map((at, i) => [at, line.text[i]])));
  return cell.texts;
}

function pointed(plot) {
  const seen = (row) => row && plot.series[row].show;
  return plot.cursor.idxs.flatMap((at, row) => (seen(row) && at != null ? [{ row, at, step: plot.data[0][at] }] : []));
}

/** Of the points at the step that is nearest to the pointer the one nearest to it; none: undefined. */
function nearestPoint(plot) {
  const { left, top } = plot.cursor;
  const aside = ({ step }) => Math.abs(plot.valToPos(step, "x") - left);
  const above = ({ row, at }) => Math.abs(plot.valToPos(plot.data[row][at], "y") - top);
  return pointed(plot).sort((a, b) => aside(a) - aside(b) || above(a) - above(b))[0];
}

function showTip(plot, cell) {
  const dot = plot.cursor.left < 0 ? null : pointedDot(plot, cell);
  const found = plot.cursor.left < 0 || dot ? [] : pointed(plot);
  cell.tip.hidden = !dot && found.length === 0;
  if (dot) {
    const part = make("div", "reading");
    part.style.borderColor = dot.ink;
    part.append(...written(dot.text));
    cell.tip.replaceChildren(part);
    placeTip(plot, cell.tip, dot.at);
  }
  if (found.length === 0) return;
  cell.tip.replaceChildren(
    ...found.map(({ row, step }) => {
      const line = cell.chart.lines[row - 1];
      const part = make("div", "reading");
      part.style.borderColor = line.ink;
      const rows = written(textsOf(cell)[row - 1].get(step) ?? "");
      // Of several lines one row each: the step is at the chart's title.
      part.append(...(found.length > 1 ? rows.slice(0, 1) : rows));
      return part;
    }),
  );
  placeTip(plot, cell.tip, Math.min(...found.map(({ step }) => plot.valToPos(step, "x"))));
}

/** Beside the pointed step, on the side that has room. */
function placeTip(plot, tip, at) {
  const width = tip.offsetWidth;
  const right = at + 14 + width <= plot.over.clientWidth;
  tip.style.left = `${right ? at + 14 : Math.max(at - 14 - width, 4 - plot.bbox.left)}px`;
  const top = Math.min(plot.cursor.top - 20, plot.over.clientHeight - tip.offsetHeight);
  tip.style.top = `${Math.max(0, top)}px`;
}
