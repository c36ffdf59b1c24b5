// What was given to the model before a response of tokens: one section per turn, folded to a line.

function promptSection(view, part, number) {
  const { text, role, name, tokens } = part;
  const box = make("section", "segment given-turn");
  box.dataset.role = role;
  const button = makeButton("chevron-button", undefined, "Fold or unfold this part of the prompt");
  button.append(make("span", "chevron"));
  const size = tokens ? counted(tokens.length, "token") : counted(text.length, "char");
  const words = make("span", "words", firstWords(text));
  const head = make("div", "head");
  head.append(button, make("span", "who", visible(role)));
  if (name) head.append(make("span", "name", visible(name)));
  head.append(make("span", "size", role === "prompt" ? size : `prompt · ${size}`), words);
  const body = make("div", "prompt");
  const fold = makeFold(view, "turn", { button, words, body, fill: () => fillPrompt(view, part, piece) });
  const shown = tokens ? tokens.filter((token) => token !== PART).map(visible).join("") : visible(text);
  const piece = { text: shown, fold, nodes: [], shown: 0, box: body, finish: null };
  view.prompts.push(piece);
  fold.set(true);
  box.append(head, body);
  view.sections.push(tokenSectionOf(box, number, part, tokens ? tokens.length : text.length, tokens ? "token" : "character"));
  return box;
}

/** Token by token where they are known. */
function fillPrompt(view, part, piece) {
  if (part.tokens) return fillPromptTokens(view, part, piece);
  fillText(piece.box, part.text);
  return listNodes(piece);
}

/** A long prompt gets its tokens over several frames, or all at once where a match in it is shown. */
function fillPromptTokens(view, part, piece) {
  const end = part.tokens.length;
  let i = 0;
  const step = () => {
    if (i >= end) return false;
    const [block, last] = [make("div", "block"), blockEnd(part.tokens, i, end)];
    sizeBlock(block, part.tokens, i, last);
    for (; i < last; i++) block.append(givenElement(part, i));
    piece.box.append(block);
    if (i >= end) {
      listNodes(piece);
      markTextHits(view);
    }
    return i < end;
  };
  piece.finish = () => {
    while (step());
  };
  if (step()) overFrames(view, `prompt ${part.first}`, step);
}

function givenElement(part, i) {
  const [text, next] = [part.tokens[i], part.tokens[i + 1]];
  const span = make("span", joinsNext(text, next) ? "given joins" : "given");
  fillText(span, text);
  span.given = { part, i };
  return span;
}

/** What is known of a token of the prompt: no metric is about it. */
function fillGivenTip(view, { part, i }) {
  const at = part.first + i;
  const head = make("div", "tip-head");
  head.append(make("span", "index", `prompt #${withThousands(at)}`), make("span", "piece", oneLine(part.tokens[i], 60)));
  const id = part.idOf?.(at) ?? null;
  if (id !== null) head.append(make("span", "note", `id ${id}`));
  const words = "Given to the model, not sampled: no values, outside the loss.";
  view.ui.tip.replaceChildren(head, make("div", "hint", words));
}
