// Labels on their way to the label file: held here until the server says that it has them, and over a
// reload of the page. Every part that shows labels shows these, too.

const OUTBOX = (window.__rolloutBoardOutbox ??= createOutbox());
const OUTBOX_EVENT = "rollout-board:outbox";

function createOutbox() {
  const SLOT = "rollout-board:outbox";
  const MOST = 500;
  let entries = [];
  try {
    entries = JSON.parse(sessionStorage.getItem(SLOT)) ?? [];
  } catch {
    // A browser that stores nothing has nothing left from before.
  }

  const changed = () => {
    try {
      sessionStorage.setItem(SLOT, JSON.stringify(entries.filter((one) => one.state !== "stored")));
    } catch {
      // It is only less safe.
    }
    dispatchEvent(new CustomEvent("rollout-board:outbox"));
  };

  const newId = () => [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  const add = (entry) => {
    entries.push({ ...entry, id: newId(), state: "waiting", reason: "" });
    if (entries.length > MOST) entries = entries.filter((one) => one.state !== "stored");
    changed();
  };

  /** Once more, as a new entry: the server remembers what it did not take. */
  const retry = () => {
    entries = entries.map((one) => (one.state === "refused" ? { ...one, id: newId(), state: "waiting" } : one));
    changed();
  };

  const discard = () => {
    entries = entries.filter((one) => one.state !== "refused");
    changed();
  };

  /** received: ids that the server has dealt with. refused: of these that could not be stored, with why. */
  const acknowledge = (received, refused) => {
    let isNew = false;
    for (const one of entries) {
      if (one.state !== "waiting" || !received.includes(one.id)) continue;
      isNew = true;
      one.state = one.id in refused ? "refused" : "stored";
      one.reason = refused[one.id] ?? "";
    }
    if (isNew) changed();
  };

  return {
    add,
    retry,
    discard,
    acknowledge,
    waiting: () => entries.filter((one) => one.state === "waiting"),
    /** Of a run what its part of the page does not know yet. received: ids that it knows. */
    of: (run, received) => entries.filter((one) => one.run === run && one.state !== "refused" && !received.includes(one.id)),
    refused: (run) => entries.filter((one) => one.run === run && one.state === "refused"),
  };
}

/** Calls `show` whenever entries come, are stored or refused; returns what ends it. */
function followOutbox(show) {
  window.addEventListener(OUTBOX_EVENT, show);
  return () => window.removeEventListener(OUTBOX_EVENT, show);
}
