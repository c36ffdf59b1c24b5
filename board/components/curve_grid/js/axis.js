// The axis of steps: where it ends and which steps are named. board/charts/layout.py has the same rules.

const MOST_INTERVALS = 5;
const CROWDED = 0.4;
const MARGIN = 0.015;
const FEW_STEPS = 8;

function stepTicks(first, last) {
  if (last <= first) return [first];
  const interval = intervalOf((last - first) / MOST_INTERVALS);
  const ticks = [];
  for (let tick = Math.ceil(first / interval) * interval; tick <= last; tick += interval) ticks.push(tick);
  return ticks[0] - first >= CROWDED * interval ? [first, ...ticks] : ticks;
}

/** The smallest of 1, 2, 5, 10, 20, 50, ... that is at least `least`. */
function intervalOf(least) {
  for (let power = 1; ; power *= 10) {
    for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
  }
}

function stepEnds(first, last) {
  const margin = Math.max((last - first) * MARGIN, last - first < FEW_STEPS ? 0.5 : 0);
  return [first - margin, last + margin];
}

/** The first and the last step of charts and marks, [0, 0] without any. */
function stepsOf(charts, marks) {
  let [first, last] = [Infinity, -Infinity];
  const see = (step) => {
    if (step < first) first = step;
    if (step > last) last = step;
  };
  for (const { lines } of charts) {
    for (const { x } of lines) for (const step of x) see(step);
  }
  for (const { step } of marks) see(step);
  return first <= last ? [first, last] : [0, 0];
}
