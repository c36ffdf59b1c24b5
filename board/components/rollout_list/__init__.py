"""The list of rollouts: one page of its rows, beside the rollout that is open.

The URL says what is sorted, shown and open; the script changes it and lets Streamlit follow, as on a
press of Back. Rollouts that are likely to be opened next are sent ahead: the reader draws what waits
under the address that a key opens, before the page has rerun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple

from board.components import declare

_SCRIPTS: Final = ("values", "columns", "address", "rows", "moves", "list")
MOST_WAITING: Final = 6
"""Rollouts sent ahead that the browser keeps; the one that was sent first goes first."""


class Address(NamedTuple):
    """A rollout: its step, and its index within the step."""

    step: int
    index: int


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of the list.

    width: pixels; of a text the least. worth: the lower, the sooner it is shown where not all fit.
    kind: "bar" is a number with a bar from `low` to `high`; "words" is a long text, which grows.
    """

    name: str
    label: str
    help: str
    width: int
    worth: int
    kind: Literal["number", "bar", "text", "words"] = "number"
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True, slots=True)
class ListPage:
    """Some rollouts that follow each other in the list.

    values: [rows][columns], None where not recorded. words: [rows] for a second line; None: there is
    none. first: place in the list of the first row, from 0. total: rollouts of the whole list. before,
    after: the rollouts that the page lies between, if any.
    """

    columns: Sequence[ListColumn]
    addresses: Sequence[Address]
    values: Sequence[Sequence[Any]]
    words: Sequence[str] | None
    first: int
    total: int
    size: int
    before: Address | None = None
    after: Address | None = None


@dataclass(frozen=True, slots=True)
class ListState:
    """What is chosen, as the URL says it.

    identity: names the list, to come back to the same place in it. parameters: names of all that a URL
    may hold, in their order. fits: whether columns without room are left out; else the list scrolls
    sideways. prefix: of addresses of rollouts sent ahead, before "/step/index". run, received: as of
    `board.components.reader.frame.LabelRow`. answered: ids of changes of the URL that were known.
    """

    identity: str
    sort: str
    descending: bool
    opened: Address | None
    parameters: Sequence[str]
    fits: bool
    prefix: str
    run: str = ""
    received: Sequence[str] = ()
    answered: Sequence[str] = ()


_COMPONENT = declare(
    __file__,
    "rollout_list",
    '<div class="list" data-keys></div>',
    js=(
        "../url.js",
        "../rerun.js",
        "../elements.js",
        "../keys.js",
        "../outbox.js",
        *(f"js/{name}.js" for name in _SCRIPTS),
    ),
)
_AHEAD = declare(__file__, "rollout_ahead", "<i></i>", css=(), js=["ahead.js"])


def rollout_list(page: ListPage, state: ListState, *, key: str) -> None:
    """Draws a page of the list. Sorting, paging and opening a rollout change the URL and rerun."""
    _COMPONENT(key=key, data={"page": asdict(page), **asdict(state)})


def send_ahead(address: str, rollout: Mapping[str, Any], *, key: str) -> None:
    """Sends a rollout's data, as `board.components.reader.reader_data` makes it. Draws nothing."""
    _AHEAD(key=key, data={**rollout, "address": address, "most": MOST_WAITING})
