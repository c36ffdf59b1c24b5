// A conversation in reading order: a section per turn, with thinking, calls and results that fold.

const RESULT_LINES = 8;
const GIVEN_LINES = 14;

// So far above and below what is seen turns are filled: a little scrolling meets no empty ones.
const FILLED_AROUND = 600;

/** Those in sight at once, the others over the next frames: many turns open as fast as a few. */
function buildTurns(view) {
  const { turns } = view.rollout;
  const isLong = turns.filter(({ given }) => !given).length > 1;
  view.defaults = { foldThinking: isLong };
  view.sections = turns.map((turn) => turnSection(view, turn));
  const parts = view.sections.map(({ element }) => element);
  if (!turns.length) parts.push(make("div", "empty", "The log holds no text of this rollout."));
  view.ui.flow.replaceChildren(...parts);
  view.ui.flow.scrollTop = view.ui.flow.scrollLeft = 0;
  fillTurnsInSight(view);
  const rest = view.sections.filter(({ isFilled }) => !isFilled).reverse();
  overFrames(view, "turns", () => {
    if (rest.length) fillTurn(view, rest.pop());
    else drawMap(view);
    return rest.length > 0;
  });
}

/** Without contents, as high as they make likely. */
function turnSection(view, turn) {
  const element = make("section", "turn far");
  element.dataset.role = turn.role;
  const height = estimatedHeight(view, turn);
  element.style.minHeight = `${height}px`;
  element.style.containIntrinsicSize = `auto ${height}px`;
  return { ...sectionOf(turn), element, turn, pieces: [], isFilled: false };
}

function fillTurnsInSight(view) {
  if (view.sections.every(({ isFilled }) => isFilled)) return;
  const { top, bottom } = view.ui.flow.getBoundingClientRect();
  for (let rank = sectionAt(view, top - FILLED_AROUND); rank < view.sections.length; rank++) {
    if (view.sections[rank].element.getBoundingClientRect().top > bottom + FILLED_AROUND) return;
    fillTurn(view, view.sections[rank]);
  }
}

function fillTurns(view) {
  if (view.rollout.turns) for (const section of view.sections) fillTurn(view, section);
}

function fillTurn(view, section) {
  if (section.isFilled) return;
  section.isFilled = true;
  const { element, turn } = section;
  const [body, words] = [make("div", "turn-body"), make("span", "words")];
  const button = makeButton("chevron-button", undefined, "Fold or unfold this turn");
  button.append(make("span", "chevron"));
  const head = turnHead(view, section, button, words);
  const fold = makeFold(view, "turn", { button, words, body });
  const text = turn.blocks.map((block) => block.text).join("\n");
  words.textContent = firstWords(text);
  for (const [rank, block] of turn.blocks.entries()) {
    body.append(blockElement(view, section, fold, block, turn.results[rank]));
  }
  if (!turn.blocks.length) body.append(make("div", "hint", "empty"));
  fold.set(isSystem(turn.role) && turn.given && wasSeen(text));
  element.append(head, body);
  element.style.minHeight = "";
}

function isSystem(role) {
  return role === "system" || role === "developer";
}

const BLOCK_FOLDS = { result: "tool", reasoning: "thinking" };

/** Kinds of folds in a conversation. */
function foldKindsOf(turns) {
  const blocks = turns.flatMap((turn) => [...turn.blocks, ...Object.values(turn.results)]);
  return new Set(blocks.map(({ kind }) => BLOCK_FOLDS[kind]));
}

/** Pixels that a turn is likely to take. */
function estimatedHeight(view, turn) {
  const linesOf = ({ kind, text, error }) => {
    const fold = BLOCK_FOLDS[kind];
    if (fold && prefers(view, FOLD_CHOICES[fold])) return 1;
    const most = { result: resultLines(error), text: givenLines(turn) }[kind] ?? Infinity;
    return Math.min(most, Math.max(countLines(text.slice(0, 20_000)), text.length / CHARACTERS_A_LINE));
  };
  const blocks = [...turn.blocks, ...Object.values(turn.results)];
  return Math.round(30 + blocks.reduce((sum, block) => sum + 19 * linesOf(block) + 24, 0));
}

/** Lines of a result that are shown at first. */
function resultLines(error) {
  return error ? 3 * RESULT_LINES : RESULT_LINES;
}

/** Lines of a prompt's text that are shown at first; undefined for all. */
function givenLines({ given, role }) {
  return given && !isSystem(role) ? GIVEN_LINES : undefined;
}

/** What the outline says of a turn. */
function sectionOf(turn) {
  const calls = turn.blocks.filter(({ kind }) => kind === "call");
  const results = Object.values(turn.results);
  const failure = [...results, ...turn.blocks].find(({ error }) => error)?.error ?? "";
  return {
    number: turn.number,
    role: turn.role,
    label: calls.length ? [...new Set(calls.map(({ name }) => name || "call"))].join(", ") : turn.role,
    hint: calls.length ? calls[0].hint : turn.name,
    model: turn.blocks.reduce((sum, { kind, text }) => sum + (kind === "result" ? 0 : text.length), 0),
    tool: [...results, ...turn.blocks.filter(({ kind }) => kind === "result")].reduce((sum, { text }) => sum + text.length, 0),
    seconds: turn.seconds,
    toolSeconds: results.reduce((sum, { seconds }) => sum + (seconds ?? 0), 0),
    failure,
  };
}

function turnHead(view, section, button, words) {
  const { turn } = section;
  const head = make("div", "head");
  const size = [counted(section.model, "char"), turn.seconds === null ? "" : secondsWords(turn.seconds)];
  const copy = makeButton("copy-turn", "copy", "Copy this turn", () => copyText(view, turnText(turn), copy));
  const end = make("span", "end");
  end.append(copy);
  words.hidden = true;
  head.append(make("span", "number", String(turn.number)), button, make("span", "who", visible(turn.role)));
  if (turn.name && turn.role !== turn.name) head.append(make("span", "name", visible(turn.name)));
  head.append(make("span", "size", size.filter(Boolean).join(" · ")), words, end);
  return head;
}

function blockElement(view, section, fold, block, result) {
  if (block.kind === "call") return callElement(view, section, fold, block, result);
  if (block.kind === "result") return resultElement(view, section, fold, block);
  if (block.kind === "reasoning") return thinkingElement(view, section, fold, block);
  if (block.kind === "image") return make("span", "image", visible(block.text));
  return pieceElement(view, makePiece(section, block.text, "say", { lines: givenLines(section.turn), fold }));
}

function thinkingElement(view, section, parent, block) {
  const [box, body] = [make("div", "thinking"), make("div")];
  const button = makeButton("folded-line", undefined, "Fold or unfold this thinking");
  const words = make("span", "words", firstWords(block.text));
  button.append(make("span", "chevron"), make("span", "", "thinking"), make("span", "size", counted(block.text.length, "char")));
  if (block.open) button.append(make("span", "unclosed", "not closed"));
  button.append(words);
  const fold = makeFold(view, "thinking", {
    button, words, body, parent,
    fill: () => body.append(pieceElement(view, piece)),
  });
  const piece = makePiece(section, block.text, "say", { fold });
  fold.set(prefers(view, "foldThinking"));
  box.append(button, body);
  return box;
}

function callElement(view, section, parent, block, result) {
  const failed = Boolean(block.error || result?.error);
  const box = make("div", failed ? "call failed" : "call");
  const [head, body] = [make("div", "bar-head"), make("div")];
  const button = makeButton("chevron-button", undefined, "Fold or unfold this call");
  button.append(make("span", "chevron"), make("span", "tool", visible(block.name || "call")));
  const words = make("span", "words", firstWords(block.text));
  const fold = makeFold(view, "call", { button, words, body, parent });
  head.append(button, words);
  if (block.error) head.append(make("span", "failure", block.error));
  for (const { name, text, json } of block.arguments) {
    if (name) body.append(make("div", "argument", visible(name)));
    const piece = makePiece(section, text, "pre", { fold });
    body.append(json ? jsonElement(view, piece) : pieceElement(view, piece));
  }
  if (result) body.append(resultElement(view, section, fold, result));
  fold.set(false);
  box.append(head, body);
  return box;
}

/** Says why a result is an error; by which rule under the pointer. */
function failureElement(view, words) {
  const failure = make("span", "failure", visible(words));
  failure.title = view.rollout.errorRule;
  return failure;
}

function resultElement(view, section, parent, result) {
  const box = make("div", result.error ? "result failed" : "result");
  const [head, body] = [make("div", "bar-head"), make("div")];
  const button = makeButton("chevron-button", undefined, "Fold or unfold this result");
  button.append(make("span", "chevron"));
  const words = make("span", "words", firstWords(result.text));
  if (result.error) {
    button.append(failureElement(view, "error"));
    head.append(button, make("span", "", result.error === "error" ? "" : visible(result.error)));
  } else {
    button.append(make("span", "", "result"));
    head.append(button);
  }
  const length = result.text.length;
  const size = [counted(countLines(result.text), "line"), `${shortCount(length)} ${length === 1 ? "char" : "chars"}`];
  if (result.seconds !== null) size.push(secondsWords(result.seconds));
  head.append(words, make("span", "end", size.join(" · ")));
  const fold = makeFold(view, "tool", {
    button, words, body, parent,
    fill: () => body.append(pieceElement(view, piece)),
  });
  const piece = makePiece(section, result.text, "pre", { lines: resultLines(result.error), fold });
  fold.set(prefers(view, "foldTool"));
  box.append(head, body);
  return box;
}
