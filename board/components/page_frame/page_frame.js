// What belongs to the whole page: its keys, the way of keys and labels to the server, a tooltip, its size on paper.

const ASK_AGAIN_MS = 3000; // a run of the script that is stopped may lose what was sent
const PATIENCE_MS = 1000; // with which labels wait for the end of a run
const MOST_TRIES = 5; // of a key that the server does not answer: its page is gone

const PAPER_PIXELS = 1047; // between the margins of A4 in landscape

const FRAME = (window.__rolloutBoardFrame ??= { asked: [], sentAt: 0, timer: null, trigger: null, tries: 0 });

const isScriptRunning = () => {
  const state = document.querySelector("[data-test-script-state]")?.dataset.testScriptState;
  return state !== undefined && state !== "notRunning";
};

function sendSoon() {
  FRAME.waitsSince ??= performance.now();
  clearTimeout(FRAME.timer);
  FRAME.timer = setTimeout(sendWaiting);
}

/** Sends what the server has not answered, again and again. */
function sendWaiting() {
  const labels = OUTBOX.waiting();
  const urls = URL_CHANGES.entries.filter(({ isDue }) => isDue);
  const entries = [...labels, ...FRAME.asked, ...urls];
  if (!entries.length) {
    FRAME.waitsSince = null;
    return;
  }
  const now = performance.now();
  const isNew = entries.some(({ id }) => !FRAME.sent?.has(id));
  // What is seen on the page already, and stays behind there, can't wait for the end of a run.
  const isUrgent = urls.some(({ id }) => !FRAME.sent?.has(id));
  const isPatient = isScriptRunning() && now - FRAME.waitsSince < PATIENCE_MS;
  const isDue = isNew ? isUrgent || !isPatient : !isScriptRunning() && now - FRAME.sentAt > ASK_AGAIN_MS;
  if (isDue) {
    FRAME.sent = new Set(entries.map(({ id }) => id));
    FRAME.sentAt = now;
    FRAME.waitsSince = now;
    FRAME.trigger({ labels: labels.map(({ state, reason, ...entry }) => entry), keys: FRAME.asked, urls });
    if (!isNew && FRAME.asked.length && ++FRAME.tries > MOST_TRIES) endAsking([]);
  }
  FRAME.timer = setTimeout(sendWaiting, 50);
}

/** What scripts have changed in the URL, where the server wrote it before it knew that. */
function keepInUrl(parameters) {
  const changes = Object.assign({}, ...URL_CHANGES.entries.filter(({ page }) => page === URL_CHANGES.page).map((entry) => entry.changes));
  const search = searchWith(parameters, changes);
  if (Object.keys(changes).length && search !== location.search) history.replaceState(history.state, "", location.pathname + search);
}

/** Keys to the server; `done` is called when it has answered all of them. */
function askKeys(page, batch, done) {
  const numbers = crypto.getRandomValues(new Uint32Array(batch.length));
  FRAME.asked = batch.map((key, place) => ({ id: `${numbers[place].toString(36)}-${performance.now()}`, key, page }));
  FRAME.tries = 0;
  FRAME.done = done;
  sendSoon();
  return true;
}

function endAsking(left) {
  if (!FRAME.asked.length || left.length) {
    FRAME.asked = left;
    return;
  }
  FRAME.asked = [];
  FRAME.done();
}

export default function ({ data, setTriggerValue }) {
  FRAME.trigger = (sent) => setTriggerValue("sent", sent);
  const { page, run, offered, serverKeys, received, refused } = data;
  PAGE_KEYS.setFrame({ page, run, offered, serverKeys, ask: (batch, done) => askKeys(page, batch, done) });
  OUTBOX.acknowledge(received, refused);
  if (URL_CHANGES.page !== page) Object.assign(URL_CHANGES, { page, last: null });
  URL_CHANGES.send = sendSoon;
  keepInUrl(data.parameters);
  URL_CHANGES.entries = URL_CHANGES.entries.filter(({ id }) => !received.includes(id));
  endAsking(FRAME.asked.filter(({ id }) => !received.includes(id)));
  if (!FRAME.isBound) {
    FRAME.isBound = true;
    followOutbox(sendSoon);
    closePanelsFirst();
    // What was drawn for the width of the window is printed with that width.
    const fit = () => document.documentElement.style.setProperty("--print-zoom", Math.min(1, PAPER_PIXELS / window.innerWidth));
    window.addEventListener("resize", fit);
    fit();
    document.addEventListener("pointerover", ({ target }) => {
      const menu = target.closest?.(`.st-key-${data.menu}`);
      if (menu) menu.title = menu.querySelector("input")?.value ?? "";
    });
  }
  sendSoon();
}
