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
from board.store import env_parts, splits, step_parts
from board.store.large_rows import LargeRows, LargeStep, sets_of
from board.store.large_sums import (
    copies_of,
    merged_checks,
    merged_sums,
    reward_spread,
    with_empty_lists,
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
    if "split" not in step.names:
        return
    codes, names = step.splits
    sizes = np.bincount(codes, minlength=len(names))
    yield splits.COUNTS, _counted(step.step, sizes, names)
    if np.count_nonzero(sizes) < 2:
        return
    for code in np.argsort(-sizes, kind="stable")[: splits.MOST].tolist():
        if sizes[code]:
            own = rows.only(codes == code)
            for kind, table in _Some(own, metrics, _of(copies, own)).kept():
                named = table.append_column("split", _all(names[code], table))
                yield splits.STEPS if kind == STEPS else splits.kind_of_split(kind), named


def _counted(step: int, sizes: IntArray, names: Sequence[str]) -> pa.Table:
    held = np.flatnonzero(sizes)
    named = pa.array([names[code] for code in held.tolist()], pa.string())
    counts = sizes[held].astype(np.int64)
    return pa.table({"step": np.full(len(held), step), "split": named, "rollouts": counts})


def _all(name: str, table: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(name), table.num_rows)


def _of(copies: pd.DataFrame, rows: LargeRows) -> pd.DataFrame:
    """The copies among some of the step's rollouts."""
    if copies.empty:
        return copies
    return copies[np.isin(copies["index"].to_numpy(), rows.places)].reset_index(drop=True)


@dataclass
class _Judged:
    """What is gathered of groups while they are made. counts: as steps.columns_of_groups takes them.
    mixed: places of rollouts whose group has several environments.
    """

    checks: list[pa.Table] = field(default_factory=list[pa.Table])
    counts: IntArray = field(default_factory=lambda: np.zeros((3, 1), np.int64))
    mixed: list[IntArray] = field(default_factory=list[IntArray])


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
        judged, mixed = _Judged(), list[IntArray]()
        for table in self.groups(spread, judged):
            yield "groups", table
        for table in self.prompts(self.rows.prompts(), mixed):
            yield "prompts", table
        envs = _EnvSums(self.rows)
        yield STEPS, self._steps([slice(None)], [self.rows], [judged], envs.take)
        yield "envs", envs.table()
        yield "checks", merged_checks(judged.checks, self.copies)
        if "env" in self.rows.of.names:
            yield from self._of_envs(spread)
            yield from self._of_mixed("groups", judged.mixed)
            yield from self._of_mixed("prompts", mixed)

    @property
    def _judging(self) -> list[str]:
        return [name for name in self.metrics if step_parts.judges(name)]

    def groups(self, spread: float, found: _Judged) -> Iterator[pa.Table]:
        """The groups in the order of their codes."""
        codes, none = self.rows.groups, list[pa.Table]()
        names = [*dict.fromkeys((*step_parts.CHECKED, *self._judging, "env"))]
        for which, has_codes in sets_of(codes):
            if has_codes and none:
                yield self._without_group(none, codes, found)
                none = []
            rows, own = self.rows.frame(which, names), codes[which].astype(np.int64)
            steps, judged = _steps_of(rows), step_parts.judged_of(rows, self.metrics)
            table, mixed = step_parts.groups_table(rows, steps, own, judged)
            of_all = np.full(len(rows), spread)
            found.checks.append(
                step_parts.checks_table(rows, steps, own, judged, _NO_COPIES, of_all)
            )
            found.counts += group_counts(own, step_parts.numbers(rows, "reward"))
            if has_codes:
                found.mixed.append(which[mixed])
                yield table
            else:
                none.append(table)
        if none:
            yield self._without_group(none, codes, found)

    def _without_group(
        self, tables: Sequence[pa.Table], codes: npt.NDArray[np.int32], found: _Judged
    ) -> pa.Table:
        """The entry of the rollouts without a group, of those of pieces."""
        table = merged_sums(tables)
        if "env" not in table.column_names:
            return table
        which = np.flatnonzero(codes < 0)
        envs = self.rows.envs[which]
        low, high = int(envs.min()), int(envs.max())
        if low != high:
            found.mixed.append(which)
        name = None if low != high or low < 0 else self.rows.of.envs[1][low]
        place = table.column_names.index("env")
        return table.set_column(place, "env", pa.array([name], pa.string()))

    def prompts(self, codes: npt.NDArray[np.int32], mixed: list[IntArray]) -> Iterator[pa.Table]:
        """The prompts in the order of their codes; to mixed: places of those of several environments."""
        names = ("reward", "env", *step_parts.LENGTHS, *self._judging)
        for which, has_codes in sets_of(codes, _PROMPTS):
            if not has_codes:
                continue
            _, first, own = np.unique(codes[which], return_index=True, return_inverse=True)
            texts, keys = self._texts(which[first])
            rows = self.rows.frame(which, names)
            judged = step_parts.judged_of(rows, self.metrics)
            told = (own.astype(np.int64), texts, keys)
            table, of_several = step_parts.prompts_of_codes(rows, _steps_of(rows), judged, *told)
            mixed.append(which[of_several])
            yield table

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

    def _of_envs(self, spread: float) -> Kept:
        """What is kept of each of the largest environments, where there are several."""
        codes = self.rows.envs
        if codes.min() == codes.max():
            return
        sizes = np.bincount(codes[codes >= 0])
        largest = np.sort(np.argsort(-sizes, kind="stable")[:_ENVS])
        held = [code for code in largest.tolist() if sizes[code]]
        which = [np.flatnonzero(codes == code).astype(np.int32) for code in held]
        some = [self.rows.only(places) for places in which]
        judged = [_Judged() for _ in held]
        checks: list[pa.Table] = []
        for rows, found in zip(some, judged, strict=True):
            own = _Some(rows, self.metrics, _of(self.copies, rows))
            for _ in own.groups(spread, found):
                pass
            checks.append(merged_checks(found.checks, own.copies))
        envs = pa.array([self.rows.of.envs[1][code] for code in held], pa.string())
        table = with_empty_lists(pa.concat_tables(checks, promote_options="permissive"))
        yield env_parts.STEPS, self._steps(which, some, judged).append_column("env", envs)
        yield env_parts.kind_of_env("checks"), table.append_column("env", envs)

    def _of_mixed(self, kind: str, found: Sequence[IntArray]) -> Kept:
        """Of groups or prompts of several environments what is of each of these."""
        mixed = np.concatenate([*found, np.zeros(0, np.int64)])
        envs = self.rows.envs[mixed]
        mixed, envs = mixed[envs >= 0], envs[envs >= 0]
        if not len(mixed):
            return
        own = self.rows.only(mixed)
        order = np.argsort(envs, kind="stable").astype(np.int32)
        prompts = own.prompts(order) if kind == "prompts" else None
        every = np.unique(self.rows.groups) if kind == "groups" else None
        for code in np.unique(envs).tolist():
            is_of = envs == code
            some = _Some(own.only(is_of), self.metrics, _NO_COPIES)
            if prompts is not None:
                tables = some.prompts(prompts[is_of], [])
            else:
                tables = _with_places(some, every)
            for table in tables:
                if "env" in table.column_names:
                    table = table.drop_columns(["env"])
                name = self.rows.of.envs[1][code]
                yield env_parts.kind_of_env(kind), table.append_column("env", _all(name, table))


def _with_places(some: _Some, every: Any) -> Iterator[pa.Table]:
    """The groups of some rollouts, each with its place among the codes of all groups of the step."""
    codes, first = np.unique(some.rows.groups), 0
    for table in some.groups(np.nan, _Judged()):
        own = codes[first : first + table.num_rows]
        first += table.num_rows
        yield table.append_column("place", pa.array(np.searchsorted(every, own)))


def _steps_of(rows: pd.DataFrame) -> IntArray:
    return rows["step"].to_numpy(np.int64)
