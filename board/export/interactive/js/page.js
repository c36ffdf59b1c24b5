// The page around the reader: the list of its rollouts, the way from one to the next, and the check of
// the data. Shares a module with the reader's own script, which `mountReader` shows.

const MOVES = { j: 1, k: -1 };
const OUTLASTING = ["metric", "strip", "heat"];

/** Draws the page; what it holds is in the elements that interactive/__init__.py wrote. */
async function openPage() {
  const contents = new TextDecoder().decode(await bytesOf(document.getElementById("contents")));
  const page = { rollouts: JSON.parse(contents), at: 0, read: null, choices: {}, drawn: null, asked: 0 };
  page.host = document.getElementById("reader").attachShadow({ mode: "open" });
  page.host.append(document.getElementById("reader-parts").content);
  // There is no server that could list rollouts to compare with.
  delete PLAIN_KEYS.c;
  page.rows = page.rollouts.map((rollout, at) => listRow(page, rollout, at));
  document.getElementById("rollouts").append(...page.rows);
  for (const [id, by] of Object.entries({ previous: -1, next: 1 })) {
    document.getElementById(id).onclick = () => showRollout(page, page.at + by);
  }
  takeKeys(document.getElementById("rollouts"), ({ key }) => {
    const by = MOVES[key.toLowerCase()];
    if (by) showRollout(page, page.at + by);
    return Boolean(by);
  });
  matchMedia("(prefers-color-scheme: dark)").onchange = () => page.drawn && mount(page);
  showRollout(page, 0);
}

function listRow(page, { step, index, reward, words }, at) {
  const row = makeButton("row", undefined, "", () => showRollout(page, at));
  const head = make("span", "place");
  head.append(make("b", "", `Rollout ${index}`), `, step ${withThousands(step)}`);
  if (reward) head.append(make("span", "reward", `reward ${visible(reward)}`));
  row.append(head);
  if (words) row.append(make("span", "words", visible(words)));
  return row;
}

function showRollout(page, at) {
  unpackRollout(page, at).catch(sayWhyNot);
}

/** What a browser without the means to unpack says, or data that are damaged. */
function sayWhyNot(error) {
  document.getElementById("where").textContent = `can't be shown: ${error.message}`;
}

/** Shows the rollout at a place of the list, if there is one, by tokens or text as was chosen last. */
async function unpackRollout(page, at) {
  if (at < 0 || at >= page.rollouts.length) return;
  page.at = at;
  page.rows.forEach((row, other) => row.setAttribute("aria-current", String(other === at)));
  page.rows[at].scrollIntoView({ block: "nearest" });
  document.getElementById("previous").disabled = at === 0;
  document.getElementById("next").disabled = at === page.rollouts.length - 1;
  document.getElementById("where").textContent = `${withThousands(at + 1)} of ${withThousands(page.rollouts.length)}`;
  const asked = ++page.asked;
  const { data, first } = page.rollouts[at];
  const tables = unpackedTables(await bytesOf(document.getElementById(data[page.read] ?? data[first])));
  // A key that is held opens many; the last one is what is wanted.
  if (asked !== page.asked) return;
  page.drawn = { ...tables, view: { ...tables.view, ...page.choices } };
  mount(page);
}

function mount(page) {
  mountReader({
    data: page.drawn,
    parentElement: page.host,
    setStateValue: (name, { value }) => {
      if (OUTLASTING.includes(name)) page.choices[name] = value;
      if (name !== "read") return;
      page.read = value;
      showRollout(page, page.at);
    },
    setTriggerValue: () => {},
  });
}

/** Says whether the data are those that the page was written with. */
async function checkData() {
  const state = document.getElementById("state");
  if (!globalThis.crypto?.subtle) {
    state.textContent = "data can't be checked in this browser";
    return;
  }
  const texts = [...document.querySelectorAll("script.data")].map((element) => element.textContent);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(texts.join("\n")));
  const hash = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const isSame = hash === document.getElementById("hash").textContent;
  state.textContent = isSame ? "data unchanged" : "data changed since the page was written";
  state.classList.toggle("wrong", !isSame);
}

openPage().catch(sayWhyNot);
checkData();
