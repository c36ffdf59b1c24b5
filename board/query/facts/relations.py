"""Relations between the columns of a run that hold in its first rollouts, counted over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from board.core.arrays import FloatArray, IntArray
from board.core.findings.facts import Relation
from board.core.metrics.definitions import REDUCTIONS, REWARD_PART, reward_parts
from board.core.metrics.shares import number
from board.query.run import Run

_FIRST: Final = 240
"""Rollouts that a relation is learnt from; none of later ones is looked for."""
_LEAST_EACH: Final = 10
"""Of these have each of two values: a flag that never changes agrees with anything."""
_MOST_COLUMNS: Final = 40
_MOST_RELATIONS: Final = 24
_CLOSE: Final = 1e-4
_DERIVED: Final = frozenset(("advantage", "reward_gap", *(column for column, *_ in REDUCTIONS)))
"""What the board computes from tokens is alike by what it is, not by what the log says."""


@dataclass(frozen=True, slots=True)
class _Learnt:
    """words: as of a Relation. holds: SQL, NULL where a column is not recorded."""

    words: str
    columns: tuple[str, ...]
    holds: str


def relations_of(run: Run, steps: IntArray) -> list[Relation]:
    """All relations that hold in the first rollouts. Raises UnreadableError."""
    names = [name for name in run.metrics if name not in _DERIVED][:_MOST_COLUMNS]
    if len(names) < 2 or not len(steps):
        return []
    learnt = [*_learnt(run, _first_rows(run, names))][:_MOST_RELATIONS]
    if not learnt:
        return []
    counts = ", ".join(
        f"count({one.holds}) AS n{i}, count(*) FILTER (NOT {one.holds}) AS b{i}"
        for i, one in enumerate(learnt)
    )
    table = run.table(f"""
        SELECT step, {counts} FROM {run.view} WHERE {run.condition} GROUP BY step ORDER BY step
    """)
    return [
        Relation(
            one.words,
            one.columns,
            table[f"n{i}"].to_numpy(),
            table[f"b{i}"].to_numpy(),
            partial(_broken_of, run, one.holds),
        )
        for i, one in enumerate(learnt)
    ]


def _broken_of(run: Run, holds: str, step: int) -> list[int]:
    own = run.where(steps=(step, step))
    table = own.table(f"""
        SELECT position FROM {own.view} WHERE {own.condition} AND NOT {holds} ORDER BY position
    """)
    return table["position"].to_numpy().tolist()


def _first_rows(run: Run, names: Sequence[str]) -> dict[str, FloatArray]:
    """Columns of the first rollouts by step, NaN where not recorded."""
    last, total = 0, 0
    for step, count in run.counts.items():
        last, total = step, total + count
        if total >= _FIRST:
            break
    first = run.where(steps=(next(iter(run.counts)), last))
    selected = ", ".join(f"CAST({first.column(n)} AS DOUBLE) AS v{i}" for i, n in enumerate(names))
    table = first.table(f"SELECT {selected} FROM {first.view} WHERE {first.condition}")
    return {
        name: table[f"v{i}"].cast(pa.float64()).to_numpy(zero_copy_only=False)
        for i, name in enumerate(names)
    }


def _learnt(run: Run, rows: dict[str, FloatArray]) -> Iterator[_Learnt]:
    flags = [name for name, values in rows.items() if _is_flag(values)]
    varied = [name for name, values in rows.items() if _varies(values)]
    yield from _sum_of_parts(run, rows)
    for place, name in enumerate(varied):
        for other in varied[place + 1 :]:
            if _all(np.abs(rows[name] - rows[other]) <= _tolerance(rows[name]), rows, name, other):
                a, b = run.column(name), run.column(other)
                within = f"abs({a} - {b}) <= {_CLOSE} * abs({a})"
                yield _Learnt(f"{name} = {other}", (name, other), f"({within})")
    for flag in flags:
        for other in varied:
            if other == flag or other in flags:
                continue
            for sign, bound in _bounds(rows[other]):
                says = rows[other] == bound if sign == "=" else rows[other] > bound
                if _all((rows[flag] == 1) == says, rows, flag, other):
                    a, b = run.column(flag), run.column(other)
                    words = f"{flag} = [{other} {sign} {number(bound)}]"
                    yield _Learnt(words, (flag, other), f"(({a} = 1) = ({b} {sign} {bound!r}))")
                    break


def _bounds(values: FloatArray) -> Iterator[tuple[str, float]]:
    known = values[np.isfinite(values)]
    yield "=", float(known.max())
    yield ">", 0.0
    yield ">", float((known.max() + known.min()) / 2)


def _all(holds: np.ndarray, rows: dict[str, FloatArray], *names: str) -> bool:
    known = np.all([np.isfinite(rows[name]) for name in names], axis=0)
    return int(known.sum()) >= _FIRST // 4 and bool(holds[known].all())


def _tolerance(values: FloatArray) -> FloatArray:
    return _CLOSE * np.abs(values)


def _is_flag(values: FloatArray) -> bool:
    known = values[np.isfinite(values)]
    ones = int((known == 1).sum())
    is_both = min(ones, len(known) - ones) >= _LEAST_EACH
    return is_both and bool(np.isin(known, (0.0, 1.0)).all())


def _varies(values: FloatArray) -> bool:
    known = values[np.isfinite(values)]
    if len(known) < _FIRST // 4:
        return False
    most = np.unique(known, return_counts=True)[1].max()
    return len(known) - int(most) >= _LEAST_EACH


def _sum_of_parts(run: Run, rows: dict[str, FloatArray]) -> Iterator[_Learnt]:
    """The reward as a weighted sum of its parts, by least squares."""
    parts = [name for name in reward_parts(rows) if _varies(rows[name])]
    if "reward" not in rows or not parts:
        return
    known = np.all([np.isfinite(rows[name]) for name in ("reward", *parts)], axis=0)
    if known.sum() < _FIRST // 4:
        return
    made = np.column_stack([*(rows[name][known] for name in parts), np.ones(known.sum())])
    weights, *_ = np.linalg.lstsq(made, rows["reward"][known], rcond=None)
    weights = weights.round(4)
    if (np.abs(made @ weights - rows["reward"][known]) > _CLOSE).any():
        return
    terms = [f"{w!r} * {run.column(n)}" for w, n in zip(weights.tolist(), parts, strict=False)]
    total = " + ".join([*terms, repr(float(weights[-1]))])
    words = " + ".join(
        f"{number(w)} {n.removeprefix(REWARD_PART)}" if w != 1 else n.removeprefix(REWARD_PART)
        for w, n in zip(weights.tolist(), parts, strict=False)
        if w
    )
    words += f" + {number(float(weights[-1]))}" if weights[-1] else ""
    reward = run.column("reward")
    within = f"abs({reward} - ({total})) <= {10 * _CLOSE} * greatest(abs({reward}), 1)"
    yield _Learnt(f"reward = {words}", ("reward", *parts), f"({within})")
