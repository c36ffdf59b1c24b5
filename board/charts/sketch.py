"""What would be a plotly figure, as plain data: for charts that no page gives to plotly.

A figure of plotly checks and copies each thing that it is told; for the light charts of a first page that
took as long as all else. A sketch is told the same things by the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go


class Words(dict[str, Any]):
    """A mapping whose entries are attributes too, those within each other as well; None where absent."""

    def __getattr__(self, name: str) -> Any:
        value = self.get(name)
        return Words(value) if isinstance(value, dict) else value


class Sketch:
    """Layout and traces, put together by the methods of a figure of one pair of axes."""

    def __init__(self, layout: Mapping[str, Any]) -> None:
        self.layout = Words(layout)
        self.data: list[Words] = []

    def add_traces(self, data: Iterable[Mapping[str, Any]]) -> None:
        """Adds traces of the kind scatter."""
        self.data += map(Words, data)

    def update_layout(self, changes: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Changes what is named, at any depth, and keeps the rest."""
        self.layout = Words(_merged(self.layout, {**(changes or {}), **more}))

    def update_xaxes(self, **changes: Any) -> None:
        """Changes the axis below."""
        self.update_layout(xaxis=changes)

    def update_yaxes(self, **changes: Any) -> None:
        """Changes the axis at the side."""
        self.update_layout(yaxis=changes)


Drawing = go.Figure | Sketch


def _merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for name, value in changes.items():
        previous: Any = merged.get(name)
        both = isinstance(previous, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(previous, value) if both else value
    return merged
