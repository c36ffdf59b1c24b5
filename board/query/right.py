"""Which rollouts of a run, or of runs that are compared, are right: one rule for all of them, as SQL."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from board.core.groups.right import RightRule, right_rule
from board.core.groups.statistics import correctness_column
from board.core.metrics.shares import of_many
from board.query.run import Run

_MOST_VALUES: Final = 64
_IS_RIGHT: Final = "isfinite(score) AND score >= right_from"
_IS_WRONG: Final = "isfinite(score) AND score <= wrong_to"
COUNTS: Final = f"""
    count(*) FILTER ({_IS_RIGHT} OR {_IS_WRONG}) AS graded,
    count(*) FILTER ({_IS_RIGHT}) AS "right\""""
"""SQL that counts rollouts as `graded` and `right`, by their `score` and the columns of `bounds`."""
RIGHT: Final = f"CASE WHEN {_IS_RIGHT} THEN 1.0 WHEN {_IS_WRONG} THEN 0.0 END"
"""SQL for 1 where a rollout is right, 0 where it is wrong and NULL where it is not judged."""


@dataclass(frozen=True, slots=True)
class Judged:
    """By which rule the rollouts of a run are judged. scored: how many have a score; judged: of these."""

    rule: RightRule
    scored: int
    judged: int

    @property
    def text(self) -> str:
        """The rule, and how many rollouts it does not judge, in a sentence."""
        words = f"{self.rule.text[0].upper()}{self.rule.text[1:]}"
        left = self.scored - self.judged
        return f"{words}; {of_many(left, self.scored)} rollouts are not judged" if left else words


def rule_of(run: Run, others: Sequence[Run] = ()) -> RightRule:
    """What is right in a run, and in others that it is compared with: in all of their rollouts, whatever
    part of them is looked at. Raises UnreadableError.

    By the part of the reward that says so (of RIGHT_PARTS) if all of them have it, else by the reward.
    """
    runs = [one.whole or one for one in (run, *others)]
    shared = [name for name in runs[0].columns if all(name in one.columns for one in runs)]
    column = correctness_column(shared) or "reward"
    counts: Counter[float] = Counter()
    scored = 0
    for one in {str(one.info.path): one for one in runs}.values():
        for value, rollouts, every in _score_counts(one, column):
            counts[value] += rollouts
            scored += every
    threshold = next(
        (one.options.right_from for one in runs if one.options.right_from is not None), None
    )
    return right_rule(column, counts, scored, threshold)


def _score_counts(run: Run, column: str) -> list[tuple[float, int, int]]:
    """The most frequent scores, how many rollouts have each, and in the first how many have any."""

    def counted() -> list[tuple[float, int, int]]:
        table = run.table(f"""
            SELECT score, rollouts, sum(rollouts) OVER () AS every FROM (
                SELECT CAST({run.column(column)} AS DOUBLE) AS score, count(*) AS rollouts
                FROM {run.view} WHERE {run.condition} GROUP BY score)
            WHERE isfinite(score) ORDER BY rollouts DESC, score DESC LIMIT {_MOST_VALUES}
        """)
        rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        return [
            (float(score), int(rollouts), 0 if place else int(every))
            for place, (score, rollouts, every) in enumerate(rows)
        ]

    return run.remembered(f"counts of {column}", counted)


def judged(run: Run) -> Judged:
    """By which rule the run's rollouts are judged, and how many. Raises UnreadableError."""
    rule = rule_of(run)
    table = run.table(f"""
        SELECT count(*) FILTER (isfinite(score)) AS scored, {COUNTS}
        FROM (SELECT {score(run, rule)} AS score FROM {run.view} WHERE {run.condition})
        CROSS JOIN ({bounds(rule)})
    """)
    return Judged(rule, table["scored"][0].as_py(), table["graded"][0].as_py())


def score(run: Run, rule: RightRule) -> str:
    """SQL of the score of a rollout."""
    return f"CAST({run.column(rule.column)} AS DOUBLE)"


def bounds(rule: RightRule) -> str:
    """SQL of a row with `right_from` and `wrong_to`; NULL where nothing is judged."""
    values = {"right_from": rule.right_from, "wrong_to": rule.wrong_to}
    return "SELECT " + ", ".join(
        f"CAST({'NULL' if math.isnan(value) else repr(str(value))} AS DOUBLE) AS {name}"
        for name, value in values.items()
    )
