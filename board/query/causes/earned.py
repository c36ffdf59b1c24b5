"""What a rollout earned, and from where on it was paid.

That is its reward, or the sum of its parts in a log that has these alone. Unpaid is what has the lower of
the two rewards that most rollouts have, or less: a bonus for the format lifts failures above the lowest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from board.core.groups.right import right_rule
from board.core.metrics.definitions import REWARD_PART
from board.index.segments import NUMBER
from board.query.database import quoted

_MOST_VALUES: Final = 64
_MOST_DIFFERENT: Final = 100_000
"""Of more rewards two are never those of most rollouts, and to count each takes seconds."""
_USUAL: Final = 0.5
"""A part of the reward is missing where at least this share of the rollouts has it."""


@dataclass(frozen=True, slots=True)
class Earned:
    """value: SQL for what a rollout earned, NULL where it or a usual part of it is missing; empty where
    the log has no rewards. floor: nobody was paid who earned no more. said: how evidence names it.
    """

    value: str = ""
    floor: float = 0.0
    said: str = "reward"

    @property
    def or_nothing(self) -> str:
        """SQL for the same, NULL also where the log has no rewards."""
        return self.value or "CAST(NULL AS DOUBLE)"

    @property
    def is_paid(self) -> str:
        """SQL for whether a rollout was paid; NULL where that is not known."""
        return f"{self.or_nothing} > {self.floor!r}"


def earned_in(read: Callable[[str], pa.Table], view: str, names: Collection[str]) -> Earned:
    """What rollouts earned. view, names: of the run's rows and columns."""
    value, said = _value(read, view, names)
    if not value:
        return Earned()
    (ends,) = read(f"""
        SELECT min(value) AS low, max(value) AS high, count(value) AS scored,
            approx_count_distinct(value) AS different
        FROM (SELECT {value} AS value FROM {view})""").to_pylist()
    low, high = ends["low"], ends["high"]
    if low is None or low == high:
        return Earned(value, 0.0, said)
    counts: dict[float, int] = {}
    if ends["different"] <= _MOST_DIFFERENT:
        table = read(f"""
            SELECT {value} AS value, count(*) AS rollouts FROM {view} GROUP BY value
            HAVING isfinite(value) ORDER BY rollouts DESC, value DESC LIMIT {_MOST_VALUES}""")
        counts = {row["value"]: row["rollouts"] for row in table.to_pylist()}
    rule = right_rule("reward", counts, ends["scored"])
    if math.isnan(rule.right_from):
        return Earned(value, max(low, 0.0), said)
    floor = max(rule.wrong_to, 0.0) if rule.right_from > 0 else rule.wrong_to
    return Earned(value, floor, said)


def _value(read: Callable[[str], pa.Table], view: str, names: Collection[str]) -> tuple[str, str]:
    """SQL for what a rollout earned, and its name in evidence."""
    if "reward" in names:
        return "nullif(reward, 'nan'::DOUBLE)", "reward"
    stored = sorted(name for name in names if name.startswith(NUMBER + REWARD_PART))
    if not stored:
        return "", ""
    values = [f"nullif({quoted(name)}, 'nan'::DOUBLE)" for name in stored]
    counted = ", ".join(f"count({value}) AS p{place}" for place, value in enumerate(values))
    (counts,) = read(f"SELECT count(*) AS rollouts, {counted} FROM {view}").to_pylist()
    least = _USUAL * counts["rollouts"]
    terms = [
        value if counts[f"p{place}"] >= least else f"coalesce({value}, 0)"
        for place, value in enumerate(values)
    ]
    total = f"CASE WHEN coalesce({', '.join(values)}) IS NOT NULL THEN {' + '.join(terms)} END"
    return f"({total})", "sum of reward parts"
