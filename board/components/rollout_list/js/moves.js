// From rollout to rollout: by click, by J and K, and over the end of a page to the next one.

const OPEN_EVENT = "rollout-board:open";

const keyOf = (address) => (address ? `${address[0]}/${address[1]}` : "");

function placeOf(view, address) {
  const key = keyOf(address);
  return key ? view.data.page.addresses.findIndex((one) => keyOf(one) === key) : -1;
}

function openRow(view, n) {
  openAddress(view, view.data.page.addresses[n]);
}

/** Opens a rollout: the first one is an entry in the history, those after it take its place. */
function openAddress(view, address, page = pageNumber(view)) {
  const [step, index] = address;
  const wasOpen = view.open !== null;
  view.open = view.cursor = address;
  markRows(view);
  showRow(view, placeOf(view, address));
  remember(view);
  const changes = { step, index, token: null, zoom: null, page: page || null };
  goTo(view, changes, { push: !wasOpen });
  const detail = { step, index, address: `${view.data.prefix}/${step}/${index}` };
  dispatchEvent(new CustomEvent(OPEN_EVENT, { detail }));
}

function close(view) {
  if (!view.open) return;
  view.open = null;
  markRows(view);
  goTo(view, { index: null, token: null, zoom: null, vs: null }, { push: true });
}

const pageNumber = (view) => Math.round(view.data.page.first / view.data.page.size);

/** The row after or before; with nothing open the marked row alone moves. */
function move(view, by) {
  const { addresses, before, after } = view.data.page;
  const from = placeOf(view, view.open ?? view.cursor);
  const to = from < 0 ? (by > 0 ? 0 : addresses.length - 1) : from + by;
  const isPast = to < 0 || to >= addresses.length;
  const address = isPast ? (to < 0 ? before : after) : addresses[to];
  if (!address) return;
  if (view.open) return openAddress(view, address, pageNumber(view) + (isPast ? by : 0));
  view.cursor = address;
  if (isPast) return turnPage(view, by);
  markRows(view);
  showRow(view, to);
  remember(view);
}

function turnPage(view, by) {
  view.turned = true;
  goTo(view, { page: pageNumber(view) + by }, { push: false });
}

// --- keys ----------------------------------------------------------------------------------------

function onPageKey(view, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event) || !view.data.page.addresses.length) return;
  const key = event.key.toLowerCase();
  if (key === "j" || key === "k") move(view, key === "j" ? 1 : -1);
  else if (key === "escape" && view.open) close(view);
  else if (key === "o" && !view.open && placeOf(view, view.cursor) >= 0) openAddress(view, view.cursor);
  else return;
  event.preventDefault();
}

/** Keys of the list itself, once it has the focus. */
function onListKey(view, event) {
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves) move(view, moves[event.key]);
  else if (event.key === "Enter" && event.target === view.ui.grid && !view.open) {
    if (placeOf(view, view.cursor) < 0) return;
    openAddress(view, view.cursor);
  } else return;
  event.preventDefault();
  event.stopPropagation();
}
