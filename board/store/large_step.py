"""What is kept of a step of very many rollouts, as store.splits.kept_of has it of some steps: made a
piece after the other, so that it takes a few numbers a rollout and not all that is known of it.

Rows, their order and their values are the same, but for the last digits of sums of several pieces.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.core.records import FloatArray
from board.store import step_parts
from board.store.large_rows import LargeRows, LargeStep, sets_of
from board.store.large_sums import (
    copies_of,
    merged_checks,
    merged_sums,
    reward_spread,
)
from board.store.steps import columns_of_groups, group_counts, statistics_of_step

STEPS: Final = "steps"
"""The kind of the step's row in the table of steps."""

_NO_COPIES: Final = pd.DataFrame({"step": np.zeros(0, np.int64)})
_PROMPTS: Final = 4096
"""Rollouts of prompts that are read at once: fewer, for each may have a prompt of its own."""
_ENVS: Final = 64
"""As of env_parts: of further environments rollouts are read."""

Kept = Iterator[tuple[str, pa.Table]]
IntArray = npt.NDArray[np.int64]


def kept_of(step: LargeStep, metrics: Sequence[str]) -> Kept:
    """Kinds and tables of what is kept of a step, those of one kind in their order, STEPS among them."""
    rows = LargeRows.all_of(step)
    copies = copies_of(rows)
    yield from _Some(rows, metrics, copies).kept()


@dataclass
class _Judged:
    """What is gathered of groups while they are made. counts: as steps.columns_of_groups takes them."""

    checks: list[pa.Table] = field(default_factory=list[pa.Table])
    counts: IntArray = field(default_factory=lambda: np.zeros((3, 1), np.int64))


class _EnvSums:
    """The envs of step_parts.parts_of, metric after metric."""

    def __init__(self, rows: LargeRows) -> None:
        codes = rows.envs
        order = np.argsort(codes, kind="stable").astype(np.int32)
        ordered = codes[order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self._order = order if len(self._starts) > 1 else None
        names = rows.of.envs[1] if "env" in rows.of.names else []
        held = [names[code] if code >= 0 else None for code in ordered[self._starts].tolist()]
        self._columns: dict[str, Any] = {
            "step": np.full(len(held), rows.of.step),
            "env": pa.array(held, pa.string()),
            "rollouts": np.diff(np.append(self._starts, len(order))),
        }

    def take(self, name: str, values: FloatArray) -> None:
        """Takes a metric of all these rollouts."""
        ordered = values if self._order is None else values[self._order]
        finite = np.isfinite(ordered)
        if finite.any():
            known = np.add.reduceat(finite, self._starts, dtype=np.int64)
            sums = np.add.reduceat(np.where(finite, ordered, 0.0), self._starts)
            self._columns |= {f"{name}:known": known, f"{name}:sum": sums}

    def table(self) -> pa.Table:
        """What was taken."""
        return pa.table(self._columns)


@dataclass(frozen=True)
class _Some:
    """Some rollouts of a step: all, or those of a split or an environment. spread: see checks_table."""

    rows: LargeRows
    metrics: Sequence[str]
    copies: pd.DataFrame
    spread: float | None = None

    def kept(self) -> Kept:
        """As env_parts.kept_of."""
        spread = reward_spread(self.rows)
        judged = _Judged()
        for table in self.groups(spread, judged):
            yield "groups", table
        for table in self.prompts(self.rows.prompts()):
            yield "prompts", table
        envs = _EnvSums(self.rows)
        yield STEPS, self._steps([slice(None)], [self.rows], [judged], envs.take)
        yield "envs", envs.table()
        yield "checks", merged_checks(judged.checks, self.copies)

    @property
    def _judging(self) -> list[str]:
        return [name for name in self.metrics if step_parts.judges(name)]

    def groups(self, spread: float, found: _Judged) -> Iterator[pa.Table]:
        """The groups in the order of their codes."""
        codes, none = self.rows.groups, list[pa.Table]()
        names = [*dict.fromkeys((*step_parts.CHECKED, *self._judging, "env"))]
        for which, has_codes in sets_of(codes):
            if has_codes and none:
                yield merged_sums(none)
                none = []
            rows, own = self.rows.frame(which, names), codes[which].astype(np.int64)
            steps, judged = _steps_of(rows), step_parts.judged_of(rows, self.metrics)
            table = step_parts.groups_table(rows, steps, own, judged)
            of_all = np.full(len(rows), spread)
            found.checks.append(
                step_parts.checks_table(rows, steps, own, judged, _NO_COPIES, of_all)
            )
            found.counts += group_counts(own, step_parts.numbers(rows, "reward"))
            if has_codes:
                yield table
            else:
                none.append(table)
        if none:
            yield merged_sums(none)

    def prompts(self, codes: npt.NDArray[np.int32]) -> Iterator[pa.Table]:
        """The prompts in the order of their codes."""
        names = ("reward", "env", *step_parts.LENGTHS, *self._judging)
        for which, has_codes in sets_of(codes, _PROMPTS):
            if not has_codes:
                continue
            _, first, own = np.unique(codes[which], return_index=True, return_inverse=True)
            texts, keys = self._texts(which[first])
            rows = self.rows.frame(which, names)
            judged = step_parts.judged_of(rows, self.metrics)
            told = (own.astype(np.int64), texts, keys)
            yield step_parts.prompts_of_codes(rows, _steps_of(rows), judged, *told)

    def _texts(self, first: IntArray) -> tuple[pa.Array, IntArray]:
        rows = self.rows.frame(first, ("prompt", "prompt_tokens"))
        texts = pa.array(rows["prompt"].astype(object), pa.string())
        tokens = np.nan_to_num(step_parts.numbers(rows, "prompt_tokens"), nan=-1.0)
        return texts, step_parts.prompt_keys(texts, tokens.astype(np.int64))

    def _steps(
        self,
        which: Sequence[Any],
        some: Sequence[LargeRows],
        judged: Sequence[_Judged],
        also: Callable[[str, FloatArray], None] | None = None,
    ) -> pa.Table:
        """As steps.steps_table, a row for each of some of these rollouts. which: their places in these.
        also: what takes each metric of these as well.
        """
        columns: dict[str, Any] = {"step": np.full(len(some), self.rows.of.step)}
        columns["rollouts"] = np.array([len(rows) for rows in some], np.int64)
        for name in self.metrics:
            values = self.rows.numbers(name)
            if also is not None:
                also(name, values)
            found = [statistics_of_step(name, values[one]) for one in which]
            columns |= {key: np.concatenate([one[key] for one in found]) for key in found[0]}
        if "rank" in self.rows.of.names:
            ranks = self.rows.numbers("rank")
            known = [ranks[one][np.isfinite(ranks[one])] for one in which]
            columns["ranks"] = np.array([len(np.unique(one)) for one in known], np.int64)
        if {"group_id", "reward"} <= self.rows.of.names:
            columns |= columns_of_groups(*np.concatenate([one.counts for one in judged], axis=1))
        return pa.table(columns)


def _steps_of(rows: pd.DataFrame) -> IntArray:
    return rows["step"].to_numpy(np.int64)
