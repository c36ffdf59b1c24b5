"""The runs under the folder that the server was started on: found by name, opened once, followed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from board.errors import NotFoundError, did_you_mean
from board.formats.io.locations import Location
from board.index.discovery.discovered_runs import Discovery, RunInfo, discover
from board.index.discovery.sidecar_files import state_of
from board.query.environments import of_known_environments
from board.query.labels.matching import with_labels
from board.query.open_run import Follower, OpenOptions, Run
from board.query.splits import chosen_split
from board.query.trainer.metrics import TrainerMetrics, TrainerMetricsReader

_LISTED_SECONDS: Final = 5.0
"""How long the list of runs is reused, unless somebody asks for the list itself."""
_MOST_OPEN: Final = 8
_MOST_PARTS: Final = 16
"""Of one run."""


@dataclass(slots=True)
class _Slot:
    """A run that was opened, with parts of it that were asked about, so that their answers are cached.

    sidecar_state: of its settings and vocabulary when it was opened. parts: by split, environments and
    filter.
    """

    follower: Follower
    run: Run | None = None
    sidecar_state: tuple[tuple[str, int, int], ...] = ()
    trainer: TrainerMetricsReader = field(default_factory=TrainerMetricsReader)
    parts: dict[tuple[str, ...], Run] = field(default_factory=dict[tuple[str, ...], Run])


class OpenRuns:
    """Runs by their names below a folder; there is no other way to a file.

    What lies outside the folder, or behind a link that leads out of it, is not discovered.
    """

    def __init__(self, root: Location) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, float | None], _Slot] = {}
        self._discovery: Discovery | None = None
        self._listed = 0.0

    def infos(self, *, fresh: bool = True) -> tuple[RunInfo, ...]:
        """The runs, the one that changed last first. fresh: as they are now, else as they were a moment
        ago. Raises NotFoundError, UnreadableError.
        """
        is_old = time.monotonic() - self._listed > _LISTED_SECONDS
        if self._discovery is None or fresh or is_old:
            self._discovery, self._listed = discover(self.root), time.monotonic()
        return self._discovery.runs

    def run(self, name: str) -> Run:
        """A run as its files are now. Raises NotFoundError where there is none of that name."""
        with self._lock:
            return self._opened(name)[1]

    def part(
        self,
        name: str,
        split: str,
        envs: list[str],
        where: str = "",
        right_from: float | None = None,
    ) -> Run:
        """A run with the rollouts alone of a split (training's where none is named, "all" for all), of
        environments (none: of all) and of a filter. right_from: from which score on a rollout is right;
        None: what the log says. Raises BoardError.
        """
        with self._lock:
            slot, run = self._opened(name, right_from)
            key = (split, *envs, where)
            if key not in slot.parts:
                chosen = of_known_environments(chosen_split(run, split), envs)
                slot.parts[key] = chosen.where(where)
                if len(slot.parts) > _MOST_PARTS:
                    del slot.parts[next(iter(slot.parts))]
            return slot.parts[key]

    def trainer(self, name: str) -> TrainerMetrics:
        """What the trainer of a run logged, as its files are now."""
        with self._lock:
            slot, run = self._opened(name)
            slot.trainer.read(run)  # what is new of it
            return slot.trainer.metrics(run)

    def _opened(self, name: str, right_from: float | None = None) -> tuple[_Slot, Run]:
        info = self._info(name)
        key = name, right_from
        slot = self._slots.pop(key, None) or _Slot(Follower(OpenOptions(right_from=right_from)))
        self._slots[key] = slot  # the last one is the newest
        if len(self._slots) > _MOST_OPEN:
            del self._slots[next(iter(self._slots))]
        state = state_of(info)
        if slot.run is None or slot.run.info != info or slot.sidecar_state != state:
            slot.run, slot.sidecar_state = slot.follower.run(info), state
            slot.parts.clear()
        labelled = with_labels(slot.run)
        if labelled is not slot.run:
            slot.run = labelled
            slot.parts.clear()
        return slot, slot.run

    def _info(self, name: str) -> RunInfo:
        for fresh in (False, True):
            for info in self.infos(fresh=fresh):
                if info.name == name:
                    return info
        known = [info.name for info in self.infos(fresh=False)]
        raise NotFoundError(f"there is no run {name!r}; {did_you_mean(name, known)}")
