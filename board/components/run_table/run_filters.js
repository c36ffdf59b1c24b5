// Filters of the table of runs: a click chooses a value, another one takes it back.

const FILTERS = new WeakMap();

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".filters");
  const view = FILTERS.get(root) ?? { root, data: null, rerun: null };
  FILTERS.set(root, view);
  view.data = data;
  root.replaceChildren(...data.groups.map((group) => groupOf(view, group)));
  return () => clearTimeout(view.rerun);
}

function groupOf(view, group) {
  const element = make("div", "filter-group");
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", group.title);
  element.append(make("div", "title", group.title), ...group.options.map((option) => optionOf(view, group, option)));
  return element;
}

function optionOf(view, group, option) {
  const row = makeButton("option");
  row.setAttribute("role", "checkbox");
  row.setAttribute("aria-checked", String(option.chosen));
  const tick = make("span", "tick");
  row.append(tick);
  if (option.mark) row.append(markOf(option.mark));
  row.append(make("span", "label", option.label), make("span", "count", option.count.toLocaleString("en-US")));
  row.onclick = () => {
    option.chosen = !option.chosen;
    row.setAttribute("aria-checked", String(option.chosen));
    const chosen = group.options.filter((one) => one.chosen).map((one) => one.value);
    changeUrl(view, { [group.parameter]: listText(chosen) });
  };
  return row;
}
