// What all curves of a page share: the zoom over the steps and the step under the pointer.
//
// Each component is a script module of its own, so what they share is on the window. The zoom is in the
// URL, `steps=40-97`: the URL is where it is read from, and the history entry is replaced when it changes.

const PAGE = (window.rolloutBoardCurves ??= { cells: new Set(), bars: new Set(), zoom: null, pointed: null, rerun: null });

function zoomOfUrl() {
  const match = /^(\d+)-(\d+)$/.exec(new URLSearchParams(location.search).get("steps") ?? "");
  const [first, last] = match ? [Number(match[1]), Number(match[2])] : [0, 0];
  return first < last ? [first, last] : null;
}

/** Zooms every curve of the page to whole steps, null: the whole run. */
function zoomTo(zoom) {
  if (String(zoom) === String(zoomOfUrl())) return showZoom(zoom);
  const query = new URLSearchParams(location.search);
  if (zoom) query.set("steps", zoom.join("-"));
  else query.delete("steps");
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
  showZoom(zoom);
  runWithChanges(PAGE, { steps: zoom ? zoom.join("-") : null }, 0);
}

function showZoom(zoom) {
  PAGE.zoom = zoom;
  for (const cell of PAGE.cells) cell.rescale();
  for (const bar of PAGE.bars) bar.render();
}

/** Shows a step in every curve of the page; null: the pointer is nowhere. source: the curve it is on. */
function pointAt(step, source) {
  if (PAGE.pointed === step) return;
  PAGE.pointed = step;
  for (const cell of PAGE.cells) cell.point(step, cell === source);
}
