"""A run as if it held the rollouts of some environments, of one split, or of a filter alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from board.core.metrics.definitions import base_name
from board.errors import ChoiceError
from board.query import splits
from board.query.run import Run
from board.query.selection import Selection
from board.query.steps import steps_table


def narrowed(run: Run, envs: Sequence[str]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name.

    A run that has none of the environments has no steps then. Raises UnreadableError.
    """
    names = tuple(dict.fromkeys(envs))
    if not names or "env" not in run.columns:
        return run
    return _selected(run, envs=names)


def environments_of(run: Run) -> tuple[str, ...]:
    """The environments that rollouts of the run name, in alphabetical order. Raises UnreadableError."""
    if "env" not in run.columns:
        return ()
    selection = run.selection
    table = selection.table(f"""
        SELECT DISTINCT env FROM {selection.view}
        WHERE {selection.condition} AND env IS NOT NULL ORDER BY env
    """)
    return tuple(map(str, table["env"].to_pylist()))


def of_split(run: Run, name: str) -> Run:
    """The run with the rollouts of one split alone; the run itself where it holds no other.

    A run without the split has no steps then. Raises UnreadableError.
    """
    return run if {*splits_of(run)} <= {name} else _selected(run, split=name)


def splits_of(run: Run) -> dict[str, dict[int, int]]:
    """By split, that of training first, how many rollouts the run has at each step.

    Rollouts that name none are training's. Raises UnreadableError.
    """
    if "split" not in run.columns:
        return {splits.TRAIN: dict(run.counts)} if run.counts else {}
    selection = run.selection
    table = selection.table(f"""
        SELECT {selection.split_value} AS split, step, count(*) AS rollouts
        FROM {selection.view} WHERE {selection.condition} GROUP BY ALL ORDER BY step
    """)
    counts_by_split: dict[str, dict[int, int]] = {}
    for split, step, count in zip(*(table[n].to_pylist() for n in table.column_names), strict=True):
        counts_by_split.setdefault(split, {})[step] = count
    return {name: counts_by_split[name] for name in splits.in_order(counts_by_split)}


def chosen_split(run: Run, written: str = "") -> Run:
    """The run as it is shown of a split as users write it (splits.written): the one of training where
    none is written, and all of them together for `all`. Raises ChoiceError for one it does not have.
    """
    if written == splits.ALL:
        return run
    counts = splits_of(run)
    name = splits.meant(written) if written else next(iter(counts), None)
    if name is None:
        return run
    if name not in counts:
        names = ", ".join(map(splits.written, counts)) or "none"
        raise ChoiceError(
            f"{run.info.name} has no split {name!r}; it has {names}, and {splits.ALL} is all of them"
        )
    return of_split(run, name)


def where(run: Run, text: str) -> Run:
    """The run with the rollouts alone for which an expression holds; what is not known does not hold.

    Raises ExpressionError, UnreadableError.
    """
    both = f"({run.where}) and ({text})" if run.where else text
    selection = run.selection.where(text)
    return _of_selection(run, selection, both)


def _selected(run: Run, *, envs: tuple[str, ...] | None = None, split: str | None = None) -> Run:
    """The run of other environments, or of another split; None: as they are."""
    selection = run.selection
    if envs is not None:
        selection = replace(selection, envs=envs)
    if split is not None:
        selection = replace(selection, split=split)
    return _of_selection(run, selection, run.where)


def _of_selection(run: Run, selection: Selection, text: str) -> Run:
    """text: what its filters are made of."""
    whole = run.whole or run
    steps = steps_table(selection, run.counts)
    counts = dict(zip(steps["step"].tolist(), steps["rollouts"].tolist(), strict=True))
    metrics = tuple(name for name in whole.metrics if f"{base_name(name)}_n" in steps)
    absent = set(whole.metrics) - set(metrics)
    return whole.changed(
        envs=selection.envs,
        split=selection.split,
        where=text,
        whole=whole,
        selection=selection,
        counts=counts,
        steps=_with_complete(whole, steps),
        metrics=metrics,
        columns=tuple(name for name in whole.columns if name not in absent),
    )


def _with_complete(whole: Run, steps: pd.DataFrame) -> pd.DataFrame:
    """The table of steps with whether all ranks have ended each, where the whole run knows that."""
    if "complete" not in whole.steps:
        return steps
    known = dict(zip(whole.steps["step"], whole.steps["complete"], strict=True))
    complete = [known.get(step) for step in steps["step"].tolist()]
    return steps.assign(complete=pd.Series(complete, dtype=object))
