"""Groups with fewer rollouts than is usual: some were filtered, dropped, or are not logged.

Usual at a step, for one split and environment, is the largest size that at least two groups and a tenth
of all have; where no size is, the most frequent one of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from board.core.problems import RUN_ITSELF, Problem
from board.query.open_run import Run

_LEAST_SHARE: Final = 0.1
_SIZES: Final = """
WITH sizes AS (
    SELECT step, {split} AS split, min({env}) AS env, count(*) AS size FROM {view}
    WHERE {condition} AND group_id IS NOT NULL GROUP BY step, split, group_id),
counts AS (
    SELECT step, split, env, size, count(*) AS n, sum(count(*)) OVER (PARTITION BY step, split, env) AS of
    FROM sizes GROUP BY step, split, env, size),
of_run AS (
    SELECT split, env, size AS usual FROM counts GROUP BY split, env, size
    QUALIFY row_number() OVER (PARTITION BY split, env ORDER BY sum(n) DESC, size DESC) = 1),
of_step AS (
    SELECT step, split, env, max(size) FILTER (n >= 2 AND n >= {share} * of) AS usual
    FROM counts GROUP BY step, split, env)
SELECT step, CAST(sum(n) AS BIGINT) AS groups,
    CAST(coalesce(sum(n) FILTER (size < coalesce(of_step.usual, of_run.usual)), 0) AS BIGINT)
        AS incomplete,
    max(coalesce(of_step.usual, of_run.usual)) AS usual
FROM counts JOIN of_step USING (step, split, env) JOIN of_run USING (split, env)
GROUP BY step ORDER BY step
"""


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """The groups of some steps: how many there are, how many are incomplete, and the usual size.

    by_step: of each step the same three.
    """

    by_step: dict[int, tuple[int, int, int]]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return sum(groups for groups, _, _ in self.by_step.values())

    @property
    def incomplete(self) -> int:
        """How many of them have fewer rollouts than is usual."""
        return sum(incomplete for _, incomplete, _ in self.by_step.values())

    @property
    def worst(self) -> int:
        """The step with the most incomplete groups."""
        return max(self.by_step, key=lambda step: self.by_step[step][1])

    @property
    def summary(self) -> str:
        """As `6 of 8 groups are incomplete`."""
        verb = "is" if self.incomplete == 1 else "are"
        return f"{self.incomplete:,} of {self.groups:,} groups {verb} incomplete"

    @property
    def details(self) -> str:
        """Where most of them are, and how many rollouts are usual there."""
        groups, incomplete, usual = self.by_step[self.worst]
        where = f"at step {self.worst} {incomplete} of {groups}"
        return f"they have fewer rollouts than is usual: {where} have less than {usual}"


def group_sizes(run: Run) -> GroupSizes | None:
    """The sizes of all groups of a run, however it is narrowed; None without any. Raises
    UnreadableError.
    """
    run = run.whole or run
    if "group_id" not in run.columns or not run.counts:
        return None
    sizes = run.remembered("group sizes", lambda: _group_sizes(run))
    return sizes if sizes.groups else None


def _group_sizes(run: Run) -> GroupSizes:
    table = run.table(
        _SIZES.format(
            split=run.split_value,
            env=f"coalesce({run.column('env')}, '')" if "env" in run.columns else "''",
            view=run.view,
            condition=run.condition,
            share=_LEAST_SHARE,
        )
    )
    names = ("step", "groups", "incomplete", "usual")
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return GroupSizes({step: (groups, few, usual) for step, groups, few, usual in rows})


def incomplete_groups(run: Run) -> tuple[Problem, ...]:
    """A note where groups of a run are incomplete."""
    sizes = group_sizes(run)
    if sizes is None or not sizes.incomplete:
        return ()
    note = (sizes.summary, sizes.details, "note", sizes.incomplete)
    return (Problem(RUN_ITSELF, None, "group_id", *note),)
