// What was given to the model: one section per turn, long ones folded.

const FOLDED_CHARACTERS = 500;
const FOLDED_LINES = 6;

function promptSection({ text, role, name, tokens }) {
  const spoken = text.replaceAll(PART, "");
  const size = tokens === null ? counted(spoken.length, "character") : counted(tokens, "token");
  const words = [role, name, role === "prompt" ? "" : "· prompt"].filter(Boolean).join(" ");
  const box = section(role, `${visible(words)} · ${size}`);
  const long = spoken.length > FOLDED_CHARACTERS || spoken.split("\n").length > FOLDED_LINES;
  const body = make("div", long ? "prompt folded" : "prompt");
  fillText(body, long ? spoken.slice(0, 2 * FOLDED_CHARACTERS) : spoken);
  box.append(body);
  if (long) box.firstChild.append(foldButton(body, spoken));
  return box;
}

function foldButton(body, text) {
  const button = makeButton("fold", "show all", "", () => {
    const open = !body.classList.toggle("folded");
    button.textContent = open ? "fold" : "show all";
    body.replaceChildren();
    fillText(body, open ? text : text.slice(0, 2 * FOLDED_CHARACTERS));
  });
  return button;
}
