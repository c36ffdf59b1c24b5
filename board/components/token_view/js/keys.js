// The keyboard: arrows, n and p, /, Esc.

const PAGE_KEYS = ["n", "p", "/"];

/** Keys that lead into the view from the page, where no field has them; of two views into the first. */
function bindPageKeys(view) {
  const listen = (event) => {
    const isTyped = event.ctrlKey || event.metaKey || event.altKey || event.target !== document.body;
    if (isTyped || event.defaultPrevented || !PAGE_KEYS.includes(event.key)) return;
    view.ui.flow.focus({ preventScroll: true });
    onKey(view, event);
  };
  document.addEventListener("keydown", listen);
  return () => document.removeEventListener("keydown", listen);
}

function onKey(view, event) {
  // Page-wide shortcuts listen on the document and would fire while a user types here.
  event.stopPropagation();
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest?.("input, select, button");
  const action = field ? fieldAction(view, event, field) : flowAction(view, event);
  if (!action) return;
  event.preventDefault();
  action();
}

function fieldAction(view, event, field) {
  if (field === view.ui.find && event.key === "Enter") return () => nextHit(view, event.shiftKey ? -1 : 1);
  if (field === view.ui.find && event.key === "Escape") return () => endFind(view);
  // A button needs Enter and Space for itself, a field every key.
  return field.tagName === "BUTTON" && event.key !== "Enter" && event.key !== " "
    ? flowAction(view, event)
    : undefined;
}

function flowAction(view, event) {
  const step = (i) => () => goTo(view, i);
  const from = view.pin;
  switch (event.key) {
    case "n":
      return () => goToPeak(view, 1);
    case "p":
      return () => goToPeak(view, -1);
    case "/":
      return () => view.ui.find.focus();
    case "Escape":
      return () => (view.ui.find.value ? endFind(view) : pin(view, null, { now: true }));
    case "ArrowRight":
      return step(from === null ? 0 : from + 1);
    case "ArrowLeft":
      return step(from === null ? view.spans.length - 1 : from - 1);
    case "ArrowDown":
    case "ArrowUp": {
      // Without a pinned token the arrows scroll, as they do everywhere.
      const direction = event.key === "ArrowDown" ? 1 : -1;
      return from === null ? undefined : () => goTo(view, tokenOnLine(view, from, direction) ?? from);
    }
    default:
      return undefined;
  }
}
