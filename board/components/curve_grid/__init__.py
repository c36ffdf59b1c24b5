"""The curves of a run, many charts at once: light enough to be there as soon as the page is.

All charts of a page are one element. The script draws them with uPlot (MIT, beside this file with its
licence) on a canvas each; zoom and hidden lines stay while a run grows, and another step moves one line.
Names and texts go onto the page as text nodes only.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from streamlit.components.v2 import component

__all__ = ["Card", "Picked", "curve_grid"]

_FOLDER: Final = Path(__file__).parent
# Declarations first, the entry point last; all parts share one module scope.
_SCRIPTS: Final = (
    "uplot/uPlot.iife.min.js",
    "js/words.js",
    "js/plot.js",
    "js/save.js",
    "js/grid.js",
)
_STYLES: Final = ("uplot/uPlot.min.css", "curve_grid.css")


@dataclass(frozen=True, slots=True)
class Card:
    """A chart and what stands around it, as plain text.

    key: names the chart among the others. chart: of `board.charts.light.light`. help: lines.
    """

    key: str
    title: str
    chart: Mapping[str, Any]
    unit: str = ""
    help: Sequence[str] = ()
    notes: Sequence[str] = ()


class Picked(NamedTuple):
    """A step of a chart that was clicked; line: the `group` of the line it was nearest to."""

    chart: str
    step: int
    line: int = 0


def _joined(names: Sequence[str]) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


_COMPONENT = component(
    "rollout_board_curve_grid",
    html='<div class="curves"></div>',
    css=_joined(_STYLES),
    js=_joined(_SCRIPTS),
    isolate_styles=True,
)


def curve_grid(
    cards: Sequence[Card], *, step: int | None, key: str, across: int = 2
) -> Picked | None:
    """Draws charts `across` abreast, `step` marked in each; the click that led to this run, if one did.

    Each can be saved as CSV, with the numbers that are drawn, and as PNG. key: one per place and run;
    what the reader zoomed to is kept under it.
    """
    # Names of runs may hold what Streamlit takes for its own in a component's key.
    name = f"curves-{zlib.crc32(key.encode('utf-8', 'replace')):08x}"
    clicked: Any = _COMPONENT(
        key=name, data=_written(step, across, cards), on_picked_change=_nothing
    ).picked
    if not clicked:
        return None
    line = str(clicked.get("line", ""))
    return Picked(str(clicked["chart"]), int(clicked["step"]), int(line) if line.isdecimal() else 0)


def _written(step: int | None, across: int, cards: Sequence[Card]) -> bytes:
    """A line of JSON for what all charts have in common, and the charts behind it, packed one by one.

    A browser takes a message of a megabyte in many pieces, between everything else that a new page asks
    of it: a fifth of that is there sooner. `charts`: of each its sign, by which the script tells that it
    is what it was, and how many bytes it has.
    """
    charts = [_packed(_json(_plain(card))) for card in cards]
    signs = [(sign, len(packed)) for sign, packed in charts]
    common = orjson.dumps({"step": step, "across": across, "charts": signs})
    return b"".join([common, b"\n", *(packed for _, packed in charts)])


@lru_cache(maxsize=64)
def _packed(told: bytes) -> tuple[str, bytes]:
    """A chart's sign and its bytes. Kept: it stays as it is from one run of a page to the next."""
    return hashlib.blake2b(told, digest_size=12).hexdigest(), zlib.compress(told, level=1)


def _json(told: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(told)
    except (
        TypeError
    ):  # half a sign of two parts, which a log may hold: Python's writes it as an escape
        return json.dumps(told).encode("ascii")


def _plain(card: Card) -> dict[str, Any]:
    """A card's fields; dataclasses.asdict would copy every number of its chart."""
    return {one.name: getattr(card, one.name) for one in fields(card)}


def _nothing() -> None:
    """A trigger of the component exists only with a callback; the rerun itself is all we need."""
