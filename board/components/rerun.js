// Runs of the page for what a script of it has changed in the URL. The change itself is sent, with the values
// of all widgets: a run that Streamlit makes of a move in the history comes without these, and would lose
// what was switched a moment before.

const URL_CHANGES = (window.__rolloutBoardUrlChanges ??= { entries: [], page: null, send: () => {} });

/** Has the page run with changes of its URL, which is changed already: name -> text, null where it was taken
 * out. view.rerun: the timer until they are sent, null afterwards. begin: called before. */
function runWithChanges(view, changes, delay, begin = () => {}) {
  view.changes ??= {};
  for (const [name, value] of Object.entries(changes)) view.changes[name] = value === null ? null : String(value);
  clearTimeout(view.rerun);
  view.rerun = setTimeout(() => {
    const [number] = crypto.getRandomValues(new Uint32Array(1));
    URL_CHANGES.entries.push({
      id: `${number.toString(36)}-${performance.now()}`,
      page: URL_CHANGES.page,
      changes: view.changes,
    });
    view.changes = {};
    view.rerun = null;
    begin();
    URL_CHANGES.send();
  }, delay);
}
