// The outline: a row for every turn or section, and moving from one to the next.

const BAR_PIXELS = 92;
const ROW_PIXELS = 27;

/** Sections of a response of tokens, as the outline has them. */
function tokenSectionOf(element, number, { role, name, error }, tokens, unit) {
  const none = { tool: 0, seconds: null, toolSeconds: 0 };
  return { ...none, element, number, role, label: role || "response", hint: name, model: tokens, failure: error ?? "", unit };
}

function fillOutline(view) {
  const { ui, sections } = view;
  const has = sections.length > 2 || (Boolean(view.rollout.turns) && sections.length > 1);
  ui.outlineButton.hidden = !has;
  const shown = has && isAtSide(view, "outline");
  ui.outline.hidden = !shown;
  ui.outlineButton.setAttribute("aria-pressed", String(shown));
  if (!shown) return ui.outline.replaceChildren();
  const rows = make("div", "outline-rows");
  const longest = Math.max(1, ...sections.map(({ model, tool }) => model + tool));
  rows.append(...sections.map((section, rank) => outlineRow(view, section, rank, longest)));
  ui.outline.replaceChildren(outlineHead(sections), rows, outlineFoot(sections));
  showCurrent(view);
}

function outlineHead(sections) {
  const head = make("div", "outline-head");
  head.append(make("b", "", "Turns"), make("span", "", String(sections.length)));
  const failures = sections.filter(({ failure }) => failure).length;
  if (failures) head.append(make("span", "failures", `● ${counted(failures, "error")}`));
  return head;
}

function outlineFoot(sections) {
  const foot = make("div", "outline-foot");
  const entry = (className, words) => {
    const span = make("span");
    span.append(make("i", className), words);
    return span;
  };
  if (sections.some(({ tool }) => tool)) foot.append(entry("", "model"), entry("tool", "tool"));
  const keys = make("span", "keys");
  keys.append(make("kbd", "", "["), make("kbd", "", "]"));
  foot.append(keys);
  return foot;
}

function outlineRow(view, section, rank, longest) {
  const { number, role, label, hint, model, tool, seconds, toolSeconds, failure } = section;
  const row = makeButton("outline-row", undefined, rowTitle(section), () => goToSection(view, rank));
  row.dataset.role = role;
  const what = make("span", "what");
  const name = make("span", "label", visible(label));
  if (hint) name.append(make("span", "hint", oneLine(hint, 40)));
  const bars = make("span", "bars");
  for (const [className, length] of [["", model], ["tool", tool]]) {
    if (!length) continue;
    const bar = make("i", className);
    bar.style.width = `${Math.round(BAR_PIXELS * Math.sqrt((model + tool) / longest) * (length / (model + tool)))}px`;
    bars.append(bar);
  }
  what.append(name, bars);
  const time = (seconds ?? 0) + toolSeconds;
  const size = time ? secondsWords(time) : shortCount(model + tool);
  row.append(make("span", "number", String(number)), make("span", "tick"), what, make("span", "size", size));
  row.append(make("span", failure ? "dot failed" : "dot"));
  return row;
}

function rowTitle({ role, label, hint, model, tool, seconds, toolSeconds, failure, unit }) {
  const words = [
    [role, label === role ? "" : label, hint].filter(Boolean).join(" "),
    counted(model, unit ?? "character"),
    tool ? `${counted(tool, "character")} from tools` : "",
    seconds === null ? "" : `${secondsWords(seconds)}`,
    toolSeconds ? `${secondsWords(toolSeconds)} in tools` : "",
    failure ? `error: ${failure}` : "",
  ];
  return visible(words.filter(Boolean).join(" · "));
}

// --- moving --------------------------------------------------------------------------------------

/** Rank of the section that the reader is at: that last jumped to, else the first in view. */
function currentSection(view) {
  const { flow } = view.ui;
  if (view.jumped && Math.abs(view.jumped.scrollTop - flow.scrollTop) < 2) return view.jumped.rank;
  return sectionAt(view, flow.getBoundingClientRect().top + 12);
}

/** The last section that begins above a height of the window, by bisection. */
function sectionAt(view, y) {
  let low = 0;
  let high = view.sections.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (view.sections[middle].element.getBoundingClientRect().top <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

function goToSection(view, rank, attempts = 3) {
  const section = view.sections[rank];
  if (!section) return;
  const { flow } = view.ui;
  flow.scrollTop += section.element.getBoundingClientRect().top - flow.getBoundingClientRect().top - 6;
  view.jumped = { rank, scrollTop: flow.scrollTop };
  fillInSight(view);
  showCurrent(view);
  if (attempts > 1) requestAnimationFrame(() => goToSection(view, rank, attempts - 1));
}

function nextSection(view, direction) {
  goToSection(view, Math.max(0, Math.min(view.sections.length - 1, currentSection(view) + direction)));
}

/** Marks the rows of the turns in view and of the current one, which is scrolled to. */
function showCurrent(view) {
  const { outline, flow } = view.ui;
  if (!view.sections.length) return;
  const frame = flow.getBoundingClientRect();
  const current = currentSection(view);
  const [first, last] = [sectionAt(view, frame.top + 4), sectionAt(view, frame.bottom - 4)];
  const rows = outline.hidden ? null : outline.querySelector(".outline-rows");
  const key = [current, first, last].join();
  if (view.marked?.key === key && view.marked.rows === rows) return;
  for (const { element, row } of view.marked?.marked ?? []) {
    element.classList.remove("current");
    row?.classList.remove("current", "seen");
  }
  const marked = [];
  for (let rank = Math.min(first, current); rank <= Math.max(last, current); rank++) {
    const [{ element }, row] = [view.sections[rank], rows?.children[rank]];
    element.classList.toggle("current", rank === current);
    row?.classList.add(rank === current ? "current" : "seen");
    marked.push({ element, row });
  }
  view.marked = { key, rows, marked };
  if (rows) showRow(rows, current);
}

/** Scrolls the rows so that one is in view. */
function showRow(rows, rank) {
  const [top, bottom] = [rank * ROW_PIXELS, (rank + 1) * ROW_PIXELS];
  const [from, height] = [rows.scrollTop, rows.clientHeight];
  if (top < from) rows.scrollTop = top - ROW_PIXELS;
  else if (bottom > from + height) rows.scrollTop = bottom - height + ROW_PIXELS;
}
