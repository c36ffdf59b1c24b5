// What can stand at the caret: columns, signs, values of a column, and, or.

const MOST_OFFERED = 60;
const OF_TEXTS = ["==", "!=", "contains", "in ("];
const OF_NUMBERS = ["<", "<=", ">", ">=", "==", "!="];

/** { from, to, items: [{ insert, label, about }] } for a text and the place of its caret. */
function completionsAt(text, caret, columns) {
  const words = wordsOf(text.slice(0, caret)).filter((one) => one.kind !== "space");
  const last = words.at(-1);
  const typed = last && last.end === caret && isTyped(last) ? last : null;
  const before = typed ? words.slice(0, -1) : words;
  const sought = typed ? typed.word.replace(/^["']/, "").toLowerCase() : "";
  const from = typed ? typed.start : caret;
  const items = itemsAfter(before, typed, columns).filter((one) => matches(one, sought));
  items.sort((a, b) => rank(a, sought) - rank(b, sought));
  return { from, to: caret, items: items.slice(0, MOST_OFFERED) };
}

function isTyped(word) {
  if (word.kind === "text") return word.word.length < 2 || !word.word.endsWith(word.word[0]);
  return word.kind === "name" || word.kind === "keyword";
}

function itemsAfter(before, typed, columns) {
  const place = placeAfter(before, columns);
  if (place.kind === "value") return valuesOf(place.column);
  if (typed?.kind === "text") return [];
  if (place.kind === "sign") return signsOf(place.column);
  if (place.kind === "join") return ["and", "or"].map((word) => ({ insert: `${word} `, label: word, about: "" }));
  if (place.kind === "nothing") return [];
  return [...columns.map(columnItem), ...functionItems()];
}

/** What is to come after some words: a column, a sign for it, a value of it, and/or, or something else. */
function placeAfter(before, columns) {
  const last = before.at(-1);
  if (!last) return { kind: "column" };
  const word = last.word.toLowerCase();
  if (word === "contains") return { kind: "nothing" };
  if (COMPARISONS.has(word)) {
    const column = columnBefore(before.slice(0, -1), columns);
    return column?.is_text ? { kind: "value", column } : { kind: "column" };
  }
  const list = listOf(before, columns);
  if (list) return ["(", "[", ","].includes(word) ? { kind: "value", column: list } : { kind: "nothing" };
  if (["and", "or", "not", "(", ",", "+", "-", "*", "/", "//", "%", "**"].includes(word)) return { kind: "column" };
  const compared = before.at(-2)?.word.toLowerCase();
  if (COMPARISONS.has(compared) || compared === "contains" || [")", "]"].includes(word)) return { kind: "join" };
  const column = columnBefore(before, columns);
  return column ? { kind: "sign", column } : { kind: "nothing" };
}

/** The column of the list that is open: env in (math, */
function listOf(before, columns) {
  for (let at = before.length - 1; at > 0; at -= 1) {
    const { word } = before[at];
    if ([")", "]"].includes(word)) return null;
    if (!["(", "["].includes(word)) continue;
    const is_list = before[at - 1].word.toLowerCase() === "in";
    const end = before[at - 2]?.word.toLowerCase() === "not" ? at - 2 : at - 1;
    return is_list ? columnBefore(before.slice(0, end), columns) ?? null : null;
  }
  return null;
}

/** The column that some words end with, by its name or another one: that may be several words. */
function columnBefore(words, columns) {
  if (words.at(-1)?.kind === "text") return columnOf(words.at(-1).word.slice(1, -1), columns);
  if (words.at(-1)?.word === ")" && words.at(-4)?.word === "col") return columnOf(words.at(-2).word.slice(1, -1), columns);
  const names = words.slice(words.findLastIndex((one) => one.kind !== "name" && one.word !== "#") + 1);
  for (const place of names.keys()) {
    const column = columnOf(names.slice(place).map((one) => one.word).join(" "), columns);
    if (column) return column;
  }
  return undefined;
}

function columnOf(name, columns) {
  const folded = name.toLowerCase();
  return columns.find((one) => one.name === name) ?? columns.find((one) => isCalled(one, folded));
}

function isCalled(column, folded) {
  return column.others.some((one) => one.toLowerCase() === folded);
}

function columnItem({ insert, name, about, others }) {
  const isSaid = [name, about].some((words) => words.toLowerCase() === others[0]?.toLowerCase());
  const heading = isSaid ? "" : others[0];
  return { insert: `${insert} `, label: name, others, about: [heading, about].filter(Boolean).join(" · ") };
}

function functionItems() {
  return [...FUNCTIONS]
    .filter((name) => name !== "contains")
    .map((name) => ({ insert: `${name}(`, label: `${name}(`, about: "function" }));
}

function signsOf(column) {
  return (column.is_text ? OF_TEXTS : OF_NUMBERS).map((sign) => ({
    insert: sign.endsWith("(") ? sign : `${sign} `,
    label: sign,
    about: sign === "contains" ? "a part of the text, whatever the case" : "",
  }));
}

function valuesOf(column) {
  return column.values.map((value) => ({ insert: `${quoted(value)} `, label: value, about: "" }));
}

function quoted(value) {
  return value.includes('"') && !value.includes("'") ? `'${value}'` : `"${value.replaceAll('"', '""')}"`;
}

function matches(item, sought) {
  return item.label.toLowerCase() !== sought && namesOf(item).some((name) => name.includes(sought));
}

/** First what begins so, the name before what else means it. */
function rank(item, sought) {
  const names = namesOf(item);
  const place = names.findIndex((name) => name.startsWith(sought));
  return place < 0 ? names.length : place;
}

function namesOf({ label, others = [] }) {
  return [label, ...others].map((name) => name.toLowerCase());
}
