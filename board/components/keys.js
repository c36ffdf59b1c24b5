// The keys of the page, one after another, each to the part of the page that takes it. What is pressed
// before a page is ready waits until it is. The first script that is there installs this for all.

const PAGE_KEYS = (window.__rolloutBoardKeys ??= createKeys());

/** Gives keys to `take` while its element is mounted: true where it took one, "later" where it will. The
 * markup of the element has data-keys, by which the page knows that it is still to come. Returns what
 * ends it. early: before the others. */
function takeKeys(root, take, { early = false } = {}) {
  const { takers } = PAGE_KEYS;
  const taker = { root, take };
  if (early) takers.unshift(taker);
  else takers.push(taker);
  root.dataset.taking = "";
  setTimeout(PAGE_KEYS.drain);
  return () => {
    takers.splice(takers.indexOf(taker), 1);
    delete root.dataset.taking;
  };
}

function createKeys() {
  const MOST_HELD = 200;
  const ASK_AGAIN_MS = 40;
  const CLICK_MS = 300; // from a click until the run that it starts
  const SETTLED_MS = 100; // from the end of a run until its last element is on the page
  const UNCLAIMED_MS = 1000; // the same on a slow machine, for a key that would be dropped
  const LONGEST_START_MS = 5000; // of a run
  const LONGEST_WAY_MS = 15_000; // to another page
  const TYPED_IN = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], [role=combobox], [role=dialog], dialog, [role=listbox], [role=menu]";
  const HAS_ARROWS = "input, [role=slider], [role=tab], [role=radio], [role=radiogroup], [data-testid=stDataFrame]";
  const HAS_ENTER = "button, a, summary, input, [data-testid=stDataFrame], [role=button]";
  const MOVES = new Set(["j", "k", "ArrowLeft", "ArrowRight"]);

  // frame: what the page says of itself; left: the page that was left, while the next one is awaited.
  const keys = { takers: [], held: [], frame: null, left: null, asking: null };

  const isRunning = () => {
    const state = document.querySelector("[data-test-script-state]")?.dataset.testScriptState;
    return state !== undefined && state !== "notRunning";
  };
  const elements = () => [...document.querySelectorAll("[data-testid^=stBidiComponent]")];
  const isMounted = () =>
    elements().every((host) => ![host, ...host.querySelectorAll("*")].some((one) => one.shadowRoot?.querySelector("[data-keys]:not([data-taking])")));

  let changedAt = 0;
  const changes = new MutationObserver(() => (changedAt = performance.now()));

  /** Called where something was done that the page runs for: until that run has begun it is not at rest. */
  keys.expectRun = () => {
    keys.expected = { run: keys.frame?.run, until: performance.now() + LONGEST_START_MS };
  };

  const isExpecting = () =>
    keys.expected && keys.frame?.run === keys.expected.run && performance.now() < keys.expected.until;

  /** Whether all that takes keys is there: no run of the script is going to bring more of it. */
  const isAtRest = (rest) => !isRunning() && !isExpecting() && isMounted() && performance.now() - changedAt > rest;

  /** Whether two runs of the page began since a key was pressed, one of them with what was done before: a
   * live page is never at rest, and brings nothing more that would take the key. */
  const hasRunSince = ({ run }) => run !== undefined && keys.frame?.run >= run + 2;

  const isOnItsWay = () => {
    if (!keys.left) return false;
    const { frame, at, path } = keys.left;
    const isThere = path === null ? keys.frame.page !== frame.page : location.pathname === path;
    const hasRun = keys.frame.run !== frame.run;
    const isLate = performance.now() - at > LONGEST_WAY_MS;
    if (isLate) keys.held.length = 0;
    if (isLate || (hasRun && !isRunning() && (isThere || performance.now() - at > 3000))) keys.left = null;
    return keys.left !== null;
  };

  /** Called when another page was chosen: keys are for that one from now on. path: of the page, if known. */
  keys.leave = (path = null) => {
    if (!keys.frame) return;
    keys.held.length = 0;
    keys.left = { frame: keys.frame, at: performance.now(), path };
  };

  /** What the page says of itself: its name, the number of its run, the keys that it offers, those of them
   * that the server answers, and `ask`, which sends them. */
  keys.setFrame = (frame) => {
    keys.frame = frame;
    const app = document.querySelector("[data-test-script-state]");
    if (app) changes.observe(app, { attributeFilter: ["data-test-script-state"] });
    setTimeout(keys.drain);
  };

  const isModified = (event) => event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
  const pathOf = (event) => event.composedPath().filter((one) => one instanceof Element);
  const isIn = (path, selector) => path.some((one) => one.matches(selector));
  const pressed = (event, path) => ({
    key: event.key,
    code: event.code,
    shiftKey: event.shiftKey,
    repeat: event.repeat,
    run: keys.frame?.run,
    path,
  });

  /** Whether the part of the page that has the focus needs the key for itself. */
  const isForFocus = ({ key }, path) => {
    if (isIn(path, TYPED_IN)) return true;
    if (key.startsWith("Arrow")) return isIn(path, HAS_ARROWS);
    return (key === "Enter" || key === " ") && isIn(path, HAS_ENTER);
  };

  const isOffered = ({ key, code }) => {
    const { offered } = keys.frame ?? { offered: [] };
    return offered.includes(key) || offered.includes(/^(?:Digit|Numpad)([1-9])$/.exec(code)?.[1]);
  };

  /** What waits is typed into a field that a key before it has opened. */
  const typeInto = (field, { key }) => {
    if (key.length === 1) document.execCommand("insertText", false, key);
    else if (key === "Backspace") document.execCommand("delete");
    else field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true }));
  };

  const focusedField = () => {
    let active = document.activeElement;
    while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
    return active?.matches("input:not([type=checkbox], [type=radio]), textarea") ? active : null;
  };

  /** A part of the page that fails at a key has had it: the keys behind it must not wait for ever. */
  const offer = (one) => {
    for (const { root, take } of [...keys.takers]) {
      try {
        const answer = root.isConnected && take(one);
        if (answer) return answer;
      } catch (error) {
        reportError(error);
        return true;
      }
    }
    return false;
  };

  /** Keys whose effect is the server's, in one message as far as they follow each other. */
  const askServer = () => {
    const batch = [];
    while (keys.held.length && batch.length < 50) {
      const { key } = keys.held[0];
      if (!keys.frame.serverKeys.includes(key)) break;
      batch.push(keys.held.shift().key);
      if (!MOVES.has(key)) break;
    }
    keys.asking = keys.frame.ask(batch, () => {
      keys.asking = null;
      keys.drain();
    });
  };

  keys.drain = () => {
    clearTimeout(keys.again);
    keys.hasTaken = false;
    while (keys.held.length) {
      if (keys.asking || isOnItsWay()) break;
      const [first] = keys.held;
      const field = focusedField();
      if (field) {
        keys.held.shift();
        typeInto(field, first);
        continue;
      }
      const answer = offer(first);
      if (answer === true) {
        keys.held.shift();
        keys.hasTaken = true;
        continue;
      }
      // What closes something has nothing to wait for where nothing is open.
      const canWait = isOffered(first) && first.key !== "Escape";
      const isServers = keys.frame?.serverKeys.includes(first.key);
      const rest = isServers ? SETTLED_MS : UNCLAIMED_MS;
      if (answer === "later" || (canWait && !isAtRest(rest) && !hasRunSince(first)) || !isMounted()) break;
      if (isServers) {
        askServer();
        continue;
      }
      keys.held.shift();
      if (canWait) keys.onUnclaimed?.(first);
    }
    if (keys.held.length) keys.again = setTimeout(keys.drain, ASK_AGAIN_MS);
  };

  const hold = (event, path) => {
    if (keys.held.length < MOST_HELD) keys.held.push(pressed(event, path));
  };

  // While keys wait, or another page is on its way, nothing else on the page hears of a key.
  window.addEventListener(
    "keydown",
    (event) => {
      const path = pathOf(event);
      if (isModified(event) || isForFocus(event, path)) return;
      if (!keys.held.length && !isOnItsWay()) return;
      if (event.key.length > 1 && !isOffered(event) && event.key !== "Backspace") return;
      event.preventDefault();
      event.stopImmediatePropagation();
      hold(event, path);
      keys.drain();
    },
    true,
  );
  window.addEventListener("keydown", (event) => {
    const path = pathOf(event);
    if (event.defaultPrevented || isModified(event) || isForFocus(event, path)) return;
    hold(event, path);
    keys.drain();
    // What nobody takes is the browser's.
    if (keys.held.length || keys.hasTaken) event.preventDefault();
  });
  window.addEventListener(
    "click",
    (event) => {
      changedAt = Math.max(changedAt, performance.now() + CLICK_MS - SETTLED_MS);
      const link = event.composedPath().find((one) => one.matches?.("a[data-testid^=stPageLink]"));
      if (!link || isModified(event) || event.shiftKey || event.button !== 0) return;
      keys.leave(new URL(link.href).pathname);
      if (event.detail) setTimeout(() => link.blur()); // Enter is for the page that the pointer chose
    },
    true,
  );
  return keys;
}
