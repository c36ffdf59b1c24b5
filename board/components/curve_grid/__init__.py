"""The curves of a run, many charts at once: light enough to be there as soon as the page is.

The charts of a call are one element, drawn with uPlot (MIT, beside this file with its licence); zoom and
hidden lines stay while a run grows. All calls of a page share the pointed step and the zoom.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from board.components import declare, json_bytes, reruns

_BAR_SCRIPTS: Final = ("words", "page", "bar")
_SCRIPTS: Final = ("words", "page", "axis", "marks", "dots", "plot", "save", "grid")


@dataclass(frozen=True, slots=True)
class Card:
    """A chart and what is around it, as plain text. key: names it among the others. chart: of
    `board.charts.curves.light`. help: lines. notes: shown above those of the chart.
    """

    key: str
    title: str
    chart: Mapping[str, Any]
    unit: str = ""
    help: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on the axis of steps. words: shown on hover, as text. id: what a click on it reports."""

    step: int
    kind: Literal["resumed", "finding", "evaluation"]
    words: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class LineName:
    """An entry of the legend of a page. ink: a CSS colour; dash: plotly's word for it."""

    name: str
    ink: str
    dash: str


class Click(NamedTuple):
    """A step of a chart that was clicked; line: the `group` of the line it was nearest to. dot: the id of
    the dot, if it was one. mark: instead of a chart's point, a mark.
    """

    chart: str
    step: int
    line: int = 0
    dot: int | None = None
    mark: Mark | None = None


_GRID = declare(
    __file__,
    "curve_grid",
    '<div class="curves"></div>',
    css=["uplot/uPlot.min.css", "curve_grid.css", "marks.css"],
    js=[
        *("uplot/uPlot.iife.min.js", "../elements.js", "../unpacked.js", "../rerun.js"),
        *(f"js/{name}.js" for name in _SCRIPTS),
    ],
)
_BAR = declare(
    __file__,
    "curve_bar",
    '<div class="bar"></div>',
    css=["bar.css", "marks.css"],
    js=("../elements.js", "../rerun.js", *(f"js/{name}.js" for name in _BAR_SCRIPTS)),
)


def curve_grid(
    cards: Sequence[Card],
    *,
    step: int | None,
    key: str,
    across: int = 2,
    marks: Sequence[Mark] = (),
    one_legend: bool = False,
) -> Click | None:
    """Draws charts `across` abreast, `step` marked in each; the click that led to this run, if one did.

    The zoom is in the URL (`steps`). one_legend: the names of all lines above the charts, which have none
    of their own. Each can be saved as CSV, of the numbers drawn, and as PNG. key: by place and run.
    """
    ordered = sorted(marks, key=lambda mark: mark.step)
    common = {"step": step, "across": across, "one_legend": one_legend}
    data = _written({**common, "marks": [asdict(mark) for mark in ordered]}, cards)
    result: Any = _GRID(key=_key("curves", key), data=data, **reruns("clicked", "opened"))
    if opened := result.opened:
        known = {(mark.kind, mark.id, mark.step): mark for mark in ordered}
        mark = known.get((opened["kind"], str(opened["id"]), int(opened["step"])))
        return None if mark is None else Click("", mark.step, mark=mark)
    if not (clicked := result.clicked):
        return None
    line, dot = str(clicked.get("line", "")), clicked.get("dot")
    return Click(
        str(clicked["chart"]),
        int(clicked["step"]),
        int(line) if line.isdecimal() else 0,
        dot if isinstance(dot, int) else None,
    )


def curve_bar(
    first: int, last: int, *, key: str, marks: Sequence[Mark] = (), lines: Sequence[LineName] = ()
) -> None:
    """A line above the curves of a page: what their lines and marks are, the steps shown, the way back
    from a zoom. first, last: steps of the run.
    """
    kinds = sorted({mark.kind for mark in marks})
    data = {"first": first, "last": last, "kinds": kinds, "lines": [asdict(one) for one in lines]}
    _BAR(key=_key("bar", key), data=data, height="content")


def _key(place: str, name: str) -> str:
    """Names of runs may hold what Streamlit does not accept in a component's key."""
    return f"{place}-{zlib.crc32(name.encode('utf-8', 'replace')):08x}"


def _written(common: Mapping[str, Any], cards: Sequence[Card]) -> bytes:
    """A line of JSON for what all charts have in common, and the charts behind it, packed one by one: a
    browser takes a megabyte in many pieces. `charts`: of each its sign, and how many bytes it has.
    """
    packed = [_packed(json_bytes(_plain(card))) for card in cards]
    signs = [(sign, len(chart)) for sign, chart in packed]
    return b"".join(
        [json_bytes({**common, "charts": signs}), b"\n", *(chart for _, chart in packed)]
    )


@lru_cache(maxsize=64)
def _packed(chart: bytes) -> tuple[str, bytes]:
    """A chart's sign and its bytes. Cached: it stays as it is from one run of a page to the next."""
    return hashlib.blake2b(chart, digest_size=12).hexdigest(), zlib.compress(chart, level=1)


def _plain(card: Card) -> dict[str, Any]:
    """A card's fields; dataclasses.asdict would copy every number of its chart."""
    notes = [*card.notes, *card.chart.get("notes", ())]
    return {**{one.name: getattr(card, one.name) for one in fields(card)}, "notes": notes}
