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

/** A key of the page: true where it is the list's, also at an end of it. */
function takeListKey(view, { key }) {
  const name = key.length === 1 ? key.toLowerCase() : key;
  if (name === "Escape") {
    if (!view.open) return false;
    close(view);
  } else if (name === "j" || name === "k") {
    // What is on the next page of the list is known when that is there.
    if (view.isTurning) return "later";
    move(view, name === "j" ? 1 : -1);
  } else if (name === "o" || name === "Enter") openChosen(view);
  else return false;
  return true;
}

/** The marked row; without one the first. */
function openChosen(view) {
  if (view.open || !view.data.page.addresses.length) return;
  openRow(view, Math.max(placeOf(view, view.cursor), 0));
}

/** Keys of the list itself, once it has the focus. */
function onListKey(view, event) {
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves) move(view, moves[event.key]);
  else if (event.key === "Enter" && event.target === view.ui.grid) openChosen(view);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
