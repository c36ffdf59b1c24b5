"""Which run another is compared with before anybody chooses: the one that shares most with it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

import numpy as np

from board.core.arrays import IntArray
from board.core.repeated_runs import is_of_the_setup
from board.core.run_differences import are_different, flat_settings
from board.index.discovery.run_info import RunInfo
from board.index.segments import PROMPT_KEY
from board.query.run import Run

MOST_LOOKED_AT: Final = 8
"""Runs that are opened to be compared by their prompts and settings."""
_SHARES: Final = 20
"""Shares of prompts that differ by less than 1 / _SHARES are alike: the last steps alone make that."""


class Shared(NamedTuple):
    """What two runs share. prompts: the share of those of the run that saw fewer, 0 where none are
    recorded. settings: how many are equal, of so many that either records, without seeds and names.
    """

    prompts: float
    settings: int
    of_settings: int

    @property
    def text(self) -> str:
        """The same in words."""
        settings = f"{self.settings:,} of {self.of_settings:,} settings" if self.of_settings else ""
        prompts = f"{self.prompts:.0%} of the prompts".replace("%", " %") if self.prompts else ""
        return " and ".join(filter(None, (prompts, settings))) or "neither prompts nor settings"

    @property
    def rank(self) -> tuple[float, float]:
        """More of it is more shared."""
        share = self.settings / self.of_settings if self.of_settings else 0.0
        return round(self.prompts * _SHARES), share


def nearest(info: RunInfo, others: Sequence[RunInfo], most_bytes: int) -> list[RunInfo]:
    """The runs that are looked at: those of the same folder, the same format and a name like it first,
    then the newest; together of at most so many bytes. others: the newest first.
    """

    def distance(other: RunInfo) -> tuple[bool, bool, float]:
        is_elsewhere = other.name.rpartition("/")[0] != info.name.rpartition("/")[0]
        likeness = SequenceMatcher(None, info.name, other.name, autojunk=False).ratio()
        return is_elsewhere, other.formats != info.formats, -likeness

    chosen: list[RunInfo] = []
    for other in sorted((other for other in others if other.name != info.name), key=distance):
        if len(chosen) < MOST_LOOKED_AT and other.bytes <= most_bytes:
            chosen.append(other)
            most_bytes -= other.bytes
    return chosen


def shared_of(first: Run, second: Run) -> Shared:
    """What two runs share. Raises UnreadableError."""
    keys = [_prompts(run) for run in (first, second)]
    least = min(map(len, keys))
    prompts = len(np.intersect1d(*keys, assume_unique=True)) / least if least else 0.0
    settings = [_settings(run) for run in (first, second)]
    paths = settings[0].keys() | settings[1].keys()
    equal = [
        path
        for path in settings[0].keys() & settings[1].keys()
        if not are_different([settings[0][path], settings[1][path]])
    ]
    return Shared(prompts, len(equal), len(paths))


def _prompts(run: Run) -> IntArray:
    """The keys of the prompts of a run, each once."""
    if PROMPT_KEY not in run.rows.names:
        return np.zeros(0, np.int64)
    table = run.table(f"""
        SELECT DISTINCT {run.column(PROMPT_KEY)} AS key FROM {run.view}
        WHERE {run.condition} AND key IS NOT NULL
    """)
    return table["key"].to_numpy()


def _settings(run: Run) -> dict[str, object]:
    newest = run.settings[max(run.settings)] if run.settings else {}
    flat = flat_settings(newest)
    return {path: value for path, value in flat if is_of_the_setup(path) and value != {}}
