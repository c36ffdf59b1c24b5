// The menu that copies: the response, a turn, the messages, the prompt.

function copyChoices(view) {
  const { turns, texts, messages, prompt } = view.rollout;
  const response = turns
    ? turns.filter(({ given }) => !given).map(turnText).join("\n\n")
    : texts.filter((text) => text !== PART).join("");
  const given = turns
    ? turns.filter((turn) => turn.given).map(turnText).join("\n\n")
    : prompt.map(({ text }) => text).join("");
  const section = view.sections[currentSection(view)];
  return [
    ["Response", response],
    ["Prompt", given],
    [section ? `This turn (${section.number})` : "", section?.turn ? turnText(section.turn) : ""],
    ["Messages as JSON", messages],
  ].filter(([words, text]) => words && text);
}

/** A turn as one text; calls and results under a line that names them. */
function turnText(turn) {
  const parts = turn.blocks.map((block, rank) => {
    const result = turn.results[rank];
    const said = block.kind === "call" ? `[tool call] ${block.name}(${block.text})` : block.text;
    return result ? `${said}\n[result]\n${result.text}` : said;
  });
  return parts.join("\n\n");
}

function openCopyMenu(view, open) {
  const { copyMenu, copyButton } = view.ui;
  copyMenu.hidden = !open;
  copyButton.setAttribute("aria-expanded", String(open));
  if (!open) return;
  const buttons = copyChoices(view).map(([words, text]) => {
    const button = makeButton("", words, "", () => {
      copyText(view, text, copyButton.firstChild);
      openCopyMenu(view, false);
    });
    button.setAttribute("role", "menuitem");
    return button;
  });
  if (!buttons.length) buttons.push(make("span", "hint", "nothing to copy"));
  copyMenu.replaceChildren(...buttons);
  buttons[0].focus?.();
}

/** Copies and says so in the place of `label`'s words for a moment. */
function copyText(view, text, label) {
  const words = label.textContent;
  const say = (message) => {
    label.textContent = message;
    setTimeout(() => (label.textContent = words), 1200);
  };
  navigator.clipboard.writeText(text).then(
    () => say("Copied"),
    () => say("Copying is blocked"),
  );
}

function bindCopy(view) {
  const { copyButton, copyMenu, root } = view.ui;
  copyButton.onclick = () => openCopyMenu(view, copyMenu.hidden);
  root.addEventListener("focusout", (event) => {
    const isInside = event.relatedTarget && copyMenu.parentElement.contains(event.relatedTarget);
    if (!copyMenu.hidden && !isInside) openCopyMenu(view, false);
  });
}
