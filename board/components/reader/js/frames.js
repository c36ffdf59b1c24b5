// Work that need not be done before the user sees anything, a few milliseconds a frame.

const FRAME_BUDGET_MS = 6;

/** Calls `step` frame after frame until it returns false; in place of what ran under `name` before. */
function overFrames(view, name, step) {
  cancelAnimationFrame(view.frames[name]);
  view.frames[name] = requestAnimationFrame(() => {
    const until = performance.now() + FRAME_BUDGET_MS;
    let more = true;
    while (more && performance.now() < until) more = step();
    if (more) overFrames(view, name, step);
  });
}

function stopFrames(view) {
  Object.values(view.frames).forEach(cancelAnimationFrame);
}
