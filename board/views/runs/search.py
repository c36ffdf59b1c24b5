"""Which rows of the table of runs are shown: words, or an expression over what stands in the table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from board.analysis.run_summary import RunSummary
from board.components.run_table import RunRow
from board.errors import ExpressionError
from board.query.run_filter import matching
from board.views.runs.settings import setting_text, short_names

_EXPRESSION: Final = re.compile(r"[<>=]|\b(?:contains|missing|in)\b\s*[(\"']", re.IGNORECASE)
"""What no name of a run has, but an expression."""


class Searched(NamedTuple):
    """Places of the rows that are found, and why the text can't be read, where it can't."""

    places: list[int]
    refused: str = ""


def search(rows: Sequence[RunRow], summaries: Sequence[RunSummary | None], text: str) -> Searched:
    """The rows that a text means: all words in name, format and settings, or an expression that holds."""
    everything = [*range(len(rows))]
    if not text.strip():
        return Searched(everything)
    if _EXPRESSION.search(text) is None:
        words = text.lower().split()
        texts = map(_searched_text, rows, summaries)
        return Searched([n for n, own in enumerate(texts) if all(word in own for word in words)])
    try:
        return Searched(matching(_values(rows, summaries), text))
    except ExpressionError as error:
        meant = f"; did you mean {error.instead}?" if error.instead else ""
        return Searched(everything, f"This filter can't be read: {error}{meant}")


def _searched_text(row: RunRow, summary: RunSummary | None) -> str:
    parts = [row.name, str(row.cells["format"].get("text", ""))]
    if summary is not None:
        parts += [f"{path}={setting_text(value)}" for path, value in summary.settings.items()]
    return "\n".join(parts).lower()


def _values(
    rows: Sequence[RunRow], summaries: Sequence[RunSummary | None]
) -> list[Mapping[str, Any]]:
    """By name what expressions are about: settings by path and by last part, and what has a column."""
    paths = dict.fromkeys(path for one in summaries if one is not None for path in one.settings)
    short = short_names(paths)
    values: list[Mapping[str, Any]] = []
    for row, summary in zip(rows, summaries, strict=True):
        own: dict[str, Any] = {}
        if summary is not None:
            for path, value in summary.settings.items():
                own[path] = own[short[path]] = value
            means = {"reward": summary.reward, "kl": summary.kl, "truncated": summary.truncated}
            own |= {name: None if mean is None else mean.mean for name, mean in means.items()}
            own |= {"steps": summary.steps, "rollouts": summary.rollouts}
            own["problems"] = summary.lost + summary.partial
            own["finding"] = "" if summary.finding is None else summary.finding[1]
        own |= {"name": row.name, "state": row.state, "format": row.cells["format"].get("text")}
        values.append(own)
    return values
