"""Saved views: choices of a page under a name, in views.jsonl beside the indexes of a root.

A view is what a URL would say of the choices. A line sets the views that it names; None takes one away.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from board.core.natural_order import natural_order
from board.core.texts.one_line import one_line
from board.errors import ChoiceError
from board.formats.io.locations import Location
from board.index.shared_files import append_lines, lines_of, places_for

FILE: Final = "views.jsonl"
LONGEST_NAME: Final = 60
LONGEST_QUERY: Final = 16_000
"""Characters."""
MOST_VIEWS: Final = 200
"""Of a page."""


def read_views(root: Location, page: str) -> dict[str, str]:
    """The views of a page by name, each as the query of a URL."""
    changes = [*_changes(root, page)]
    views: dict[str, str] = {}
    for _, named in sorted(changes, key=lambda change: change[0]):
        for name, query in named.items():
            views.pop(name, None)
            if query is not None:
                views[name] = query
    names = sorted(views, key=natural_order)[:MOST_VIEWS]
    return {name: views[name] for name in names}


def write_views(
    root: Location, page: str, changes: Mapping[str, str | None], *, new: str = ""
) -> None:
    """Sets views of a page, all or none; None takes one away. new: a name that must not be taken.

    Raises ChoiceError where a name or a query can't be one, and where nothing can be written.
    """
    for name, query in changes.items():
        if not name or name != tidied(name):
            raise ChoiceError(f"a view needs a name of at most {LONGEST_NAME} characters")
        if query is not None and len(query) > LONGEST_QUERY:
            raise ChoiceError("this filter is too long to be saved in a view")

    def check() -> None:
        views = read_views(root, page)
        if new in views:
            raise ChoiceError(f"there is a view {new!r} already")
        if len({**views, **{n: q for n, q in changes.items() if q is not None}}) > MOST_VIEWS:
            raise ChoiceError(f"a page has at most {MOST_VIEWS} views: delete one first")

    newest = max((moment for moment, _ in _changes(root, page)), default=0.0)
    # Never older than the line before, whatever the clocks of other machines say.
    moment = max(time.time(), newest + 1e-3)
    line = {"time": moment, "page": page, "views": dict(changes)}
    append_lines(places_for(root, FILE), json.dumps(line).encode() + b"\n", check=check)


def tidied(name: str) -> str:
    """A name as a view has it: on one line, cut."""
    return one_line(" ".join(name.split()), LONGEST_NAME)


def _changes(root: Location, page: str) -> Iterator[tuple[float, dict[str, str | None]]]:
    """The time of each line of a page, and the views that it sets."""
    for line in lines_of(places_for(root, FILE)):
        try:
            document: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(document, dict):
            continue
        entry = cast("dict[str, Any]", document)
        moment, views = entry.get("time"), entry.get("views")
        if entry.get("page") != page or not isinstance(views, dict):
            continue
        if not isinstance(moment, int | float) or not 0 <= moment < float("inf"):
            continue
        named = cast("dict[str, Any]", views).items()
        yield float(moment), {n: q for n, q in named if _is_view(n, q)}


def _is_view(name: str, query: Any) -> bool:
    is_query = query is None or (isinstance(query, str) and len(query) <= LONGEST_QUERY)
    return bool(name) and name == tidied(name) and is_query
