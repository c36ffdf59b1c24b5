// Two views on one page that scroll together, by place in their texts.

const LINK_EVENT = "rollout-board:scroll";

function bindLink(view) {
  const follow = ({ detail }) => {
    if (!view.linked || detail.from === view || detail.group !== view.linked.group) return;
    followTo(view, detail.place);
  };
  document.addEventListener(LINK_EVENT, follow);
  return () => document.removeEventListener(LINK_EVENT, follow);
}

/** Tell the other view where this one's text begins now, in characters. */
function tellScroll(view) {
  if (!view.linked || !view.rollout.texts.length) return;
  if (view.following) return;
  const [top] = tokensInSight(view);
  const starts = startsOf(view.rollout);
  const i = Math.min(Math.floor(top), starts.length - 2);
  const place = starts[i] + (top - i) * (starts[i + 1] - starts[i]);
  const detail = { from: view, group: view.linked.group, place };
  document.dispatchEvent(new CustomEvent(LINK_EVENT, { detail }));
}

function followTo(view, place) {
  const starts = startsOf(view.rollout);
  const i = Math.max(0, Math.min(starts.length - 2, bound(starts, place, true) - 1));
  const length = starts[i + 1] - starts[i] || 1;
  // Its own scroll event must not be told back.
  view.following = true;
  scrollToTop(view, i + Math.min(1, (place - starts[i]) / length));
  moveSight(view);
  clearTimeout(view.followed);
  view.followed = setTimeout(() => (view.following = false), 80);
}

function showDivergence(view) {
  const { ui, linked } = view;
  view.divergesAt = linked?.diverges_at ?? null;
  ui.diverge.hidden = !linked;
  if (!linked) return;
  const at = view.divergesAt;
  ui.diverge.disabled = at === null;
  ui.diverge.textContent = at === null ? "no difference here" : `first difference: #${withThousands(at)}`;
  if (at !== null) setMark(view, at, DIVERGES, true);
}
