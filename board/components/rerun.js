// Runs of the page with another URL. Streamlit sends such a run without the values of widgets: where one was
// changed a moment before, and no run has begun with it, its change would be lost. So would labels and keys.

const WIDGETS = (window.__rolloutBoardWidgets ??= watchWidgets());

function watchWidgets() {
  const LONGEST_START_MS = 1000; // from a change of a widget to its run
  const isRunning = () => document.querySelector("[data-test-script-state]")?.dataset.testScriptState !== "notRunning";
  let changedAt = null;
  const change = ({ target }) => {
    const isOurs = target.closest?.("[data-testid^=stBidiComponent]");
    if (!isOurs && target.closest?.("[data-testid=stApp]")) changedAt = performance.now();
  };
  for (const kind of ["click", "change"]) window.addEventListener(kind, change, true);
  // A run that began before the change is stopped for the widget's: only an end says that all is known.
  const runs = new MutationObserver(() => isRunning() || (changedAt = null));
  runs.observe(document.body, { subtree: true, attributeFilter: ["data-test-script-state"] });
  return {
    /** Called where something else was sent that a run of the page takes. */
    noteSent: () => (changedAt = performance.now()),
    isWaiting: () => changedAt !== null && (isRunning() || performance.now() - changedAt < LONGEST_START_MS),
  };
}

/** Has the page run with the URL as it is then, as after a press of Back. view.rerun: the timer until then,
 * null afterwards. begin: called before. */
function runWithUrl(view, delay, begin = () => {}) {
  const ASK_AGAIN_MS = 20;
  const run = () => {
    if (WIDGETS.isWaiting()) {
      view.rerun = setTimeout(run, ASK_AGAIN_MS);
      return;
    }
    view.rerun = null;
    begin();
    dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
  };
  clearTimeout(view.rerun);
  view.rerun = setTimeout(run, delay);
}
