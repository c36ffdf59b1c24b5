// Runs of the page for what a script of it has changed in the URL. The change itself is sent, with the values
// of all widgets: a run that Streamlit makes of a move in the history comes without these, and would lose
// what was switched a moment before.

const URL_CHANGES = (window.__rolloutBoardUrlChanges ??= createUrlChanges());

/** entries: of what was changed, sent from when they are due until they are answered. last: the id of the
 * last one. page: the name of the open page. */
function createUrlChanges() {
  const changes = { entries: [], last: null, page: null, send: () => {} };
  // Back and Forward leave behind what was changed before.
  window.addEventListener("popstate", () => Object.assign(changes, { entries: [], last: null }));
  return changes;
}

/** Has the page run with changes of its URL, which is changed already: name -> text, null where it was taken
 * out. view.rerun: the timer until they are sent, with view.entry, null afterwards. */
function runWithChanges(view, changes, delay) {
  if (!URL_CHANGES.entries.includes(view.entry)) {
    view.entry = { id: newChangeId(), page: URL_CHANGES.page, changes: {}, isDue: false };
    URL_CHANGES.entries.push(view.entry);
  }
  const { entry } = view;
  for (const [name, value] of Object.entries(changes)) entry.changes[name] = value === null ? null : String(value);
  URL_CHANGES.last = entry.id;
  clearTimeout(view.rerun);
  view.rerun = setTimeout(() => {
    entry.isDue = true;
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
