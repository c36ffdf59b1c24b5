// What was given to the model: one section per turn, long ones folded.

const FOLDED_CHARACTERS = 500;
const FOLDED_LINES = 6;
const FOLDED_TOKENS = 250;

function promptSection(view, part) {
  const { text, role, name, tokens } = part;
  const size = tokens ? counted(tokens.length, "token") : counted(text.length, "character");
  const words = [role, name, role === "prompt" ? "" : "· prompt"].filter(Boolean).join(" ");
  const box = section(role, `${visible(words)} · ${size}`);
  const long = text.length > FOLDED_CHARACTERS || text.split("\n").length > FOLDED_LINES;
  const body = make("div", long ? "prompt folded" : "prompt");
  fillPrompt(view, body, part, long);
  box.append(body);
  if (long) box.firstChild.append(foldButton(view, body, part));
  return box;
}

function foldButton(view, body, part) {
  const button = makeButton("fold", "show all", "", () => {
    const folded = body.classList.toggle("folded");
    button.textContent = folded ? "show all" : "fold";
    fillPrompt(view, body, part, folded);
    moveSight(view);
  });
  return button;
}

/** Token by token where they are known; of a folded prompt only what can be seen of it. */
function fillPrompt(view, body, part, folded) {
  cancelAnimationFrame(view.frames[`prompt ${part.first}`]);
  body.replaceChildren();
  if (part.tokens) return fillPromptTokens(view, body, part, folded);
  return fillText(body, folded ? part.text.slice(0, 2 * FOLDED_CHARACTERS) : part.text);
}

/** A long prompt gets its tokens over several frames. */
function fillPromptTokens(view, body, part, folded) {
  const end = folded ? Math.min(FOLDED_TOKENS, part.tokens.length) : part.tokens.length;
  let i = 0;
  const step = () => {
    const [block, last] = [make("div", "block"), blockEnd(part.tokens, i, end)];
    sizeBlock(block, part.tokens, i, last);
    for (; i < last; i++) block.append(givenElement(part, i));
    body.append(block);
    return i < end;
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
