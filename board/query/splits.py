"""Train and evaluation rollouts: the splits of a run. Rollouts that name none are training's.

Where several models answered the same steps, the rollouts of each are a split of their own, for no mean
over them says anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from board.core.model_names import (
    MODEL_KEYS,
    STEP_IN_NAME,
    full_names,
    last_part,
    without_digits,
    without_step,
)
from board.core.problems import RUN_ITSELF, Problem
from board.errors import ChoiceError
from board.index.segments import Column
from board.query.columns import value_sql

if TYPE_CHECKING:
    from board.query.run import Run

TRAIN: Final = "train"
"""The split of rollouts that name none."""
BETWEEN: Final = " · "
"""Stands between the split that a rollout names and its model, where several models answered."""
ALL: Final = "all"
"""Means all splits together; a split of that name is written `=all`."""


_WITHOUT_STEP: Final = f"regexp_replace({{}}, '{STEP_IN_NAME}', '\\1', 'gi')"
_WITHOUT_DIGITS: Final = "regexp_replace({}, '[0-9]+', '', 'g')"
_LAST_PART: Final = "regexp_extract({}, '[^/]*$')"
"""What core.model_names does to a name of a model, in SQL."""
Rows = tuple[int, str, str]
"""A step, a split and a model that answered there."""


def split_value(names: Collection[str]) -> str:
    """SQL for the split that a rollout names, that of training where it names none. names: of columns."""
    return f"coalesce(nullif(split, ''), '{TRAIN}')" if "split" in names else f"'{TRAIN}'"


def written(name: str) -> str:
    """A split as users write it, in a URL or a command line; one that is called `all` is `=all`."""
    return f"={name}" if name == ALL or name.startswith("=") else name


def meant(text: str) -> str | None:
    """The name of the split that a user wrote; None: all of them together."""
    return None if text == ALL else text.removeprefix("=")


def is_training(name: str) -> bool:
    """Whether a split is by its name the one of training."""
    return name.partition(BETWEEN)[0].lower() in (TRAIN, "training")


def splits_of(run: Run) -> dict[str, dict[int, int]]:
    """By split, that of training first, how many rollouts the run has at each step.

    Rollouts that name none are training's. Without a split called so, the largest is that of training.
    Raises UnreadableError.
    """
    if "split" not in run.columns:
        return {TRAIN: dict(run.counts)} if run.counts else {}
    table = run.table(f"""
        SELECT {run.split_value} AS split, step, count(*) AS rollouts
        FROM {run.view} WHERE {run.condition} GROUP BY ALL ORDER BY step
    """)
    counts: dict[str, dict[int, int]] = {}
    for split, step, count in zip(*(column.to_pylist() for column in table.columns), strict=True):
        counts.setdefault(split, {})[step] = count

    def rank(name: str) -> tuple[bool, bool, int, str]:
        rollouts = 0 if is_training(name) else -sum(counts[name].values())
        return name != TRAIN, not is_training(name), rollouts, name

    first = min(counts, key=rank, default=None)
    return {name: counts[name] for name in sorted(counts, key=lambda name: (name != first, name))}


def chosen_split(run: Run, text: str = "") -> Run:
    """The run as it is shown of a split as users write it (see `written`): the one of training where
    none is written, and all of them together for `all`. Raises ChoiceError for one it does not have.
    """
    if text == ALL:
        return run
    counts = splits_of(run)
    name = meant(text) if text else next(iter(counts), None)
    if name is None:
        return run
    if name not in counts:
        names = ", ".join(map(written, counts)) or "none"
        raise ChoiceError(
            f"{run.info.name} has no split {name!r}; it has {names}, and {ALL} is all of them"
        )
    return run if len(counts) == 1 else run.where(split=name)


def split_sql(
    ask: Callable[[str], pa.Table], view: str, columns: Sequence[Column], names: Collection[str]
) -> str:
    """SQL for the split that a rollout names with its model, where several models answered a step of one;
    empty where none did. view: of all rollouts; columns: of the run; names: of the columns of the view.
    """
    split = split_value(names)
    by_name = {column.name: column for column in columns if column.words}
    key = next((key for key in MODEL_KEYS if key in by_name), None)
    if key is None:
        return ""
    model = f"nullif({value_sql(by_name[key], names)}, '')"
    table = ask(f"SELECT DISTINCT step, {split}, {model} FROM {view} WHERE {model} IS NOT NULL")
    changes = _changes([*zip(*(column.to_pylist() for column in table.columns), strict=True)])
    if changes is None:
        return ""
    for change in changes:
        model = change.format(model)
    return f"concat({split}, '{BETWEEN}', coalesce({model}, 'no model'))"


def with_models(rows: str, split: str, names: Collection[str]) -> str:
    """Rows with the split of split_sql. rows: in parentheses; names: of their columns."""
    if not split:
        return rows
    others = "EXCLUDE (split)" if "split" in names else ""
    return f"(SELECT * {others}, {split} AS split FROM {rows})"


def note_on(split: str) -> Iterable[Problem]:
    """What is said of a run whose splits are told apart by their models. split: of split_sql."""
    if split:
        hint = "choose one as the split, or `all` for all of them together"
        reason = "several models answered: the rollouts of each are a split of their own"
        yield Problem(RUN_ITSELF, None, "model", reason, hint, "note")


def _changes(rows: Sequence[Rows]) -> list[str] | None:
    """SQL that makes of each name the one of its model; None where no step of a split has two models."""
    changes: list[str] = []
    if len({step for step, _, _ in rows}) > 1:
        changes.append(_WITHOUT_STEP)
        rows = [(step, split, without_step(name)) for step, split, name in rows]
        if _are_versions(rows):
            changes.append(_WITHOUT_DIGITS)
            rows = [(step, split, without_digits(name)) for step, split, name in rows]
    names = {name for _, _, name in rows}
    known = full_names(names)
    if len({*known.values()}) == len({*map(last_part, names)}) < len(names):
        changes.append(_LAST_PART)
    places = {(step, split, known[name]) for step, split, name in rows}
    is_mixed = len(places) > len({(step, split) for step, split, _ in places})
    return changes if is_mixed else None


def _are_versions(rows: Sequence[Rows]) -> bool:
    """Whether there are names that differ in numbers alone, and all such follow each other through
    training: no two of them are at the first step that has such a name and at the last one, too.
    """
    alike: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for step, split, name in rows:
        alike.setdefault((split, without_digits(name)), []).append((step, name))
    several = [named for named in alike.values() if len({name for _, name in named}) > 1]
    for named in several:
        ends = {min(step for step, _ in named), max(step for step, _ in named)}
        at_ends = [{name for step, name in named if step == end} for end in ends]
        if len(ends) == 1 or len(set[str].intersection(*at_ends)) > 1:
            return False
    return bool(several)
