// A conversation in reading order: a section per turn, with thinking, calls and results that fold.

const RESULT_LINES = 8;
const GIVEN_LINES = 14;

function buildTurns(view) {
  const { turns } = view.rollout;
  const isLong = turns.filter(({ given }) => !given).length > 1;
  view.defaults = { foldThinking: isLong };
  const parts = turns.map((turn) => turnSection(view, turn));
  if (!turns.length) parts.push(make("div", "empty", "The log holds no text of this rollout."));
  view.ui.flow.replaceChildren(...parts);
  view.ui.flow.scrollTop = view.ui.flow.scrollLeft = 0;
}

function turnSection(view, turn) {
  const box = make("section", "turn far");
  box.dataset.role = turn.role;
  const firstPiece = view.pieces.length;
  const section = { ...sectionOf(turn), element: box, firstPiece, turn };
  const [body, words] = [make("div", "turn-body"), make("span", "words")];
  const button = makeButton("chevron-button", undefined, "Fold or unfold this turn");
  button.append(make("span", "chevron"));
  const head = turnHead(view, section, button, words);
  const fold = makeFold(view, "turn", { button, words, body });
  fold.text = turn.blocks.map((block) => block.text).join("\n");
  words.textContent = firstWords(fold.text);
  for (const [rank, block] of turn.blocks.entries()) {
    body.append(blockElement(view, fold, turn, block, turn.results[rank]));
  }
  if (!turn.blocks.length) body.append(make("div", "hint", "empty"));
  fold.set(isSystem(turn.role) && turn.given && wasSeen(fold.text));
  box.append(head, body);
  box.style.containIntrinsicSize = `auto ${estimatedHeight(view, firstPiece)}px`;
  view.sections.push(section);
  return box;
}

function isSystem(role) {
  return role === "system" || role === "developer";
}

function estimatedHeight(view, firstPiece) {
  const lines = (text) => Math.max(countLines(text.slice(0, 20_000)), text.length / CHARACTERS_A_LINE);
  const pieces = view.pieces.slice(firstPiece);
  const shown = pieces.map(({ text, lines: most, fold }) => (fold.folded ? 1 : Math.min(lines(text), most ?? Infinity)));
  return Math.round(30 + shown.reduce((sum, count) => sum + 19 * count + 24, 0));
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

function blockElement(view, fold, turn, block, result) {
  if (block.kind === "call") return callElement(view, fold, block, result);
  if (block.kind === "result") return resultElement(view, fold, block);
  if (block.kind === "reasoning") return thinkingElement(view, fold, block);
  if (block.kind === "image") return make("span", "image", visible(block.text));
  const lines = turn.given && !isSystem(turn.role) ? GIVEN_LINES : undefined;
  return pieceElement(view, makePiece(view, block.text, "say", { lines, fold }));
}

function thinkingElement(view, parent, block) {
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
  const piece = makePiece(view, block.text, "say", { fold });
  fold.set(prefers(view, "foldThinking"));
  box.append(button, body);
  return box;
}

function callElement(view, parent, block, result) {
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
    const piece = makePiece(view, text, "pre", { fold });
    body.append(json ? jsonElement(view, piece) : pieceElement(view, piece));
  }
  if (result) body.append(resultElement(view, fold, result));
  fold.set(false);
  box.append(head, body);
  return box;
}

function resultElement(view, parent, result) {
  const box = make("div", result.error ? "result failed" : "result");
  const [head, body] = [make("div", "bar-head"), make("div")];
  const button = makeButton("chevron-button", undefined, "Fold or unfold this result");
  button.append(make("span", "chevron"));
  const words = make("span", "words", firstWords(result.text));
  if (result.error) {
    const failure = make("span", "failure", "error");
    failure.title = view.rollout.errorRule;
    button.append(failure);
    head.append(button, make("span", "", result.error === "error" ? "" : visible(result.error)));
  } else {
    button.append(make("span", "", "result"));
    head.append(button);
  }
  const size = [counted(countLines(result.text), "line"), `${shortCount(result.text.length)} chars`];
  if (result.seconds !== null) size.push(secondsWords(result.seconds));
  head.append(words, make("span", "end", size.join(" · ")));
  const fold = makeFold(view, "tool", {
    button, words, body, parent,
    fill: () => body.append(pieceElement(view, piece)),
  });
  const lines = result.error ? 3 * RESULT_LINES : RESULT_LINES;
  const piece = makePiece(view, result.text, "pre", { lines, fold });
  fold.set(prefers(view, "foldTool"));
  box.append(head, body);
  return box;
}
