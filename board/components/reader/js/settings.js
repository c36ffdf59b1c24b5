// What this browser remembers of how rollouts are read.

const SETTINGS_KEY = "rollout-board.reader";
const FALLBACKS = { wrap: true, mono: false, foldTool: false, foldThinking: false, outline: true, details: false };

function stored(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? fallback;
  } catch {
    return fallback;
  }
}

function store(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // A browser that stores nothing remembers nothing.
  }
}

/** A setting of this browser: as chosen, else as it suits this rollout, else the usual one. */
function prefers(view, name) {
  return view.settings[name] ?? view.defaults[name] ?? FALLBACKS[name];
}

function remember(view, name, value) {
  view.settings = { ...stored(SETTINGS_KEY, {}), [name]: value };
  store(SETTINGS_KEY, view.settings);
}

function showTextStyle(view) {
  const { root, wrap, mono } = view.ui;
  root.dataset.wrap = prefers(view, "wrap") ? "on" : "off";
  root.dataset.font = prefers(view, "mono") ? "mono" : "";
  wrap.setAttribute("aria-pressed", String(prefers(view, "wrap")));
  mono.setAttribute("aria-pressed", String(prefers(view, "mono")));
}
