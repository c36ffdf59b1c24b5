// Presses the button with a key once for each reason, when it is on the page, and says so.

const PRESSED = (window.__rolloutBoardPressed ??= new Set());
const ASK_AGAIN_MS = 50;

export default function ({ data, setTriggerValue }) {
  const { button, reason } = data;
  let timer = null;
  const press = () => {
    if (PRESSED.has(reason)) return;
    const found = document.querySelector(`.st-key-${button} button`);
    if (found) {
      PRESSED.add(reason);
      found.click();
      setTriggerValue("pressed", reason);
    } else {
      timer = setTimeout(press, ASK_AGAIN_MS);
    }
  };
  // After the commit in which the page gives the button its file.
  timer = setTimeout(press, ASK_AGAIN_MS);
  return () => clearTimeout(timer);
}
