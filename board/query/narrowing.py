"""A run as if it held the rollouts of some environments, or of one split, alone."""

from __future__ import annotations

from collections.abc import Sequence

from board.errors import ChoiceError, UnreadableError
from board.query.selection import Selection, rows_of
from board.query.steps import counts_by_step, steps_table
from board.store import splits
from board.store.manifest import BrokenIndexError
from board.store.opened_run import Run


def narrowed(run: Run, envs: Sequence[str]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name.

    A run that has none of the environments has no steps then. Raises UnreadableError.
    """
    names = tuple(dict.fromkeys(envs))
    if not names or "env" not in run.columns:
        return run
    return _selected(run, names, run.split)


def of_split(run: Run, name: str) -> Run:
    """The run with the rollouts of one split alone; the run itself where it holds no other.

    A run without the split has no steps then. Raises UnreadableError.
    """
    return run if {*splits_of(run)} <= {name} else _selected(run, run.envs, name)


def splits_of(run: Run) -> dict[str, dict[int, int]]:
    """By split, that of training first, how many rollouts the run has at each step.

    Rollouts that name none are training's. Raises UnreadableError.
    """
    if "split" not in run.columns:
        return {splits.TRAIN: dict(run.counts)} if run.counts else {}
    try:
        selection = _selection(run, run.envs, run.split)
        table = selection.table(f"""
            SELECT {selection.split_value} AS split, step, count(*) AS rollouts
            FROM {selection.view} WHERE {selection.condition} GROUP BY ALL ORDER BY step
        """)
    except BrokenIndexError as error:
        raise _gone(run, error) from error
    found: dict[str, dict[int, int]] = {}
    for split, step, count in zip(*(table[n].to_pylist() for n in table.column_names), strict=True):
        found.setdefault(split, {})[step] = count
    return {name: found[name] for name in splits.in_order(found)}


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


def _selected(run: Run, envs: tuple[str, ...], split: str | None) -> Run:
    try:
        selection = _selection(run, envs, split)
        counts = counts_by_step(selection)
        steps = steps_table(selection, counts)
    except BrokenIndexError as error:
        raise _gone(run, error) from error
    return run.selected(selection, envs, split, counts, steps, _batch(run, split) if envs else None)


def _batch(run: Run, split: str | None) -> Run:
    """The run with all environments of a split."""
    if not run.envs and run.split == split:
        return run
    whole = run.whole or run
    return whole if split is None else of_split(whole, split)


def _selection(run: Run, envs: tuple[str, ...], split: str | None) -> Selection:
    return Selection(rows_of(run.whole or run), envs, split)


def _gone(run: Run, error: BrokenIndexError) -> UnreadableError:
    return UnreadableError(f"the index of {run.info.name} changed meanwhile ({error}); reload")
