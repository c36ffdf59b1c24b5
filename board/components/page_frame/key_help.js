// Keys and what they do, in a dialog of the browser: `?` opens it, Escape and a click beside it close it.

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

const NOTE_MS = 4000;

/** Why a key that the page lists has done nothing. */
const unclaimed = (sections, key) => {
  const isOfReader = sections.some(([heading, rows]) => heading === "Reader" && rows.some(([keys]) => keys.split(" ").includes(key)));
  const isDigit = /^[1-9]$/.test(key);
  return isOfReader || isDigit ? `“${key}” needs an open rollout: press O to open one` : `“${key}” has nothing to act on here yet`;
};

export default function ({ data, parentElement }) {
  const dialog = parentElement.querySelector("dialog");
  dialog.querySelector(".sections").replaceChildren(...data.sections.map(section));
  const toggle = () => (dialog.open ? dialog.close() : dialog.showModal());
  // Keys of the page stay without effect behind the dialog.
  dialog.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key === "?") dialog.close();
  };
  dialog.onclick = (event) => event.target === dialog && dialog.close();
  dialog.querySelector(".close").onclick = () => dialog.close();
  const open = parentElement.querySelector(".open");
  open.onclick = toggle;
  open.hidden = false; // not seen before it works
  const note = parentElement.querySelector("output");
  let shown = null;
  PAGE_KEYS.onUnclaimed = ({ key, code }) => {
    note.textContent = unclaimed(data.sections, /^Digit([1-9])$/.exec(code)?.[1] ?? key);
    note.hidden = false;
    clearTimeout(shown);
    shown = setTimeout(() => (note.hidden = true), NOTE_MS);
  };
  const take = ({ key }) => {
    if (key !== "?") return false;
    toggle();
    return true;
  };
  dialog.untake?.(); // of the call before
  dialog.untake = takeKeys(dialog, take, { early: true });
  return () => dialog.untake();
}
