// What somebody does is one entry in the history, whatever the page makes of the URL then. Streamlit writes an
// entry for each URL: for one that a page fills in, so that Back led to where the page filled it in again, and
// two where a click opens another page, of which the first was a page that nobody had seen.
(() => {
  const push = history.pushState.bind(history);
  let isDone = false; // whether anybody did something since the last entry
  for (const kind of ["pointerdown", "keydown", "click"]) {
    window.addEventListener(kind, (event) => (isDone ||= event.isTrusted), true);
  }
  window.addEventListener("popstate", () => (isDone = false), true);
  history.pushState = (state, unused, url) => {
    if (isDone) push(state, unused, url);
    else history.replaceState(state, unused, url);
    isDone = false;
  };
})();
