// The menu "Compare with": texts of the rollout, and the rollouts of any step of any run.

const MENU_HTML = `
  <div class="where">
    <input class="words" type="search" placeholder="Search index, group, reward, words" aria-label="Search rollouts" spellcheck="false">
    <label class="run-choice">Run <select class="run" aria-label="Run"></select></label>
    <label class="step-choice">Step <button class="step-back" type="button" aria-label="Previous step">‹</button><input class="step" type="number" aria-label="Step"><button class="step-on" type="button" aria-label="Next step">›</button></label>
  </div>
  <div class="near"></div>
  <div class="entries" role="listbox" aria-label="Compare with" tabindex="-1"></div>
  <div class="menu-foot"><span class="menu-count"></span><span><kbd>↑</kbd><kbd>↓</kbd> move <kbd>Enter</kbd> compare <kbd>Esc</kbd> close</span></div>`;

const SEARCH_DELAY_MS = 300;

/**
 * A closed menu in `element`. ask({run, step, words}): called for the rollouts of a step (nulls: the usual
 * ones), answered through `fillMenu`; ask(null) when the menu closes. choose(vs): what was chosen.
 */
function createMenu(element, { ask, choose }) {
  element.hidden = true;
  element.innerHTML = MENU_HTML; // our own words: no text of a log is in it
  const names = ["words", "run", "run-choice", "step", "step-back", "step-on", "near", "entries", "menu-count"];
  const ui = Object.fromEntries(names.map((name) => [name, element.querySelector(`.${name}`)]));
  const menu = { element, ui, ask, choose, choices: null, active: 0, shown: [] };
  ui.words.oninput = () => searchWords(menu);
  ui.run.onchange = () => askFor(menu, { run: ui.run.value, step: null });
  ui.step.onchange = () => askFor(menu, { run: menu.choices.run, step: Number(ui.step.value) });
  ui["step-back"].onclick = () => moveStep(menu, -1);
  ui["step-on"].onclick = () => moveStep(menu, 1);
  element.onkeydown = (event) => onMenuKey(menu, event);
  return menu;
}

function toggleMenu(menu, anchor) {
  if (menu.element.hidden) openMenu(menu, anchor);
  else closeMenu(menu);
}

function openMenu(menu, anchor) {
  menu.anchor = anchor;
  menu.element.hidden = false;
  placeMenu(menu);
  anchor.setAttribute("aria-expanded", "true");
  menu.outside = (event) => {
    if (!event.composedPath().some((one) => one === menu.element || one === anchor)) closeMenu(menu);
  };
  document.addEventListener("pointerdown", menu.outside);
  menu.ui.words.value = "";
  askFor(menu, { run: null, step: null });
  menu.ui.words.focus();
}

/** Below its button, within the component. */
function placeMenu({ element, anchor }) {
  const frame = element.parentElement.getBoundingClientRect();
  const button = anchor.getBoundingClientRect();
  const left = Math.min(button.left - frame.left, frame.width - element.offsetWidth - 10);
  const top = button.bottom - frame.top + 5;
  element.style.left = `${Math.max(8, left)}px`;
  element.style.top = `${top}px`;
  element.style.maxHeight = `${Math.min(560, frame.height - top - 10)}px`;
}

function closeMenu(menu) {
  if (menu.element.hidden) return;
  menu.element.hidden = true;
  document.removeEventListener("pointerdown", menu.outside);
  menu.anchor.setAttribute("aria-expanded", "false");
  menu.choices = null;
  menu.ask(null);
}

function askFor(menu, wanted) {
  menu.ui.entries.setAttribute("aria-busy", "true");
  if (!menu.choices) menu.ui.entries.replaceChildren(make("p", "note", "Loading …"));
  // The number makes two equal questions two: Python answers each.
  menu.ask({ ...wanted, asked: Date.now() });
}

function moveStep(menu, by) {
  askFor(menu, { run: menu.choices.run, step: menu.choices.step + by, by });
}

/** Shows what Python answered; null: nothing was asked. */
function fillMenu(menu, choices) {
  if (!choices || menu.element.hidden) return;
  const { ui } = menu;
  menu.choices = choices;
  ui.entries.setAttribute("aria-busy", "false");
  ui["run-choice"].hidden = choices.runs.length < 2;
  ui.run.replaceChildren(
    ...choices.runs.map((name) => {
      const option = make("option", "", name === choices.ownRun ? `${name} (this run)` : name);
      option.value = name;
      option.selected = name === choices.run;
      return option;
    }),
  );
  if (choices.steps) [ui.step.min, ui.step.max] = choices.steps;
  ui.step.value = choices.step ?? "";
  ui["step-back"].disabled = !choices.steps || choices.step <= choices.steps[0];
  ui["step-on"].disabled = !choices.steps || choices.step >= choices.steps[1];
  showPromptSteps(menu);
  listEntries(menu);
}

function showPromptSteps(menu) {
  const { near } = menu.ui;
  const { promptSteps, run, step } = menu.choices;
  const buttons = promptSteps.map((own) => {
    const button = makeButton("", withThousands(own), "Rollouts of that step", () => askFor(menu, { run, step: own }));
    button.setAttribute("aria-pressed", String(own === step));
    return button;
  });
  near.hidden = !buttons.length;
  near.replaceChildren(make("span", "", "Same prompt at step"), ...buttons);
}

// --- entries -----------------------------------------------------------------------------------

function searchWords(menu) {
  const { choices, ui } = menu;
  listEntries(menu);
  clearTimeout(menu.searching);
  // Of a list that was cut, the rollouts that are not in it have to be asked for.
  if (!choices || (choices.count <= choices.rows.length && !choices.words)) return;
  const wanted = { run: choices.run, step: choices.step, words: ui.words.value };
  menu.searching = setTimeout(() => !menu.element.hidden && askFor(menu, wanted), SEARCH_DELAY_MS);
}

function listEntries(menu) {
  const { choices, ui } = menu;
  if (!choices) return;
  const words = ui.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (entry) => words.every((word) => searchedText(entry).includes(word));
  const rows = choices.rows.filter(fits);
  menu.shown = [...choices.texts.filter(fits), ...rows];
  menu.active = 0;
  ui.entries.replaceChildren(...entryElements(menu));
  if (choices.error) ui.entries.prepend(make("p", "note", choices.error));
  if (!menu.shown.length) ui.entries.append(make("p", "note", words.length ? "No rollout matches." : "This step has no other rollout."));
  const cut = choices.count > choices.rows.length ? `first ${withThousands(choices.rows.length)} of ` : "";
  ui["menu-count"].textContent = `${cut}${counted(words.length ? rows.length : choices.count, "rollout")}`;
  markActive(menu);
}

function searchedText(entry) {
  const number = entry.index === undefined ? "" : `#${entry.index}`;
  entry.searched ??= [entry.title, entry.text, number, entry.group, entry.reward].join(" ").toLowerCase();
  return entry.searched;
}

function entryElements(menu) {
  let heading = null;
  return menu.shown.flatMap((entry, rank) => {
    const element = buildEntry(menu, entry, rank);
    const own = headingOf(menu, entry);
    if (own === heading) return [element];
    heading = own;
    return [make("div", "heading", own), element];
  });
}

function headingOf(menu, entry) {
  if (entry.title) return "Recorded with this rollout";
  if (entry.sameGroup) return "Same group";
  if (entry.samePrompt) return "Same prompt";
  const { run, ownRun, step } = menu.choices;
  return run === ownRun ? `Step ${withThousands(step)}` : `Step ${withThousands(step)} of ${run}`;
}

function buildEntry(menu, entry, rank) {
  const element = make("div", "entry");
  element.role = "option";
  const line = make("div", "numbers");
  const add = (label, value) => value && line.append(make("span", "label", label), make("b", "", value));
  if (entry.title) {
    line.append(make("b", "", entry.title));
  } else {
    line.append(make("b", "index", `#${entry.index}`));
    add("reward", entry.reward);
    add("adv", entry.advantage);
    line.append(make("span", "length", entry.length));
    if (entry.group) line.append(make("span", "group", `group ${entry.group}`));
  }
  element.append(line, make("div", "preview", visible(entry.text) || "no text in the table"));
  element.onclick = () => chooseEntry(menu, rank);
  element.onpointermove = () => {
    if (menu.active === rank) return;
    menu.active = rank;
    markActive(menu, false);
  };
  entry.element = element;
  return element;
}

function markActive(menu, scroll = true) {
  menu.shown.forEach((entry, rank) => entry.element.setAttribute("aria-selected", String(rank === menu.active)));
  if (scroll) menu.shown[menu.active]?.element.scrollIntoView({ block: "nearest" });
}

function chooseEntry(menu, rank) {
  const entry = menu.shown[rank];
  if (!entry) return;
  closeMenu(menu);
  menu.choose(entry.vs);
}

function onMenuKey(menu, event) {
  event.stopPropagation();
  const isField = event.target === menu.ui.step || event.target === menu.ui.run;
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") {
    closeMenu(menu);
    menu.anchor.focus();
  } else if (move && !isField) {
    const last = menu.shown.length - 1;
    menu.active = Math.max(0, Math.min(last, menu.active + move));
    markActive(menu);
  } else if (event.key === "Enter" && event.target === menu.ui.words) {
    chooseEntry(menu, menu.active);
  } else {
    return;
  }
  event.preventDefault();
}
