// Which runs are ticked, and the bar that leads to Compare.

function tick(view, name) {
  const isTicked = view.ticked.includes(name);
  if (!isTicked && view.ticked.length >= view.data.most) return;
  const ticked = isTicked ? view.ticked.filter((one) => one !== name) : [...view.ticked, name];
  view.cursor = name;
  choose(view, { ticked });
}

/** All that are shown, or none of them. */
function tickAll(view) {
  const names = view.order.map((place) => view.data.rows[place].name);
  const others = view.ticked.filter((name) => !names.includes(name));
  const all = names.every((name) => view.ticked.includes(name));
  choose(view, { ticked: all ? others : [...new Set([...view.ticked, ...names])] });
}

function clearTicks(view) {
  choose(view, { ticked: [] });
}

function drawTicks(view) {
  const { ui, ticked, data } = view;
  const names = view.order.map((place) => data.rows[place].name);
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
