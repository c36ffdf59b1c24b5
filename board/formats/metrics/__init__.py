"""Scalars that a trainer writes by step: which files hold them, and a reader for each kind of file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from board.core.natural_order import natural_order
from board.formats.io.sqlite_files import is_sqlite
from board.formats.metrics.base import MetricSource, Report
from board.formats.metrics.lines import Csv, JsonLines, has_step_column
from board.formats.metrics.tensorboard import EventFiles
from board.formats.metrics.trackio_db import TrackioDatabase
from board.formats.metrics.trainer_state import TrainerState, global_step
from board.formats.metrics.wandb_files import WandbFile

__all__ = ["MetricSource", "is_metric_name", "metric_sources"]

_EVENTS: Final = re.compile(r"(^|.*\.)tfevents\..*")
_TRAINER_STATE: Final = "trainer_state.json"
MOST_SOURCES: Final = 256
"""Files or folders of metrics of one run."""
_MOST_LISTED: Final = 10
"""Of those beyond that, named in the note of them."""


def is_metric_name(name: str) -> bool:
    """Whether a file may hold metrics, by its name alone. JSON lines may be rollouts, too."""
    lower = name.lower()
    return (
        lower == _TRAINER_STATE
        or lower.endswith((".csv", ".wandb", ".db"))
        or _EVENTS.fullmatch(lower) is not None
    )


def metric_sources(
    paths: Iterable[Path], folder: Path, trackio_run: str = ""
) -> list[MetricSource]:
    """The sources that files make, in natural order of their names.

    paths: of files with such names, or of JSON lines of scalars. folder: that names are relative to.
    trackio_run: which run of a Trackio project is meant, by its name or id; empty: the one called like
    the folder.
    """
    events: dict[Path, list[Path]] = {}
    states: list[Path] = []
    sources: list[MetricSource] = []
    for path in paths:
        lower, name = path.name.lower(), _name(path, folder)
        if lower == _TRAINER_STATE:
            states.append(path)
        elif lower.endswith(".wandb"):
            sources.append(WandbFile(name, (path,)))
        elif lower.endswith(".db"):
            if _is_sqlite(path):
                sources.append(TrackioDatabase(name, (path,), trackio_run or folder.name))
        elif lower.endswith(".csv"):
            if _has_steps(path):
                sources.append(Csv(name, (path,)))
        elif _EVENTS.fullmatch(lower):
            events.setdefault(path.parent, []).append(path)
        else:
            sources.append(JsonLines(name, (path,)))
    if states:  # each checkpoint has all that was logged until it was saved
        newest = max(states, key=global_step)
        sources.append(TrainerState(_name(newest, folder), (newest,)))
    for parent, files in events.items():
        name = _name(files[0] if len(files) == 1 else parent, folder)
        ordered = sorted(files, key=lambda path: natural_order(path.name))
        sources.append(EventFiles(name, tuple(ordered)))
    sources.sort(key=lambda source: natural_order(source.name))
    if len(sources) <= MOST_SOURCES:
        return sources
    return [*sources[:MOST_SOURCES], _LeftOut(sources)]


class _LeftOut(MetricSource):
    """Names those of all sources that are too many."""

    title = "left out"

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._names = [source.name for source in sources[MOST_SOURCES:]]
        super().__init__(self._names[0], [path for source in sources for path in source.paths])
        self.watched = ()

    def read(self, report: Report) -> None:
        listed, more = ", ".join(self._names[:_MOST_LISTED]), len(self._names) - _MOST_LISTED
        names = f"{listed} and {more:,} more" if more > 0 else listed
        self.note(f"more than {MOST_SOURCES} files with metrics: not read are {names}")


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def _has_steps(path: Path) -> bool:
    try:
        return has_step_column(path)
    except OSError:
        return False


def _is_sqlite(path: Path) -> bool:
    try:
        return is_sqlite(path)
    except OSError:
        return False
