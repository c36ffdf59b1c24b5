// Another rollout at once: its data was fetched ahead and waits on the page under its address.

const OPEN_EVENT = "rollout-board:open";
const LONGEST_WAIT_MS = 10_000;

function bindAhead(view) {
  const open = ({ detail }) => {
    if (!view.rollout) return;
    view.awaited = { step: detail.step, index: detail.index, since: performance.now() };
    const data = window.__rolloutBoardAhead?.get(detail.address);
    if (data) load(view, data);
    view.ui.root.classList.toggle("waiting", !data);
  };
  window.addEventListener(OPEN_EVENT, open);
  return () => window.removeEventListener(OPEN_EVENT, open);
}

/** Whether what is shown is the rollout before the one that was opened. */
function isAwaiting({ ui }) {
  return ui.root.classList.contains("waiting");
}

/** Whether data from Python is of a rollout that the user has left since. */
function isOutdated(view, { place }) {
  const { awaited } = view;
  if (!awaited || !place) return false;
  const isOther = awaited.step !== place.step || awaited.index !== place.index;
  if (isOther && performance.now() - awaited.since < LONGEST_WAIT_MS) return true;
  view.awaited = null;
  return false;
}
