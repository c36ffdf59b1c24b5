"""The way from a call to the file: what it hands over is numbered, sampled, queued and counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from exporters.arrays.batch import Batch, BatchInfo, reason
from exporters.arrays.room import Room, Spare
from exporters.arrays.snapshot import Copies, is_capturing
from exporters.settings import Settings, whole_number
from exporters.writing.counters import Counters
from exporters.writing.journal import Item, Journal
from exporters.writing.sampling import GroupSampler
from exporters.writing.step_end import take_step_end
from exporters.writing.worker import Worker

# How far back a late `log` of an earlier step still continues that step's numbering.
_STEPS_WITH_OPEN_INDEX = 8

Take = Callable[[Copies, BatchInfo, Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Batch]
"""What makes a batch of the frame, the arrays and the columns of a call."""


class Intake:
    """Hands what calls bring to the journal: on a thread of its own, or at once in mode "sync".

    What was left out is counted, and raises a ValueError where `strict`.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        counters: Counters,
        sampler: GroupSampler | None,
        *,
        strict: bool,
    ) -> None:
        self._journal = journal
        self._counters = counters
        self._sampler = sampler
        self._strict = strict
        self._next_index: dict[int, int] = {}
        self._spare = Spare(settings.queue_bytes)
        self._calls = threading.RLock()
        self._worker: Worker[Item] | None = None
        if settings.mode == "thread":
            self._worker = Worker(
                journal.handle,
                queue_bytes=settings.queue_bytes,
                max_steps=settings.max_inflight_steps,
                on_full=settings.on_full,
                full_timeout=settings.full_timeout,
            )

    def log(
        self,
        take: Take,
        place: tuple[int, Any],
        frame: Mapping[str, Any],
        arrays: Mapping[str, Any],
        columns: Mapping[str, Any] | None,
    ) -> None:
        """Copies the rollouts of a call and queues them. Raises what `take` raises.

        place: step and micro step; of one that is no whole number 0 is written.
        """
        if is_capturing():
            self._counters.add("skipped:capture")
            return
        step, micro_step = place[0], self._micro_step(*place)
        present = {name: value for name, value in arrays.items() if value is not None}
        with self._calls:
            info = BatchInfo(step, micro_step, self._next_index.get(step, 0))
            copies = Copies(Room(self._spare))
            self._accept(take(copies, info, frame, present, {} if columns is None else columns))

    def end_step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Queues the end of a step, behind all of its rollouts."""
        if is_capturing():
            return
        refused: dict[str, str] = {}
        end = take_step_end(step, metrics, refused)
        for name, what in refused.items():
            self._counters.refuse(step, name, what)
            if self._strict:
                raise ValueError(f"step {step}: {name}: {what}")
        self._put(end, 0, step)

    def flush(self, timeout: float) -> bool:
        """Waits until all is in the file; False where `timeout` seconds did not do."""
        return self._worker.flush(timeout) if self._worker is not None else True

    def close(self, timeout: float) -> None:
        """Writes what is queued and the closing line.

        Raises:
            TimeoutError: `timeout` seconds did not do; what was still queued is counted as lost.
        """
        deadline = time.monotonic() + timeout
        if self._worker is not None and not self._worker.stop(timeout):
            for item in self._worker.waiting:
                if isinstance(item, Batch):
                    self._counters.add_to_step("lost", item.place.step, len(item.rows))
            # The thread may still be inside a write: a second writer would tear its line.
            raise TimeoutError(f"queue not empty after {timeout:g} s")
        self._journal.close(max(0.0, deadline - time.monotonic()))

    def _micro_step(self, step: int, micro_step: Any) -> int:
        try:
            return whole_number("micro_step", micro_step)
        except Exception as error:
            self._counters.refuse(step, "micro_step", reason(error))
            if self._strict:
                raise
            return 0

    def _accept(self, batch: Batch) -> None:
        step = batch.place.step
        for name, what in batch.refused.items():
            self._counters.refuse(step, name, what)
        if self._strict:
            batch.demand_all()
        self._next_index[step] = batch.place.first_index + batch.size
        while len(self._next_index) > _STEPS_WITH_OPEN_INDEX:
            del self._next_index[min(self._next_index)]
        if self._sampler is not None:
            rows = self._sampler.admit(step, [batch.group(row) for row in range(batch.size)])
            self._counters.add_to_step("sampled_out", step, batch.size - len(rows))
            batch = replace(batch, rows=rows)
        if batch.rows and not self._put(batch, batch.nbytes, step):
            self._counters.add("dropped", len(batch.rows))
            self._counters.add_to_step("lost", step, len(batch.rows))
            self._counters.warn(f"step {step}: queue full, {len(batch.rows)} rollouts dropped")
            self._journal.tell_late_losses()  # where the file was closed in the meantime

    def _put(self, item: Item, nbytes: int, step: int) -> bool:
        if self._worker is not None:
            return self._worker.put(item, nbytes, step)
        self._journal.handle(item)
        return True
