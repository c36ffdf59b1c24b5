// Another rollout at once: its data was fetched ahead and waits on the page under its address.

const OPEN_EVENT = "rollout-board:open";

function bindAhead(view) {
  const open = ({ detail }) => {
    if (!view.rollout) return;
    view.awaited = { step: detail.step, index: detail.index };
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
function isOutdated({ place, answered }) {
  if (!place || !isBehindUrl(answered)) return false;
  const wanted = addressInUrl();
  return wanted !== null && (wanted[0] !== place.step || wanted[1] !== place.index);
}
