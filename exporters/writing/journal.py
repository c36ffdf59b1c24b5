"""The writing side: queued batches and step ends become lines of the rank's files."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from exporters.arrays.batch import Batch, reason
from exporters.arrays.snapshot import Array
from exporters.record import SCHEMA_VERSION, encode_line
from exporters.settings import Settings
from exporters.writing.counters import Counters
from exporters.writing.files import append_line, new_name
from exporters.writing.lines import native_line
from exporters.writing.mending import encode_mended
from exporters.writing.parts import Parts
from exporters.writing.redaction import Redaction
from exporters.writing.rllb import RllbLines
from exporters.writing.sampling import GroupSampler
from exporters.writing.sealing import Sealer
from exporters.writing.side_arrays import LEAST_DIMENSIONS, SideArrays
from exporters.writing.step_end import StepEnd

_STEPS_BUFFERED = 2
_STEP_ENDS_OWED = 4096


Item = Batch | StepEnd


class Journal:
    """Writes what the queue hands over.

    The end of a step that the disk did not take is owed: it goes before the next line that fits.
    """

    def __init__(
        self,
        settings: Settings,
        started: float,
        counters: Counters,
        sampler: GroupSampler | None,
        tokenizer: Any,
        redaction: Redaction | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        """Opens the rank's first file. Raises OSError where that cannot be done.

        With a `sampler`, lines wait until the end of their step says which groups stay. A `sealer` gets
        what is finished.
        """
        self._settings, self._counters, self._sampler = settings, counters, sampler
        self._redaction, self._sealer = redaction, sealer
        self._buffered: dict[int, list[tuple[str, bytes]]] = {}
        self._owed: deque[bytes] = deque(maxlen=_STEP_ENDS_OWED)
        self._is_closed = False
        self._lock = threading.RLock()  # sync mode: SIGTERM closes from a thread of its own
        self._items: deque[Item] = deque()
        self._writing_thread: int | None = None
        self._is_native = settings.dialect == "native"
        self._line = native_line if self._is_native else RllbLines(tokenizer).line
        self._rollouts_of_part = 0
        facts = {"schema": SCHEMA_VERSION, "rank": settings.rank, **settings.header(started)}
        name = new_name(settings.attempt, settings.rank, settings.dialect)
        self._side = SideArrays(
            settings.folder,
            lambda part: f"{name(part).removesuffix('.jsonl')}.arrays.npy",
            settings.rotate_bytes,
            lambda path: sealer.send(path) if sealer is not None else None,
        )
        self._parts = Parts(
            settings.folder,
            name,
            partial(_header, facts) if self._is_native else None,
            settings.rotate_bytes,
            self._seal,
        )

    @property
    def path(self) -> Path:
        """The file that is written to now."""
        return self._parts.path

    def handle(self, item: Item) -> None:
        """Writes one queued item. Never raises."""
        self._items.append(item)
        # In mode "sync" a signal's handler may log while the thread it interrupted is at a line.
        if self._writing_thread != threading.get_ident():
            with self._lock:
                self._handle_all()

    def close(self, timeout: float) -> None:
        """Writes what waited and the closing line, and waits for what is compressed and uploaded.

        Raises OSError, and TimeoutError where `timeout` seconds did not do for the last.
        """
        with self._lock:
            self._handle_all()
            try:
                self._finish()
            finally:
                self._parts.close()
                self._side.close()
                self._is_closed = True
        if self._sealer is None:
            return
        self._sealer.send(self._parts.path, self._rollouts_of_part)
        if not self._sealer.stop(timeout):
            raise TimeoutError(
                f"files not compressed or uploaded after {timeout:g} s; they stay in "
                f"{self._parts.path.parent}"
            )

    def tell_late_losses(self) -> None:
        """Writes the closing line once more behind the first one, if that is there. Never raises."""
        with self._lock, contextlib.suppress(OSError):  # where the disk is full or the file is gone
            if self._is_native and self._is_closed:
                append_line(self._parts.path, self._closing_line())

    def _handle_all(self) -> None:
        self._writing_thread = threading.get_ident()
        while self._items:
            try:
                with np.errstate(all="ignore"):  # in mode "sync" the caller's would apply
                    self._handle(self._items.popleft())
            except Exception as error:
                self._counters.fail("write", error)
        self._writing_thread = None

    def _handle(self, item: Item) -> None:
        with contextlib.suppress(OSError):  # no room yet: that is counted where a rollout is lost
            self._pay()
        if isinstance(item, StepEnd):
            self._end(item)
            return
        if self._sampler is not None:
            self._hold(item)
        else:
            self._write(item)
        item.release()

    def _finish(self) -> None:
        for step in list(self._buffered):
            self._release(step)
        if self._is_native:
            self._pay()
            self._parts.append(self._closing_line())
        if self._settings.fsync:
            self._parts.sync()

    def _closing_line(self) -> bytes:
        facts = {"type": "close", "t": time.time(), "rank": self._settings.rank}
        return encode_mended({**facts, **self._counters.counts})[0]

    def _pay(self) -> None:
        while self._owed:
            self._parts.append(self._owed[0])
            self._owed.popleft()

    def _write(self, batch: Batch) -> None:
        for line in self._lines(batch):
            if line is not None:
                self._append(batch.place.step, line)

    def _hold(self, batch: Batch) -> None:
        buffer = self._buffered.setdefault(batch.place.step, [])
        for row, line in zip(batch.rows, self._lines(batch), strict=False):
            if line is not None:
                buffer.append((batch.group(row), line))
        while len(self._buffered) > _STEPS_BUFFERED:  # a step that nobody ended
            self._release(min(self._buffered))

    def _release(self, step: int) -> None:
        groups = self._sampler.groups(step) if self._sampler is not None else frozenset[str]()
        for group, line in self._buffered.pop(step, ()):
            if group in groups:
                self._append(step, line)
            else:
                self._counters.add_to_step("sampled_out", step)

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
        rollout, step, settings = batch.cut(row), batch.place.step, self._settings
        for name in rollout.refused:
            self._counters.refuse(step, name, "its length is not that of the tokens")
        large = {n: a for n, a in rollout.tokens.items() if a.ndim >= LEAST_DIMENSIONS}
        if large:
            small = {n: a for n, a in rollout.tokens.items() if n not in large}
            rollout = replace(rollout, tokens=small)
        fields = self._line(batch, rollout, row, rank=settings.rank, digits=settings.digits)
        if self._redaction is not None:
            fields = self._redaction.line(fields, rollout)
        for name, values in large.items():
            self._put_beside(step, fields, name, values)
        try:
            return encode_line(fields)
        except Exception:
            line, wrong = encode_mended(fields)
            for name, what in wrong.items():
                self._counters.mend(step, name, what)
            return line

    def _put_beside(self, step: int, fields: dict[str, Any], name: str, values: Array) -> None:
        try:
            if not self._is_native:
                raise ValueError("RLLoggingBoard's files have no place for it")
            fields[name] = self._side.add(values)
        except Exception as error:
            self._counters.refuse(step, name, reason(error))

    def _append(self, step: int, line: bytes) -> None:
        try:
            self._parts.append(line)
        except OSError as error:
            self._lose(step, 1, error)
        else:
            self._counters.add_to_step("records", step)
            self._rollouts_of_part += 1

    def _seal(self, path: Path) -> None:
        if self._sealer is not None:
            self._sealer.seal(path, self._rollouts_of_part)
        self._rollouts_of_part = 0

    def _lose(self, step: int, rollouts: int, error: Exception) -> None:
        self._counters.add_to_step("lost", step, rollouts)
        self._counters.fail("write", error)

    def _end(self, end: StepEnd) -> None:
        self._release(end.step)
        take = partial(self._counters.take_step, step=end.step)
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
        if self._is_native:
            self._owed.append(self._with_metrics(line, end))
            self._pay()
        if self._settings.fsync == "step":
            self._parts.sync()

    def _with_metrics(self, line: dict[str, Any], end: StepEnd) -> bytes:
        """The line, without a metric that cannot be written: the step did end."""
        keep = None if self._redaction is None else self._redaction.value
        metrics, refused = end.encoded(self._settings.digits, keep)
        for name, what in refused.items():
            self._counters.refuse(end.step, name, what)
        return encode_line({**line, "metrics": metrics} if metrics else line)


def _header(facts: Mapping[str, Any], part: int) -> bytes:
    return encode_line({"type": "header", "part": part, **facts})
