"""The writing side: queued batches and step ends become lines of the rank's files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from exporters.batch import Batch
from exporters.files import new_name
from exporters.lines import native_line
from exporters.parts import Parts
from exporters.record import SCHEMA_VERSION, encode_line, rounded_metric
from exporters.rllb import RllbLines
from exporters.sampling import GroupSampler
from exporters.sealing import Sealer
from exporters.settings import Settings
from exporters.tally import Tally

_STEPS_HELD = 2


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step in the queue, behind all of its rollouts."""

    step: int
    metrics: Mapping[str, Any]


Item = Batch | StepEnd


class Journal:
    """Writes what the queue hands over. Only one thread at a time may call it."""

    def __init__(
        self,
        settings: Settings,
        started: float,
        tally: Tally,
        sampler: GroupSampler | None,
        tokenizer: Any,
    ) -> None:
        """Opens the rank's first file. Raises OSError where that cannot be done.

        With a `sampler`, lines are held back until the end of their step says which groups stay.
        """
        self._settings, self._tally, self._sampler = settings, tally, sampler
        self._held: dict[int, list[tuple[str, bytes]]] = {}
        self._is_native = settings.dialect == "native"
        self._line = native_line if self._is_native else RllbLines(tokenizer).line
        self._sealer = Sealer(tally) if settings.compress else None
        facts = {"schema": SCHEMA_VERSION, "rank": settings.rank, **settings.header(started)}
        self._parts = Parts(
            settings.folder,
            new_name(settings.attempt, settings.rank, settings.dialect),
            partial(_header, facts) if self._is_native else None,
            settings.rotate_bytes,
            self._sealer.seal if self._sealer else lambda _: None,
        )

    @property
    def path(self) -> Path:
        """The file that is written to now."""
        return self._parts.path

    def handle(self, item: Item) -> None:
        """Writes one queued item. Never raises."""
        try:
            if isinstance(item, StepEnd):
                self._end(item)
            elif self._sampler is not None:
                self._hold(item)
            else:
                self._write(item)
        except Exception as error:
            self._tally.fail("write", error)

    def close(self) -> None:
        """Writes what was held back and the closing line. Raises OSError."""
        for step in list(self._held):
            self._release(step)
        if self._is_native:
            facts = {"type": "close", "t": time.time(), "rank": self._settings.rank}
            self._parts.append(encode_line({**facts, **self._tally.counts}))
        if self._settings.fsync:
            self._parts.sync()
        self._parts.close()

    def wait_for_sealing(self) -> None:
        """Returns once all full parts are compressed."""
        if self._sealer is not None:
            self._sealer.wait()

    def _write(self, batch: Batch) -> None:
        for line in self._lines(batch):
            if line is not None:
                self._append(batch.place.step, line)

    def _hold(self, batch: Batch) -> None:
        held = self._held.setdefault(batch.place.step, [])
        for row, line in zip(batch.rows, self._lines(batch), strict=False):
            if line is not None:
                held.append((batch.group(row), line))
        while len(self._held) > _STEPS_HELD:  # a step that nobody ended
            self._release(min(self._held))

    def _release(self, step: int) -> None:
        kept = self._sampler.kept(step) if self._sampler is not None else frozenset[str]()
        for group, line in self._held.pop(step, ()):
            if group in kept:
                self._append(step, line)
            else:
                self._tally.add_to_step("sampled_out", step)

    def _lines(self, batch: Batch) -> Iterator[bytes | None]:
        """One line a row; None where it was lost, which is counted."""
        try:
            batch.wait()
        except Exception as error:
            self._lose(batch.place.step, len(batch.rows), error)
            return
        for row in batch.rows:
            try:
                yield self._encode(batch, row)
            except Exception as error:
                self._lose(batch.place.step, 1, error)
                yield None

    def _encode(self, batch: Batch, row: int) -> bytes:
        rollout = batch.cut(row)
        for name in rollout.refused:
            self._tally.refuse(batch.place.step, name, "its length is not that of the tokens")
        settings = self._settings
        fields = self._line(batch, rollout, row, rank=settings.rank, digits=settings.digits)
        return encode_line(fields)

    def _append(self, step: int, line: bytes) -> None:
        try:
            self._parts.append(line)
        except OSError as error:
            self._lose(step, 1, error)
        else:
            self._tally.add_to_step("records", step)

    def _lose(self, step: int, rollouts: int, error: Exception) -> None:
        self._tally.add_to_step("lost", step, rollouts)
        self._tally.fail("write", error)

    def _end(self, end: StepEnd) -> None:
        self._release(end.step)
        take = partial(self._tally.take_step, step=end.step)
        line: dict[str, Any] = {
            "type": "step_end",
            "step": end.step,
            "rank": self._settings.rank,
            "records": take("records"),
            "dropped": take("lost"),
            "t": time.time(),
        }
        sampled_out = take("sampled_out")
        if sampled_out:
            line["sampled_out"] = sampled_out
        if end.metrics:
            line["metrics"] = {
                name: rounded_metric(value, self._settings.digits)
                for name, value in end.metrics.items()
            }
        if self._is_native:
            self._parts.append(encode_line(line))
        if self._settings.fsync == "step":
            self._parts.sync()


def _header(facts: Mapping[str, Any], part: int) -> bytes:
    return encode_line({"type": "header", "part": part, **facts})
