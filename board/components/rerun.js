// Runs of the page for what a script of it has changed in the URL. The change itself is sent, with the values
// of all widgets: a run that Streamlit makes of a move in the history comes without these, and would lose
// what was switched a moment before.

// entries: sent until they are answered; last: the id of the last change on this page; page: its name.
const URL_CHANGES = (window.__rolloutBoardUrlChanges ??= { entries: [], last: null, page: null, send: () => {} });

/** Has the page run with changes of its URL, which is changed already: name -> text, null where it was taken
 * out. view.rerun: the timer until they are sent, view.entry: what is sent then, null afterwards. */
function runWithChanges(view, changes, delay) {
  view.entry ??= { id: newChangeId(), page: URL_CHANGES.page, changes: {} };
  for (const [name, value] of Object.entries(changes)) view.entry.changes[name] = value === null ? null : String(value);
  URL_CHANGES.last = view.entry.id;
  clearTimeout(view.rerun);
  view.rerun = setTimeout(() => {
    URL_CHANGES.entries.push(view.entry);
    view.entry = view.rerun = null;
    URL_CHANGES.send();
  }, delay);
}

function newChangeId() {
  const [number] = crypto.getRandomValues(new Uint32Array(1));
  return `${number.toString(36)}-${Math.round(performance.now())}`;
}

/** Whether the server drew what it drew before it heard of the last change. answered: ids that it knew. */
function isBehindUrl(answered) {
  return URL_CHANGES.last !== null && !answered.includes(URL_CHANGES.last);
}

/** Step and index of the rollout that is open, null: none. */
function addressInUrl() {
  const query = new URLSearchParams(location.search);
  return query.has("index") ? [Number(query.get("step")), Number(query.get("index"))] : null;
}
