"""What rules ask of each step: scores, clock, ranks, reward against length, and copies of rollouts."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.findings.facts import CopiedFile, Copy, StepChecks
from board.query import splits
from board.query.run import Run

_SAME: Final = ("rollout_id", "env", "response_tokens", "reward", "response")
"""What two rollouts of one step, split and id have in common when they are one."""


def step_checks(run: Run) -> StepChecks | None:
    """The checks of all steps; None for a run without rollouts. Raises UnreadableError."""
    if not run.counts:
        return None
    return run.remembered("checks", lambda: _step_checks(run))


def expects_all_ranks(run: Run) -> bool:
    """Whether every rank is to have rollouts at each step: evaluation is often one rank's alone."""
    return run.split is None or splits.is_training(run.split)


def _step_checks(run: Run) -> StepChecks:
    sums = run.table(_sums(run))
    rank = run.column("rank")
    ranks = run.table(f"""
        SELECT DISTINCT step, CAST({rank} AS BIGINT) AS rank FROM {run.view}
        WHERE {run.condition} AND {expects_all_ranks(run)} AND rank IS NOT NULL ORDER BY step, rank
    """)
    return StepChecks(
        **{name: sums[name].to_numpy() for name in sums.column_names},
        rank_steps=ranks["step"].to_numpy(),
        ranks=ranks["rank"].to_numpy(),
    )


def _sums(run: Run) -> str:
    """One row for each step. The correlation of reward and length is of what is left of both after their
    group's mean: sums of squares and products are added up over the groups.
    """
    columns = {"reward": "reward", "length": "response_tokens", "clock": "timestamp"}
    values = ", ".join(f"{run.column(of)} AS {name}" for name, of in columns.items())
    return f"""
        WITH rollouts AS NOT MATERIALIZED (
            SELECT step, {run.column("group_id")} AS group_id,
                hash({run.column("group_id")}, {run.split_value}) AS group_hash, {values}
            FROM {run.view} WHERE {run.condition}),
        groups AS (
            SELECT step, regr_count(length, reward) AS pairs, regr_sxx(length, reward) AS xx,
                regr_syy(length, reward) AS yy, regr_sxy(length, reward) AS xy
            FROM rollouts WHERE group_id IS NOT NULL GROUP BY step, group_hash),
        pairs AS (
            SELECT step, sum(pairs) AS pairs, sum(xx) AS xx, sum(yy) AS yy, sum(xy) AS xy
            FROM groups GROUP BY step),
        steps AS (
            SELECT step, count(*) AS rollouts, count(reward) AS scored, min(reward) AS lowest,
                max(reward) AS highest, max(clock) AS clock
            FROM rollouts GROUP BY step)
        SELECT step AS steps, rollouts, scored, lowest, highest, clock,
            CAST(coalesce(pairs, 0) AS BIGINT) AS pairs,
            coalesce(xx, 0) AS xx, coalesce(yy, 0) AS yy, coalesce(xy, 0) AS xy
        FROM steps LEFT JOIN pairs USING (step) ORDER BY step
    """


def copies(run: Run) -> tuple[Copy, ...]:
    """Rollouts of one step with the same id that are the same: same length, reward and beginning.

    The same id alone may be of one trajectory that was cut into several training samples, and training
    and evaluation count from 0 alike. Raises UnreadableError.
    """
    if "rollout_id" not in run.columns:
        return ()
    return run.remembered("copies", lambda: _copies(run))


def _copies(run: Run) -> tuple[Copy, ...]:
    ids = run.table(f"""
        SELECT hash(step, rollout_id) AS id FROM {run.view}
        WHERE {run.condition} AND rollout_id IS NOT NULL
    """)
    # Most runs have none, and numbers are sorted in half the time of grouping by texts.
    ordered = np.sort(ids["id"].to_numpy())
    if not (ordered[1:] == ordered[:-1]).any():
        return ()
    keys = ", ".join(map(run.column, _SAME))
    table = run.table(f"""
        WITH again AS (
            SELECT step, rollout_id FROM {run.view}
            WHERE {run.condition} AND rollout_id IS NOT NULL
            GROUP BY step, rollout_id HAVING count(*) > 1)
        SELECT step, position, first, rank
        FROM (
            SELECT step, position, {run.column("rank")} AS rank, min(position) OVER (
                PARTITION BY step, {run.split_value}, {keys}) AS first
            FROM {run.view} SEMI JOIN again USING (step, rollout_id)
            WHERE {run.condition})
        WHERE position > first ORDER BY step, position
    """)
    return tuple(map(Copy, *(column.to_pylist() for column in table.columns)))


def copied_files(run: Run) -> list[CopiedFile]:
    """The files of which all rollouts are copies of another file's."""
    paths = {state.id: state.path for state in run.rows.files.states}
    steps: dict[tuple[int, int], list[int]] = {}
    columns = (run.rows.duplicates[name].to_pylist() for name in ("file", "original", "step"))
    for file, original, step in zip(*columns, strict=True):
        if original is not None:
            steps.setdefault((file, original), []).append(step)
    return [
        CopiedFile(paths[file], paths[original], len(of_file), (min(of_file), max(of_file)))
        for (file, original), of_file in steps.items()
    ]
