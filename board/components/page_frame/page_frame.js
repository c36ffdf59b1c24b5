// Listeners of the whole page, for what Streamlit's widgets lack.

/** Whether a key has nothing of its own to do where it was pressed. */
function isOnPage(event) {
  const [target] = event.composedPath();
  return target === document.body || Boolean(target.matches?.("[data-testid=stMain]"));
}

/** Enter does what O does: it opens what J and K have chosen. */
function openChosen(event) {
  const isPlain = event.key === "Enter" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
  if (!isPlain || event.repeat || event.defaultPrevented || !isOnPage(event)) return;
  event.preventDefault();
  const button = document.querySelector(".st-key-opens button:not(:disabled)");
  if (button) return button.click();
  event.target.dispatchEvent(new KeyboardEvent("keydown", { key: "o", code: "KeyO", bubbles: true, cancelable: true }));
  event.target.dispatchEvent(new KeyboardEvent("keyup", { key: "o", code: "KeyO", bubbles: true }));
}

export default function ({ data }) {
  const nameWhole = ({ target }) => {
    const menu = target.closest?.(`.st-key-${data.menu}`);
    if (menu) menu.title = menu.querySelector("input")?.value ?? "";
  };
  document.addEventListener("keydown", openChosen);
  document.addEventListener("pointerover", nameWhole);
  return () => {
    document.removeEventListener("keydown", openChosen);
    document.removeEventListener("pointerover", nameWhole);
  };
}
