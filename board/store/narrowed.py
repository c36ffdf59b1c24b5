"""A run as if it held the rollouts of some environments, or of one split, alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.errors import ChoiceError
from board.store import splits
from board.store.envs_run import EnvsRun, narrowed
from board.store.narrowed_run import GROUPED, NarrowedRun, averaged, kept_of, step_columns
from board.store.picked import Keyed, is_one_of, keyed, rows_at, steps_in
from board.store.run import Run
from board.store.step_store import tidied

__all__ = [
    "EnvsRun",
    "NarrowedRun",
    "SplitRun",
    "narrowed",
    "of_split",
    "shown_split",
    "splits_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRun(NarrowedRun):
    """The rollouts of one split. mixed: the steps of these that hold rollouts of other splits, too, where
    the index keeps what they have of it; None: it does not, and rollouts are read.
    """

    name: str
    mixed: frozenset[int] | None

    @property
    def column(self) -> str:
        """Split."""
        return "split"

    @property
    def only(self) -> Mapping[str, Sequence[str]]:
        """As NarrowedRun.only. Rollouts that name no split are training's: these must be looked at."""
        return {} if self.name == splits.TRAIN else {"split": (self.name,)}

    @property
    def split(self) -> str:
        """As NarrowedRun.split."""
        return self.name

    def holds(self, values: pd.Series[Any]) -> npt.NDArray[np.bool_]:
        """As NarrowedRun.holds."""
        return splits.of_rows(values, self.name)

    @property
    def version(self) -> str:
        """Another one for another split, too."""
        return f"{self.whole.version} split {self.name!r}"

    def _sources(self, kind: str) -> Iterable[Keyed] | None:
        return None if self.mixed is None else self._kept_rows(kind, self.mixed)

    def _kept_rows(self, kind: str, mixed: frozenset[int]) -> Iterator[Keyed]:
        """Of mixed steps what is kept of the split, of the others what is kept of all."""
        if kind != splits.COUNTS:
            pure = self.whole.part(kind, ("step",))
            if pure is not None:
                yield rows_at(kind, pure, self.counts.keys() - mixed)
            kind = splits.kind_of_split(kind)
        table = self.whole.part(kind, ("step", "split"))
        if table is not None:
            yield keyed(kind, is_one_of(table, "split", (self.name,)), steps_in(table))


def splits_of(run: Run) -> dict[str, dict[int, int]]:
    """By split, that of training first, how many rollouts the run has at each step.

    Rollouts that name none are training's.
    """
    if "split" not in run.columns:
        return {splits.TRAIN: dict(run.counts)} if run.counts else {}
    if isinstance(run, EnvsRun):
        every = {name: of_split(run.whole, name) for name in splits_of(run.whole)}
        held = {name: dict(narrowed(own, run.names).counts) for name, own in every.items()}
        found = {name: counts for name, counts in held.items() if counts}
        return {name: found[name] for name in splits.in_order(found)}
    counts = run.part(splits.COUNTS, ("step", "split", "rollouts"))
    if counts is None:  # an index of before splits were counted
        rows = run.chosen(("split",))
        if "split" not in rows:
            return {splits.TRAIN: dict(run.counts)} if run.counts else {}
        counts = splits.counted(rows)
    return splits.by_name(counts, run.counts)


def of_split(run: Run, name: str) -> Run:
    """The run with the rollouts of one split alone; the run itself where it holds no other.

    What the index keeps of each split is used, so that not a rollout is read. A run without the split
    has no steps then.
    """
    found = splits_of(run)
    if {*found} <= {name}:
        return run
    if isinstance(run, EnvsRun):
        return narrowed(of_split(run.whole, name), run.names)
    counts = found.get(name, {})
    mixed = frozenset(step for step, count in counts.items() if run.counts[step] != count)
    kept = _kept_steps(run, name, counts, mixed)
    if kept is None:
        pieces = run.pieces((*GROUPED, *run.metrics))
        own = (rows[splits.of_rows(rows["split"], name)] for rows in pieces)
        steps = averaged(run, own)
    else:
        steps = kept
    return SplitRun(
        **kept_of(run, steps, counts),
        whole=run,
        name=name,
        mixed=None if kept is None else mixed,
    )


def shown_split(run: Run, written: str = "") -> Run:
    """The run as it is shown of a split as users write it (splits.written): the one of training where
    none is written, and all of them together for `all`. Raises ChoiceError for one it does not have.
    """
    if written == splits.ALL:
        return run
    held = splits_of(run)
    name = splits.meant(written) if written else next(iter(held), None)
    if name is None:
        return run
    if name not in held:
        names = ", ".join(map(splits.written, held)) or "none"
        raise ChoiceError(
            f"{run.info.name} has no split {name!r}; it has {names}, and {splits.ALL} is all of them"
        )
    return of_split(run, name)


def _kept_steps(
    run: Run, name: str, counts: Mapping[int, int], mixed: frozenset[int]
) -> pd.DataFrame | None:
    """The table of steps of a split as far as the index has it; None where it lacks some."""
    whole = run.steps.drop(columns="complete", errors="ignore")
    pure = whole[whole["step"].isin([step for step in counts if step not in mixed])]
    tables = [pure]
    if mixed:
        kept = run.part(splits.STEPS, ("split", *step_columns(run)))
        own = (
            None
            if kept is None
            else kept.filter(pa.array(is_one_of(kept, "split", (name,)))).drop_columns("split")
        )
        if own is None or not mixed <= {*own.column("step").to_pylist()}:
            return None
        tables.append(own.to_pandas())
    return tidied(pd.concat(tables, ignore_index=True), run.metrics)
