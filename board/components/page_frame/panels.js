// Streamlit closes a panel after the click beside it, and then tells the server so for the page that the panel
// was on: a page that the click opened would be left again, or drawn empty. So the panel is closed first.

const OPENER = '[data-testid="stPopoverButton"][aria-expanded="true"]';
const PANEL = '[data-testid="stPopoverBody"]';
const OF_PANEL = `${PANEL}, [data-testid="stPopover"], [data-testid="stFloatingOverlayPortal"], [data-baseweb="popover"], [data-baseweb="layer"]`;
const CLOSED_LOOK_MS = 20;
const MOST_CLOSED_LOOKS = 150; // a run of the script that takes longer goes on without what was pressed in the panel

function closePanelsFirst() {
  let isClosing = false;
  const close = (target) => {
    const opener = document.querySelector(OPENER);
    if (!opener || isClosing || target.closest?.(OF_PANEL)) return;
    isClosing = true;
    opener.click();
    whenClosed(() => (isClosing = false));
  };
  const onClick = (event) => {
    if (!event.isTrusted) return; // of a script, as the one below
    const target = event.composedPath()[0];
    close(target);
    const pressed = target.closest?.("a[href], button");
    if (!isClosing || !pressed || pressed.closest(OF_PANEL)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    whenClosed(() => pressed.click());
  };
  window.addEventListener("pointerdown", (event) => close(event.composedPath()[0]), true);
  window.addEventListener("click", onClick, true);
}

function whenClosed(act, looks = 0) {
  const isWaiting = document.querySelector(PANEL) || isScriptRunning();
  if (isWaiting && looks < MOST_CLOSED_LOOKS) setTimeout(() => whenClosed(act, looks + 1), CLOSED_LOOK_MS);
  else setTimeout(act, CLOSED_LOOK_MS);
}
