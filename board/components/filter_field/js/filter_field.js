// The filter field: handlers are bound once for each mounted element, data is read when it changes.

const FIELDS = new WeakMap();
const PARTS = ["field", "line", "ink", "note", "slash", "clear", "count", "recent", "save", "menu", "refused"];

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".filter");
  const field = FIELDS.get(root) ?? createField(root);
  FIELDS.set(root, field);
  field.apply = (text) => setTriggerValue("applied", withBreaks(text));
  load(field, { ...data, text: inOneLine(data.text) });
  return () => {
    field.stop.abort();
    field.untake();
    FIELDS.delete(root);
  };
}

// A field of one line drops the breaks of a text that is searched for: signs stand for them.
const BREAK_SIGNS = { "\n": "␊", "\r": "␍" };

function inOneLine(text) {
  return text.replace(/[\n\r]/g, (sign) => BREAK_SIGNS[sign]);
}

function withBreaks(text) {
  return text.replaceAll("␊", "\n").replaceAll("␍", "\r");
}

function createField(root) {
  const ui = { root, input: root.querySelector("input") };
  for (const name of PARTS) ui[name] = root.querySelector(`.${name}`);
  const field = { ui, data: null, menu: null, stop: new AbortController() };
  const { input } = ui;
  // Mounted again, the element is the same: what was bound to it has been stopped.
  const on = (target, type, act) => target.addEventListener(type, act, { signal: field.stop.signal });
  on(input, "input", () => edited(field));
  on(input, "click", () => complete(field));
  on(input, "focus", () => complete(field));
  on(input, "scroll", () => (ui.ink.scrollLeft = input.scrollLeft));
  on(input, "keydown", (event) => pressed(field, event));
  on(root, "keydown", (event) => event.stopPropagation()); // the page has keys of its own
  on(root, "focusout", (event) => root.contains(event.relatedTarget) || closeMenu(field));
  on(ui.clear, "click", () => submit(field, ""));
  on(ui.recent, "click", () => toggle(field, "recent", showRecent));
  on(ui.save, "click", () => toggle(field, "save", showNaming));
  field.untake = takeKeys(root, (key) => takeSlash(field, key));
  return field;
}

function load(field, data) {
  const { ui } = field;
  const isNew = field.data?.text !== data.text || field.data?.refused !== null || data.refused !== null;
  const isTyping = ui.input.matches(":focus") && field.data?.text === data.text && !data.refused;
  field.data = data;
  ui.input.placeholder = data.placeholder;
  if (isNew && !isTyping) ui.input.value = data.text;
  if (!data.refused) rememberFilter(data.text);
  ui.count.textContent = data.count;
  field.refused = data.refused;
  draw(field);
}

function edited(field) {
  field.refused = null;
  draw(field);
  complete(field);
}

/** The text in colours, what is wrong in it, and what the field says of itself. */
function draw(field) {
  const { ui, data, refused } = field;
  const text = ui.input.value;
  ui.ink.replaceChildren(...inkOf(text, data.columns, refused));
  ui.ink.scrollLeft = ui.input.scrollLeft;
  const isApplied = text.trim() === data.text.trim() && !refused;
  ui.note.textContent = isApplied ? soughtNote(data.sought) : refused ? "not applied" : "Enter to apply";
  ui.note.classList.toggle("sought", isApplied);
  ui.clear.hidden = !text && !data.text;
  ui.slash.hidden = Boolean(text) || !data.focus;
  ui.save.disabled = !text.trim() || Boolean(refused);
  ui.field.classList.toggle("wrong", Boolean(refused));
  drawRefused(field);
}

/** What words alone do, which are no expression. */
function soughtNote(sought) {
  return sought && `texts containing “${sought}”`;
}

function inkOf(text, columns, refused) {
  const names = new Set(columns.map((one) => one.name));
  const isWrong = (one) => refused && one.start < Math.max(refused.end, refused.start + 1) && one.end > refused.start;
  return wordsOf(text).map((one) => {
    const kind = one.kind === "name" && FUNCTIONS.has(one.word) && !names.has(one.word) ? "keyword" : one.kind;
    const span = make("span", isWrong(one) ? `${kind} is-wrong` : kind, one.word);
    return span;
  });
}

function drawRefused({ ui, refused, apply }) {
  ui.refused.hidden = !refused;
  ui.refused.replaceChildren();
  if (!refused) return;
  const wrong = ui.ink.querySelector(".is-wrong") ?? ui.ink.lastElementChild;
  const left = (wrong?.getBoundingClientRect().left ?? 0) - ui.root.getBoundingClientRect().left;
  const most = Math.max(ui.root.clientWidth - 420, 12);
  ui.refused.style.marginLeft = `${Math.min(Math.max(left - 12, 0), most)}px`;
  ui.refused.append(make("span", "", refused.reason));
  if (!refused.instead) return;
  const text = ui.input.value;
  const mended = text.slice(0, refused.start) + refused.instead + text.slice(refused.end);
  const use = button(`Use ${refused.instead}`, () => apply(mended));
  use.className = "use";
  ui.refused.append(use);
}

function pressed(field, event) {
  const { menu } = field;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.isComposing) return;
  if (step && menu?.kind === "complete") move(field, step);
  else if (step === 1) complete(field);
  else if (event.key === "Tab" && !event.shiftKey && isCompleting(menu)) accept(field, menu.items[Math.max(menu.at, 0)]);
  else if (event.key === "Enter" && menu?.kind === "complete" && menu.at >= 0) accept(field, menu.items[menu.at]);
  else if (event.key === "Enter") submit(field, field.ui.input.value.trim());
  else if (event.key === "Escape" && menu) closeMenu(field);
  else if (event.key === "Escape") leave(field);
  else return;
  event.preventDefault();
}

/** Whether Tab takes a completion; where nothing is typed or marked it leaves the field, as everywhere. */
function isCompleting(menu) {
  return menu?.kind === "complete" && (menu.at >= 0 || menu.from < menu.to);
}

function submit(field, text) {
  closeMenu(field);
  field.ui.input.value = text;
  field.refused = null;
  draw(field);
  if (text === field.data.text && !field.data.refused) return;
  field.ui.note.textContent = "applying …";
  field.apply(text);
}

function leave(field) {
  field.ui.input.value = field.data.text;
  field.refused = field.data.refused;
  draw(field);
  field.ui.input.blur();
}

function takeSlash(field, { key }) {
  if (key !== "/" || !field.data?.focus) return false;
  field.ui.input.focus();
  field.ui.input.select();
  return true;
}

// --- menus ---------------------------------------------------------------------------------------

function complete(field) {
  const { input } = field.ui;
  const found = completionsAt(input.value, input.selectionStart ?? 0, field.data.columns);
  if (!found.items.length || input.selectionStart !== input.selectionEnd) return closeMenu(field);
  const rows = found.items.map((item, at) => optionOf(field, item, at));
  openMenu(field, { kind: "complete", at: -1, ...found }, rows);
}

function optionOf(field, item, at) {
  const row = make("div", "option");
  row.setAttribute("role", "option");
  row.id = `filter-option-${at}`;
  row.append(make("span", "label", item.label), make("span", "about", item.about));
  row.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // the field keeps the focus
    accept(field, item);
  });
  return row;
}

function accept(field, item) {
  const { input } = field.ui;
  const rest = input.value.slice(field.menu.to).replace(/^ /, "");
  input.value = input.value.slice(0, field.menu.from) + item.insert + rest;
  const caret = field.menu.from + item.insert.length;
  input.setSelectionRange(caret, caret);
  input.scrollLeft = input.scrollWidth;
  edited(field);
}

function move(field, step) {
  const { menu, ui } = field;
  const count = menu.items.length;
  menu.at = menu.at < 0 ? (step > 0 ? 0 : count - 1) : (menu.at + step + count) % count;
  [...ui.menu.children].forEach((row, at) => row.classList.toggle("is-at", at === menu.at));
  ui.menu.children[menu.at].scrollIntoView({ block: "nearest" });
  ui.input.setAttribute("aria-activedescendant", `filter-option-${menu.at}`);
}

function openMenu(field, menu, rows) {
  field.menu = menu;
  field.ui.menu.className = `menu ${menu.kind}`;
  field.ui.menu.replaceChildren(...rows);
  field.ui.menu.hidden = false;
  field.ui.menu.scrollTop = 0;
  field.ui.input.setAttribute("aria-expanded", "true");
  field.ui.input.removeAttribute("aria-activedescendant");
}

function closeMenu(field) {
  field.menu = null;
  field.ui.menu.hidden = true;
  field.ui.input.setAttribute("aria-expanded", "false");
  field.ui.input.removeAttribute("aria-activedescendant");
}

function toggle(field, kind, show) {
  if (field.menu?.kind === kind) closeMenu(field);
  else show(field);
}

function showRecent(field) {
  const { recent, named } = savedFilters();
  const rows = Object.entries(named).map(([name, text]) => savedRow(field, text, name));
  if (rows.length) rows.unshift(make("div", "head", "Saved"));
  if (recent.length) rows.push(make("div", "head", "Recent"), ...recent.map((text) => savedRow(field, text)));
  if (!rows.length) rows.push(make("div", "head", "No filter yet: what you apply is listed here."));
  rows.push(make("div", "foot", "Stored in this browser only."));
  openMenu(field, { kind: "recent" }, rows);
}

function savedRow(field, text, name = "") {
  const row = make("div", "saved-row");
  const use = button("", () => submit(field, text));
  use.className = "pick";
  use.title = text;
  if (name) use.append(make("b", "", name));
  const ink = make("span", "code");
  ink.append(...inkOf(text, field.data.columns, null));
  use.append(ink);
  row.append(use);
  if (!name) return row;
  const remove = button("Delete", () => {
    forgetFilter(name);
    showRecent(field);
  });
  row.append(remove);
  return row;
}

function showNaming(field) {
  const form = make("form", "naming");
  const name = make("input");
  name.placeholder = "Name of this filter";
  name.maxLength = 60;
  name.setAttribute("aria-label", "Name of this filter");
  const save = make("button", "", "Save");
  form.append(name, save, make("div", "foot", "Stored in this browser only, under Recent."));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!name.value.trim()) return;
    const isKept = nameFilter(name.value.trim(), field.ui.input.value.trim());
    if (isKept) closeMenu(field);
    else form.querySelector(".foot").textContent = "This browser keeps nothing for this page.";
  });
  name.addEventListener("keydown", (event) => event.key === "Escape" && closeMenu(field));
  openMenu(field, { kind: "save" }, [form]);
  name.focus();
}

function button(words, press) {
  const element = make("button", "", words);
  element.type = "button";
  element.addEventListener("click", press);
  return element;
}
