"""Runs in which several models answered the same steps: each model's rollouts are a split of their own,
for no mean over them says anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

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
from board.index.segments import Column
from board.query.columns import value_sql
from board.query.splits import BETWEEN, split_value

_CHANGES: Final[Sequence[tuple[Callable[[str], str], str]]] = (
    (without_step, f"regexp_replace({{}}, '{STEP_IN_NAME}', '\\1', 'gi')"),
    (without_digits, "regexp_replace({}, '[0-9]+', '', 'g')"),
    (last_part, "regexp_extract({}, '[^/]*$')"),
)
"""What is done to a name of a model, in Python and in SQL."""

Rows = tuple[int, str, str]
"""A step, a split and a model that answered there."""


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
        model = dict(_CHANGES)[change].format(model)
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


def _changes(rows: Sequence[Rows]) -> list[Callable[[str], str]] | None:
    """What makes of each name the one of its model; None where no step of a split has two models."""
    changes: list[Callable[[str], str]] = []
    if len({step for step, _, _ in rows}) > 1:
        changes.append(without_step)
        rows = [(step, split, without_step(name)) for step, split, name in rows]
        if _are_versions(rows):
            changes.append(without_digits)
            rows = [(step, split, without_digits(name)) for step, split, name in rows]
    names = {name for _, _, name in rows}
    known = full_names(names)
    if len({*known.values()}) == len({*map(last_part, names)}) < len(names):
        changes.append(last_part)
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
        kept = [{name for step, name in named if step == end} for end in ends]
        if len(ends) == 1 or len(set[str].intersection(*kept)) > 1:
            return False
    return bool(several)
