"""The prompts of a run and how they went, from its index alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.kl import FloatArray
from board.core.prompts import Prompts, Visits, prompts_of, visits_of
from board.query.correctness import right_column
from board.query.selection import selected
from board.store.kept_sums import sums_from, visit_columns
from board.store.run import Run
from board.store.step_parts import LENGTHS

IntArray = npt.NDArray[np.int64]

_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class PromptRollouts:
    """All rollouts of one prompt, [n] each, ordered by step and then by index."""

    steps: IntArray
    indices: IntArray
    rewards: FloatArray
    lengths: FloatArray


@dataclass(frozen=True, slots=True)
class Courses:
    """How some prompts went. judged: those of which it is known whether rollouts are right; scored:
    those with rewards, their "solve rates" being mean rewards.
    """

    visits: Visits
    judged: Prompts
    scored: Prompts


@dataclass(frozen=True)
class RunPrompts:
    """Prompts by code, in the order in which they come. keys: [prompts] told apart by their beginnings
    and the number of tokens, the same in every run; text_keys: by their beginnings alone. first:
    [prompts] the place of each one's first visit in what is kept of prompts.

    several: of the prompts that come at several steps alone: of the others there may be as many as
    rollouts, and they have no course. rows: [visits of these] their places. length: the column of
    lengths, None without one. right_by: the column that says what is right; None: the highest reward.
    """

    run: Run
    keys: IntArray
    text_keys: IntArray
    first: IntArray
    several: Courses
    rows: IntArray
    length: str | None
    right_by: str | None

    def seen(self) -> IntArray:
        """[prompts] at how many steps each one comes."""
        counts = np.ones(len(self.keys), np.int64)
        codes, visits = np.unique(self.several.visits.prompts, return_counts=True)
        counts[codes] = visits
        return counts

    def of(self, codes: Sequence[int]) -> Courses:
        """How these prompts went, whether they come at several steps or at one."""
        wanted = np.unique(np.asarray(codes, np.int64))
        held = self.several.visits
        spans = [held.of(code) for code in wanted.tolist()]
        once = wanted[np.array([span.start == span.stop for span in spans], bool)]
        rest = _visits(self.run, self.right_by, once, self.first[once])
        none = np.zeros(0, np.int64)
        own = np.concatenate([none, *(np.arange(span.start, span.stop) for span in spans)])
        both = [
            np.append(getattr(held, one.name)[own], getattr(rest, one.name))
            for one in fields(Visits)
        ]
        order = np.argsort(both[0], kind="stable")
        return _courses(Visits(*(values[order] for values in both)))

    def texts(self, codes: Sequence[int]) -> list[str]:
        """The beginnings of these prompts."""
        places = self.first[np.asarray(codes, np.int64)]
        return self.run.part_rows("prompts", ("text",), places).column("text").to_pylist()

    def rollouts(self, code: int) -> PromptRollouts:
        """All rollouts of a prompt."""
        names = ("index", "reward", *((self.length,) if self.length else ()))
        rows = self.rows[self.several.visits.of(code)]
        places = rows if len(rows) else self.first[[code]]
        own = self.run.part_rows("prompts", ("step", *(f"of:{n}" for n in names)), places)
        sizes = pc.list_value_length(own.column("of:index")).to_numpy()
        steps = np.repeat(own.column("step").to_numpy(), sizes)
        flat = [_flat(own, f"of:{name}", len(steps)) for name in names]
        lengths = flat[2] if self.length else np.full(len(steps), np.nan)
        return PromptRollouts(steps, flat[0].astype(np.int64), flat[1], lengths)


def _flat(table: pa.Table, name: str, count: int) -> FloatArray:
    """[count] the lists of a column one after the other; NaN for those of steps without the column."""
    if name not in table.column_names:
        return np.full(count, np.nan)
    column = table.column(name)
    if column.null_count:
        sizes = pc.list_value_length(table.column("of:index")).to_numpy()
        found = np.full(count, np.nan)
        found[np.repeat(column.is_valid().to_numpy(), sizes)] = pc.list_flatten(column).to_numpy()
        return found
    return pc.list_flatten(column).to_numpy().astype(np.float64)


def run_prompts(run: Run) -> RunPrompts | None:
    """The prompts of all steps; None where the run has no prompt or no reward.

    Prompts are the same when what the index keeps of them is: their beginning, and their number of
    tokens where that is recorded.
    """
    if "prompt" not in run.columns or "reward" not in run.columns:
        return None
    table = run.part("prompts", ("key", "text_key"))
    if table is None:
        return None
    keys, first, codes, rows = _told_apart(table.column("key").to_numpy())
    text_keys = table.column("text_key").to_numpy()
    if len(first) < len(text_keys):
        text_keys = text_keys[first]
    part = right_column(run)
    several = _courses(_visits(run, part, codes, rows))
    length = next((name for name in LENGTHS if name in run.columns), None)
    return RunPrompts(run, keys, text_keys, first, several, rows, length, part)


def _told_apart(keys: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """([prompts] keys and [prompts] first places, by code; [n] codes and [n] places of the visits of
    prompts that come several times, ordered by code). keys: [visits] in their order.
    """
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        none = np.zeros(0, np.int64)
        return keys, np.arange(len(keys)), none, none
    codes, unique = pd.factorize(keys)
    is_first = np.diff(np.maximum.accumulate(codes), prepend=-1) > 0
    rows = np.flatnonzero(np.bincount(codes)[codes] > 1)
    # Sorted as one number, code and row take a tenth of what a stable sort takes.
    packed = np.sort(codes[rows] * len(keys) + rows)
    return unique, np.flatnonzero(is_first), packed // len(keys), packed % len(keys)


def _visits(run: Run, part: str | None, codes: IntArray, rows: IntArray) -> Visits:
    """Visits of prompts by code, [n], ordered by it and then by step; rows: [n] their places."""
    if not len(rows):
        return Visits(rows, rows, np.zeros(0), np.zeros(0), rows)
    names, order = visit_columns(part), np.argsort(rows)
    table = run.part_rows("prompts", names, rows[order])
    sums = sums_from(table, codes[order], part)
    visits = visits_of(sums, part, _ends(run, part))
    places = np.empty(len(rows), np.int64)
    places[order] = np.arange(len(rows))
    return Visits(*(getattr(visits, one.name)[places] for one in fields(Visits)))


def _courses(visits: Visits) -> Courses:
    scored = replace(visits, solve_rate=visits.rewards)
    return Courses(visits, prompts_of(visits), prompts_of(scored))


def _ends(run: Run, part: str | None) -> tuple[float, float]:
    """The lowest and the highest of what says what is right in the whole run, NaN without one."""
    with selected(run) as selection:
        score = selection.column(part or "reward")
        table = selection.table(f"""
            SELECT min({score}), max({score}) FROM {selection.view} WHERE {selection.condition}
        """)
    low, high = (column.to_numpy()[0] for column in table.columns)
    return float(low), float(high)


def shared_prompts(left: RunPrompts, right: RunPrompts, most: int) -> IntArray:
    """Codes of the first prompts of `left`, at most so many, with which one of `right` begins alike."""
    others = np.sort(right.text_keys)
    found = [np.zeros(0, np.int64)]
    for start in range(0, len(left.keys), _AT_ONCE):
        keys = left.text_keys[start : start + _AT_ONCE]
        order = np.argsort(keys)  # what is looked for in order is found in a fraction of the time
        places = np.minimum(np.searchsorted(others, keys[order]), len(others) - 1)
        found.append(start + np.sort(order[others[places] == keys[order]]))
        if sum(map(len, found)) >= most:
            break
    return np.concatenate(found)[:most]
