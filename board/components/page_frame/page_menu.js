// The button that opens the links to pages in a narrow window, where style sheets hide them until then.

const OPEN = "data-pages-open";

export default function ({ data, parentElement }) {
  const button = parentElement.querySelector("button");
  button.querySelector("span").textContent = data.page;
  button.ariaLabel = `Pages, now ${data.page}`;
  const isOpen = () => document.documentElement.hasAttribute(OPEN);
  const open = (wanted) => {
    document.documentElement.toggleAttribute(OPEN, wanted);
    button.ariaExpanded = String(wanted);
  };
  const isWithin = (event) => {
    const path = event.composedPath();
    return path.includes(button) || path.some((part) => part.classList?.contains("st-key-pages"));
  };
  const onKey = (event) => {
    if (event.key !== "Escape" || !isOpen()) return;
    event.stopImmediatePropagation(); // Escape has a meaning on pages too
    open(false);
    button.focus();
  };
  const onLeave = (event) => isOpen() && !isWithin(event) && open(false);
  const onClick = (event) => event.target.closest?.(".st-key-pages a") && open(false);
  button.onclick = () => open(!isOpen());
  open(false);
  const listeners = [["keydown", onKey], ["pointerdown", onLeave], ["focusin", onLeave], ["click", onClick]];
  for (const [name, listener] of listeners) window.addEventListener(name, listener, true);
  return () => {
    open(false);
    for (const [name, listener] of listeners) window.removeEventListener(name, listener, true);
  };
}
