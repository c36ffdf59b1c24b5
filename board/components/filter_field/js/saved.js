// The last filters and those with a name, kept in this browser.

const SAVED_UNDER = "rollout-board:filters";
const MOST_RECENT = 10;
const MOST_NAMED = 50;

/** { recent: [text], named: { name: text } }; empty where the browser keeps nothing. */
function savedFilters() {
  try {
    const { recent, named } = JSON.parse(localStorage.getItem(SAVED_UNDER)) ?? {};
    const texts = Array.isArray(recent) ? recent.filter((text) => typeof text === "string") : [];
    const pairs = Object.entries(named ?? {}).filter(([, text]) => typeof text === "string");
    return { recent: texts, named: Object.fromEntries(pairs) };
  } catch {
    return { recent: [], named: {} };
  }
}

/** Whether the browser has kept them. */
function keepFilters(filters) {
  try {
    localStorage.setItem(SAVED_UNDER, JSON.stringify(filters));
    return true;
  } catch {
    return false;
  }
}

function rememberFilter(text) {
  if (!text) return;
  const { recent, named } = savedFilters();
  if (recent[0] === text) return;
  const others = recent.filter((one) => one !== text);
  keepFilters({ recent: [text, ...others].slice(0, MOST_RECENT), named });
}

function nameFilter(name, text) {
  const { recent, named } = savedFilters();
  delete named[name];
  const pairs = [[name, text], ...Object.entries(named)].slice(0, MOST_NAMED);
  return keepFilters({ recent, named: Object.fromEntries(pairs) });
}

function forgetFilter(name) {
  const { recent, named } = savedFilters();
  delete named[name];
  keepFilters({ recent, named });
}
