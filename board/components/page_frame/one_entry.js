// A click that leads to another page is one entry in the history. Streamlit makes two of it: the query of
// the page that is opened at the address of this one, and then the address: Back led to a page that nobody
// had seen, and was to be pressed twice.

const SOON_MS = 3000; // from the one to the other

function keepOneEntry() {
  const push = history.pushState.bind(history);
  let querySince = null; // when the query alone was written, and nothing was done since
  const forget = () => (querySince = null);
  for (const kind of ["pointerdown", "keydown", "popstate"]) window.addEventListener(kind, forget, true);
  history.pushState = (state, unused, url) => {
    const next = new URL(url, location.href);
    const isSamePath = next.pathname === location.pathname;
    const isSecond = querySince !== null && performance.now() - querySince < SOON_MS;
    if (!isSamePath && isSecond && next.search === location.search) history.replaceState(state, unused, url);
    else push(state, unused, url);
    querySince = isSamePath ? performance.now() : null;
  };
}
