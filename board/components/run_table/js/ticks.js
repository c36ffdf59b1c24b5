// Which runs are ticked, and the bar that leads to Compare.

/** Ticks all runs that a row stands for, or none of them; as many as can be compared. */
function tick(view, row) {
  const names = runsOf(view, row);
  const missing = names.filter((name) => !view.ticked.includes(name));
  const others = view.ticked.filter((name) => !names.includes(name));
  if (missing.length && view.ticked.length >= view.data.most) return;
  view.cursor = keyOf(row);
  choose(view, { ticked: missing.length ? [...view.ticked, ...missing].slice(0, view.data.most) : others });
}

const shownRuns = (view) => view.data.visible.map((place) => view.data.rows[place].name);

/** All that are shown, or none of them. */
function tickAll(view) {
  const names = shownRuns(view);
  const others = view.ticked.filter((name) => !names.includes(name));
  const all = names.every((name) => view.ticked.includes(name));
  choose(view, { ticked: all ? others : [...new Set([...view.ticked, ...names])] });
}

function clearTicks(view) {
  choose(view, { ticked: [] });
}

function drawTicks(view) {
  const { ui, ticked, data } = view;
  const names = shownRuns(view);
  const union = new Set([...ticked, ...names]).size;
  ui.all.disabled = !names.length || union > data.most;
  ui.all.title = ui.all.disabled && names.length ? `At most ${data.most} runs can be compared` : "Tick all that are shown";
  const some = names.some((name) => ticked.includes(name));
  const all = some && names.every((name) => ticked.includes(name));
  ui.all.setAttribute("aria-checked", all ? "true" : some ? "mixed" : "false");
  ui.bar.hidden = !ticked.length;
  if (!ticked.length) return;
  const dots = ticked.map((_, n) => {
    const dot = make("i");
    dot.style.background = data.colours[n % data.colours.length];
    return dot;
  });
  ui.dots.replaceChildren(...dots);
  ui.differ.replaceChildren(...differWords(view));
  ui.compare.disabled = ticked.length < 2;
  ui.compare.textContent = ticked.length < 2 ? "Compare" : `Compare ${ticked.length} runs`;
}

function differWords(view) {
  if (view.ticked.length < 2) return ["tick another run to compare"];
  // The server says in what they differ once it knows what is ticked.
  if (view.ticked.join("\n") !== view.data.ticked.join("\n") || !view.data.differ) return [""];
  const [words, names] = view.data.differ.split("\n");
  return [`${words} `, make("b", "", names ?? "")];
}
