"""The table of all runs, and the filters beside it: rows are sorted, searched, ticked and opened.

The URL says what is sorted, searched, ticked and filtered. The scripts change it and let Streamlit
follow, as on a press of Back; the table itself shows a change at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypedDict

from board.components import declare, json_bytes, reruns

_SCRIPTS: Final = ("page", "head", "cells", "rows", "groups", "ticks", "keys", "table")
MOST_TICKED: Final = 32
"""As many as have a colour or a dash of their own in a chart."""


class Cell(TypedDict, total=False):
    """A value in a row. Nothing of it is markup.

    text: as it is read. sort: what the column is sorted by, null last. note: small, behind the text.
    tone, noteTone: a word for the colour: good, bad, severe, warning, lead, missing. help: on hover.
    line: points from left to right, x and y in turn, in a box of LINE_WIDTH by LINE_HEIGHT; lines:
    several of them. at: Unix seconds of an age, whose text is put before it. n: rollouts of a mean.
    """

    text: str
    sort: float | str | None
    note: str
    tone: str
    noteTone: str
    help: str
    line: Sequence[int]
    lines: Sequence[Sequence[int]]
    at: float
    n: int


LINE_WIDTH: Final = 100
LINE_HEIGHT: Final = 40


@dataclass(frozen=True, slots=True)
class RunColumn:
    """A column. width: pixels. kind: "line" has a number and a line in `ink`; "age" is a time, shown
    as how long ago. group: words above neighbours that have the same, of which there could be so many
    (of; 0: no more than there are). roomy: left out of a narrow table. spare: left out, the last first,
    where the table has no room for all.
    """

    name: str
    label: str
    help: str
    width: int
    kind: Literal["name", "text", "number", "line", "chip", "age"] = "number"
    group: str = ""
    ink: str = ""
    of: int = 0
    roomy: bool = False
    spare: bool = False


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run. label: its name as it is shown. state: live, ended, stale, unchanged, waiting, reading or
    error; words: the same with since when. waits: what is said where nothing is known yet; then the
    missing cells are drawn as skeletons. is_old: the values are of files that changed since.
    """

    name: str
    label: str
    state: str
    words: str
    cells: Mapping[str, Cell]
    waits: str = ""
    error: str = ""
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that are one row until it is unfolded. name: no run's name. label: what their names share.
    members: their places among the rows. about: how many there are. state, words, cells: as of RunRow.
    """

    name: str
    label: str
    about: str
    members: Sequence[int]
    state: str
    words: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class TableContent:
    """All rows, and which of them are shown, by their places; columns: the name is the first. groups: of
    the rows that are shown, none of which is in two.

    search: text of the field; refused: why it can't be read; example: a filter that can. ticked: names in
    the order of their colours, CSS; differ: in which settings they do. parameters: names of everything a
    URL may hold, in the order in which pages write them. empty: what is said where no row is shown.
    """

    columns: Sequence[RunColumn]
    rows: Sequence[RunRow]
    visible: Sequence[int]
    sort: str
    descending: bool
    ticked: Sequence[str]
    colours: Sequence[str]
    differ: str
    search: str
    refused: str
    example: str
    parameters: Sequence[str]
    groups: Sequence[RunGroup] = ()
    empty: str = "No run matches."


@dataclass(frozen=True, slots=True)
class FilterOption:
    """A value to filter by. mark: the state or severity whose shape stands before it."""

    value: str
    label: str
    count: int
    chosen: bool
    mark: str = ""


@dataclass(frozen=True, slots=True)
class FilterGroup:
    """Options of one parameter of the URL."""

    parameter: str
    title: str
    options: Sequence[FilterOption] = field(default_factory=list[FilterOption])


@dataclass(frozen=True, slots=True)
class Asked:
    """What a click asks for: these runs on a page. page: overview, findings or compare."""

    page: str
    runs: Sequence[str]


_TABLE = declare(
    __file__,
    "run_table",
    '<div class="runs" data-keys></div>',
    css=["marks.css", "run_table.css"],
    js=(
        "../url.js",
        "../rerun.js",
        "../elements.js",
        "../keys.js",
        "../unpacked.js",
        *(f"js/{name}.js" for name in _SCRIPTS),
    ),
)
_FILTERS = declare(
    __file__,
    "run_filters",
    '<div class="filters"></div>',
    css=["marks.css", "run_filters.css"],
    js=("../url.js", "../rerun.js", "../elements.js", "js/page.js", "run_filters.js"),
)


def run_table(content: TableContent, *, key: str) -> Asked | None:
    """Draws the table; what was opened or is to be compared, if something is."""
    data = {
        **{name: getattr(content, name) for name in content.__dataclass_fields__},
        "columns": [asdict(column) for column in content.columns],
        "rows": [_plain(row) for row in content.rows],
        "groups": [_plain(group) for group in content.groups],
        "most": MOST_TICKED,
    }
    packed = zlib.compress(json_bytes(data), level=1)
    asked: Any = _TABLE(key=key, data=packed, **reruns("asked")).asked
    if not isinstance(asked, dict):
        return None
    return Asked(str(asked.get("page")), [str(name) for name in asked.get("runs") or ()])


def run_filters(groups: Sequence[FilterGroup], parameters: Sequence[str], *, key: str) -> None:
    """Draws the filters. parameters: as of TableContent."""
    data = {"groups": [asdict(group) for group in groups], "parameters": [*parameters]}
    _FILTERS(key=key, data=data, height="content")


def _plain(row: RunRow | RunGroup) -> dict[str, Any]:
    """The fields of a row; dataclasses.asdict would copy every number of its lines."""
    return {name: getattr(row, name) for name in row.__dataclass_fields__}
