// Keys and what they do, in a dialog of the browser: `?` opens it, Escape and a click beside it close it.

const isTyping = (event) => {
  const field = event.composedPath()[0];
  return field.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(field.tagName ?? "");
};

const element = (tag, text, ...children) => {
  const made = document.createElement(tag);
  made.textContent = text;
  made.append(...children);
  return made;
};

const section = ([heading, rows]) => {
  const list = document.createElement("dl");
  for (const [keys, words] of rows) {
    const names = element("dt", "", ...keys.split(" ").map((name) => element("kbd", name)));
    list.append(names, element("dd", words));
  }
  return element("section", "", element("h3", heading), list);
};

export default function ({ data, parentElement }) {
  const dialog = parentElement.querySelector("dialog");
  dialog.querySelector(".sections").replaceChildren(...data.sections.map(section));
  const toggle = () => (dialog.open ? dialog.close() : dialog.showModal());
  const onKey = (event) => {
    if (event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    toggle();
  };
  // Keys of the page stay without effect behind the dialog.
  dialog.onkeydown = (event) => event.key !== "?" && event.stopPropagation();
  dialog.onclick = (event) => event.target === dialog && dialog.close();
  dialog.querySelector(".close").onclick = () => dialog.close();
  window.addEventListener("keydown", onKey, true);
  const open = parentElement.querySelector(".open");
  open.onclick = toggle;
  open.hidden = false; // not seen before it works
  return () => window.removeEventListener("keydown", onKey, true);
}
