// Another place in the list is another URL.

const RERUN_DELAY_MS = 40;

/** Another URL, and a run of the page with what is changed in it. */
function goTo(view, changes, { push = false } = {}) {
  const search = searchWith(view.data.parameters, changes);
  if (search === location.search) return;
  const address = location.pathname + search;
  if (push) history.pushState({}, "", address);
  else history.replaceState(history.state, "", address);
  PAGE_KEYS.expectRun();
  // A key that is held moves many times a second: the server hears of where it stops.
  runWithChanges(view, changes, RERUN_DELAY_MS);
}
