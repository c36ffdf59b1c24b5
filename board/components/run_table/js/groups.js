// Runs that are one row until it is unfolded.

const keyOf = (row) => row.name;
const isGroup = (row) => Boolean(row.members);

/** The names of the runs that a row stands for. */
function runsOf(view, row) {
  return isGroup(row) ? row.members.map((place) => view.data.rows[place].name) : [row.name];
}

/** Rows in their order: groups and runs of none, and below each unfolded group its runs. */
function foldedRows(view) {
  const { rows, groups, visible } = view.data;
  view.parents = new Map();
  for (const group of groups) for (const place of group.members) view.parents.set(rows[place].name, group);
  const single = visible.map((place) => rows[place]).filter(({ name }) => !view.parents.has(name));
  return sortedRows(view, [...groups, ...single]).flatMap((row) => {
    if (!isGroup(row) || !view.unfolded.has(row.name)) return [row];
    const members = row.members.map((place) => rows[place]);
    return [row, ...sortedRows(view, members)];
  });
}

/** Shows or hides the runs of a group. */
function fold(view, group, isOpen = !view.unfolded.has(group.name)) {
  if (isOpen) view.unfolded.add(group.name);
  else view.unfolded.delete(group.name);
  view.cursor = group.name;
  draw(view);
  remember(view);
}

/** The row that keys fold: the group that the cursor is at or in. */
function groupAt(view) {
  return view.data.groups.find(({ name }) => name === view.cursor) ?? view.parents.get(view.cursor);
}

function groupNameCell(view, cell, group) {
  const words = make("div", "words");
  const name = make("span", "run-name");
  fillName(name, group.label);
  words.append(name, " ", make("small", "", group.about));
  cell.append(make("span", "fold"), markOf(group.state, group.words), words);
}
