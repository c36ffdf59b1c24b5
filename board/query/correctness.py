"""Which rollouts of a run are right: a part of the reward says so, else the reward itself."""

from __future__ import annotations

from typing import Final

from board.core.groups.statistics import right_part
from board.core.metrics.definitions import REWARD_PART
from board.query.run import Run

_BY_PART: Final = """
    count(score) AS judged,
    count(*) FILTER (score = highest AND (lowest < highest OR highest > 0)) AS "right\""""
"""The highest score of the run is right. One of 0 or less throughout was never earned by any."""
_BY_REWARD: Final = """
    count(*) FILTER (lowest < highest AND score IN (lowest, highest)) AS judged,
    count(*) FILTER (lowest < highest AND score = highest) AS "right\""""
"""The highest reward of the run is right and the lowest wrong; between them nothing is known."""


def right_column(run: Run) -> str | None:
    """The column of the reward part that says whether an answer is right; None where none does."""
    parts = [c.removeprefix(REWARD_PART) for c in run.columns if c.startswith(REWARD_PART)]
    found = right_part(parts)
    return None if found is None else f"{REWARD_PART}{found}"


def counts_of_right(run: Run) -> str:
    """SQL that counts rollouts as `judged` and `right`, by their `score` (of `right_column`, else the
    reward) and the `lowest` and `highest` score of the run.
    """
    return _BY_REWARD if right_column(run) is None else _BY_PART
