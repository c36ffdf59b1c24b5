"""Runs by their ids and scores alone, which stand in a fraction of the time that all of a log takes.

An outline has its own index, and rollouts with the same step, index and place in the log as the whole
run: what it says of these names, the whole run says too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from board.core.schema import ID_FIELDS, SCORE_FIELDS
from board.formats import reader_named
from board.index.discovery.run_info import RunInfo
from board.query.open_run import OpenOptions
from board.query.run import Run

OUTLINE_BYTES: Final = 64 << 20
"""Less is read whole before an outline would have saved any time."""
_NAMES: Final = frozenset({*ID_FIELDS, *SCORE_FIELDS, "rollouts", "epoch"})
_OF_A_STEP: Final = ("_mean", "_std")


def pays(info: RunInfo, unread: int) -> bool:
    """Whether an outline stands long before so many bytes of a run are read."""
    is_known = all(reader_named(name).has_outline for name in info.formats)
    return unread >= OUTLINE_BYTES and is_known and not info.is_joined


def outlined(options: OpenOptions) -> OpenOptions:
    """The options by which a run is opened as an outline."""
    return replace(options, read=replace(options.read, outline=True))


def is_outline(run: Run) -> bool:
    """Whether texts, tokens and what is made of them are not read."""
    return run.options.read.outline


def may_tell(names: Collection[str]) -> bool:
    """Whether outlines hold columns of rollouts, or of steps, of these names."""
    return bool(names) and all(_column(name) in _NAMES for name in names)


def tells(run: Run, names: Collection[str]) -> bool:
    """Whether this outline has them: what a log lacks may be made of what an outline leaves out."""
    return all(_column(name) in ("rollouts", *run.columns) for name in names)


def _column(name: str) -> str:
    for ending in _OF_A_STEP:
        name = name.removesuffix(ending)
    return name
