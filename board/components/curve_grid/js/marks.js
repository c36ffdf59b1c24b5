// Marks on the step axis: where the run was resumed, what was found, and where it was evaluated.

const CROWDED_PIXELS = 9;
const MOST_WORDS = 8;

function laneOf(cell) {
  const lane = make("div", "lane");
  cell.marks = cell.grid.marks.map((mark) => {
    const button = make("button", `mark ${mark.kind}`);
    button.type = "button";
    button.addEventListener("click", () => cell.grid.open(mark));
    lane.append(button);
    return { ...mark, button };
  });
  // A press here is no beginning of a zoom.
  for (const type of ["mousedown", "mouseup", "click", "dblclick"]) lane.addEventListener(type, (event) => event.stopPropagation());
  return lane;
}

/** Places the marks. Those too near to one of their kind join it, with their words; of two kinds at one
 * place the second moves aside.
 */
function placeMarks(plot, cell) {
  const { min, max } = plot.scales.x;
  const last = {};
  let end = -Infinity;
  for (const { kind, step, words, button } of cell.marks) {
    const at = plot.valToPos(step, "x");
    const isOutside = step < min || step > max;
    const before = last[kind];
    const isNear = !isOutside && before && at - before.at < CROWDED_PIXELS;
    button.hidden = isOutside || isNear;
    if (isOutside) continue;
    if (isNear) before.words.push(words);
    else {
      last[kind] = { at, words: [words], button };
      end = at - end < CROWDED_PIXELS ? end + CROWDED_PIXELS : at;
      button.style.left = `${end}px`;
    }
    describe(last[kind]);
  }
}

function describe({ words, button }) {
  const more = words.length > MOST_WORDS ? [`and ${words.length - MOST_WORDS} more`] : [];
  const text = [...words.slice(0, MOST_WORDS), ...more].join("\n");
  button.title = text;
  button.setAttribute("aria-label", text);
}
