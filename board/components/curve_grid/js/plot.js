// One chart: lines, their bands, axes and zoom. What it draws comes from board/charts/light.py.

const DASHES = { dash: [9, 6], dot: [3, 4], dashdot: [9, 5, 3, 5] };
const FONT = '"Source Sans", "Source Sans Pro", sans-serif';
const NEAR_PIXELS = 40;
const DRAGGED_PIXELS = 5;
const EDGE = 0.055;
const STEPS = Array.from({ length: 12 }, (_, n) => [1, 2, 5].map((first) => first * 10 ** n)).flat();

/** The ends of both axes without a zoom. */
function wholeRange(chart) {
  const [first, last] = chart.x.range ?? [0, 1];
  return { x: [first, last], y: chart.y.range ?? valueRange(chart) };
}

function valueRange(chart) {
  const values = [...chart.lines, ...chart.shapes].flatMap(({ y }) => y.filter((value) => value !== null));
  if (values.length === 0) return chart.y.log ? [0.1, 10] : [0, 1];
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const reach = high - low || Math.abs(high) || 1;
  const flat = high === low ? 0.5 : EDGE;
  const bottom = low - reach * flat;
  return [chart.y.nonnegative ? Math.max(0, bottom) : bottom, high + reach * flat];
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
  const ends = cell.zoom ?? wholeRange(chart);
  const axis = { stroke: ink.muted, font: `11.5px ${FONT}`, ticks: { show: false } };
  return new uPlot(
    {
      width,
      height: chart.height - (chart.legend ? 30 : 0),
      padding: [10, 10, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, auto: false, min: ends.x[0], max: ends.x[1], range },
        y: { auto: false, min: ends.y[0], max: ends.y[1], range, distr: chart.y.log ? 3 : 1 },
      },
      series: [{}, ...(chart.lines.length ? chart.lines.map((line, i) => seriesOf(cell, line, i)) : [{}])],
      axes: [
        { ...axis, size: 28, space: 60, incrs: STEPS, grid: { show: false }, values: (_, at) => at.map(String), ...fixedTicks(chart) },
        { ...axis, size: gutter, gap: 7, space: 40, grid: { stroke: ink.grid, width: 1 }, values: labelsOf(chart) },
      ],
      cursor: {
        points: { size: 8 },
        hover: { prox: NEAR_PIXELS, skip: [null, undefined] },
        drag: { x: true, y: true, uni: 24, dist: DRAGGED_PIXELS, click: () => {} },
        bind: { dblclick: () => () => zoomOut(cell) },
        y: false,
      },
      hooks: {
        drawAxes: [(plot) => drawShapes(plot, cell)],
        setScale: [(plot) => keepZoom(plot, cell)],
        draw: [(plot) => placeStep(plot, cell)],
        setCursor: [(plot) => showTip(plot, cell)],
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
    show: !cell.hidden.has(line.group),
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

function fixedTicks({ x }) {
  return x.ticks ? { splits: (plot) => x.ticks.filter((tick) => tick >= plot.scales.x.min && tick <= plot.scales.x.max) } : {};
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
  for (const shape of cell.chart.shapes) {
    if (!cell.hidden.has(shape.group)) drawShape(plot, shape);
  }
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

function keepZoom({ scales: { x, y } }, cell) {
  const whole = wholeRange(cell.chart);
  const now = { x: [x.min, x.max], y: [y.min, y.max] };
  if ([...now.x, ...now.y].some((end) => end == null)) return;
  const isWhole = ["x", "y"].every((name) => now[name].every((end, i) => end === whole[name][i]));
  cell.zoom = isWhole ? null : now;
  cell.element.dataset.zoom = isWhole ? "" : now.x.join();
  cell.out.hidden = isWhole;
}

function zoomOut(cell) {
  const { x, y } = wholeRange(cell.chart);
  cell.plot.batch(() => {
    cell.plot.setScale("x", { min: x[0], max: x[1] });
    cell.plot.setScale("y", { min: y[0], max: y[1] });
  });
}

// --- the chosen step, and the one under the pointer ----------------------------------------------

function placeStep(plot, cell) {
  const { min, max } = plot.scales.x;
  const step = cell.grid.step;
  const isSeen = cell.chart.lines.length > 0 && step >= min && step <= max;
  cell.line.hidden = !isSeen;
  if (isSeen) cell.line.style.left = `${plot.valToPos(step, "x")}px`;
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
  const found = plot.cursor.left < 0 ? [] : pointed(plot);
  cell.tip.hidden = found.length === 0;
  if (found.length === 0) return;
  cell.texts ??= cell.chart.lines.map((line) => new Map(line.x.map((at, i) => [at, line.text[i]])));
  cell.tip.replaceChildren(
    ...found.map(({ row, step }) => {
      const line = cell.chart.lines[row - 1];
      const part = make("div", "told");
      part.style.borderColor = line.ink;
      part.append(...written(cell.texts[row - 1].get(step) ?? ""));
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
