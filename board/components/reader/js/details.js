// One line of facts, notes about what was logged, and the panel with scores, references and the record.

function fillFacts(view, { title, facts, notes }) {
  const parts = facts.map(({ label, value, after, parts: named, help }) => {
    const fact = make("span", named ? "fact long" : "fact");
    if (label) fact.append(`${visible(label)} `);
    fact.append(make("b", "", visible(value)));
    if (after) fact.append(` ${visible(after)}`);
    if (named) fact.append(make("span", "parts", visible(named)));
    fact.title = visible([help, named].filter(Boolean).join("\n"));
    return fact;
  });
  if (title) parts.unshift(make("span", "title", visible(title)));
  view.ui.factLine.replaceChildren(...parts);
  view.ui.notes.hidden = !notes.length;
  view.ui.notes.replaceChildren(...notes.map((note) => make("div", "", visible(note))));
}

function fillDetails(view, sections) {
  const key = JSON.stringify(sections);
  if (view.detailsKey === key) return;
  view.detailsKey = key;
  view.ui.details.replaceChildren(...sections.flatMap((section) => detailParts(view, section)));
}

function detailParts(view, { title, text, rows, ask, tall }) {
  const head = make("h3", "", title);
  if (text !== null) {
    head.append(make("span", "", counted(text.length, "character")));
    const copy = makeButton("", "copy", `Copy: ${title}`, () => copyText(view, text, copy));
    head.append(copy);
    return [head, make("div", tall ? "text tall" : "text", text ? visible(text) : "empty")];
  }
  if (ask) {
    const button = makeButton("", "show", `Show: ${title}`, () => report(view, ask, true));
    head.append(button);
    return [head];
  }
  const table = make("table");
  table.append(...rows.map(detailRow));
  return [head, table];
}

const LONGEST_BESIDE = 48;

/** A long value has the whole width, under its label. */
function detailRow({ label, value, formula }) {
  const row = make("tr");
  if (value.length > LONGEST_BESIDE) {
    const cell = make("td", "long");
    cell.colSpan = 2;
    cell.append(make("span", "name", visible(label)), visible(value));
    row.append(cell);
    return row;
  }
  const name = make("td", "", visible(label));
  if (formula) name.append(make("span", "formula", visible(formula)));
  row.append(name, make("td", "value", visible(value)));
  return row;
}

/** The panel is at the side where it was asked for, and where a single turn leaves room for it. */
function showDetails(view) {
  const shown = isAtSide(view, "details");
  view.ui.details.hidden = !shown;
  view.ui.detailsButton.setAttribute("aria-pressed", String(shown));
  view.ui.panel.hidden = shown;
}

function toggleDetails(view) {
  setAtSide(view, "details", view.ui.details.hidden);
  showDetails(view);
}
