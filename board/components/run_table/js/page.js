// What the table and its filters share: boxes and marks, and changes of the URL.

const RERUN_DELAY_MS = 40;

/** A tick box, which is a button: it has no place in a form. */
function tickBox(label) {
  const box = makeButton("tick");
  box.setAttribute("role", "checkbox");
  box.setAttribute("aria-label", label);
  return box;
}

/** The shape and colour of a state or a severity. */
function markOf(kind, words) {
  const mark = make("span", `mark ${kind}`);
  if (words) {
    mark.title = words;
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", words);
  }
  return mark;
}

/** A list as a URL has it: board/views/shared/state.py. */
function listText(values) {
  return values.map((value) => value.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",") || null;
}

/** Changes the URL, and has the page run with it. */
function changeUrl(view, changes) {
  const search = searchWith(view.data.parameters, changes);
  if (search === location.search) return;
  history.replaceState(history.state, "", location.pathname + search);
  runWithChanges(view, changes, RERUN_DELAY_MS);
}
