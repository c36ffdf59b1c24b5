// The tip under the pointer.

const TIP_ALTERNATIVES = 6;

function fillTip(view, i) {
  const head = make("div", "tip-head");
  head.append(make("span", "index", `#${withThousands(i)}`));
  head.append(make("span", "piece", oneLine(view.rollout.texts[i], 60)));
  const notes = tokenNotes(view, i).map((note) => make("span", "note", visible(note)));
  head.append(...notes);
  const parts = [head];
  if (view.rollout.metrics.length) parts.push(metricTable(view, i, readable));
  view.ui.tip.replaceChildren(...parts, ...alternativesTable(view, i, TIP_ALTERNATIVES));
}

/** Beside the pointer and over the text, flipped to the side of the window that has room. */
function placeTip(view, event) {
  const { tip, root, flow } = view.ui;
  const frame = root.getBoundingClientRect();
  const limit = flow.getBoundingClientRect().right;
  const [x, y] = [event.clientX, event.clientY];
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 16 + width <= limit ? x + 16 : Math.min(x - 16, limit) - width;
  const below = y + 20 + height <= window.innerHeight;
  const above = y - 14 - height >= 0;
  const top = below ? y + 20 : above ? y - 14 - height : Math.max(0, window.innerHeight - height);
  tip.style.left = `${Math.max(0, left - frame.left)}px`;
  tip.style.top = `${top - frame.top}px`;
}
