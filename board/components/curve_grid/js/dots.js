// Points of single rollouts, which lie above each other at a step: not lines, so not of uPlot's series.

const DOT_RADIUS = 3.5;
const DOT_REACH = 10;

function drawDots(plot, { chart }) {
  const { ctx } = plot;
  for (const { x, y, ink } of chart.dots) {
    ctx.fillStyle = ink;
    x.forEach((step, i) => {
      ctx.beginPath();
      ctx.arc(plot.valToPos(step, "x", true), plot.valToPos(y[i], "y", true), DOT_RADIUS * devicePixelRatio, 0, 2 * Math.PI);
      ctx.fill();
    });
  }
}

/** The dot under the pointer: {step, id, text, ink, at}; none: undefined. */
function pointedDot(plot, { chart }) {
  const { left, top } = plot.cursor;
  let [near, found] = [DOT_REACH];
  for (const { x, y, text, ids, ink } of chart.dots) {
    x.forEach((step, i) => {
      const at = plot.valToPos(step, "x");
      const distance = Math.hypot(at - left, plot.valToPos(y[i], "y") - top);
      if (distance < near) [near, found] = [distance, { step, id: ids[i], text: text[i], ink, at }];
    });
  }
  return found;
}
