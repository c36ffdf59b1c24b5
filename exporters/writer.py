"""RolloutExporter: what a training loop calls.

The constructor raises on arguments that cannot work. After that nothing raises into training: what
goes wrong is counted in `counts` and written to the log at most once a minute.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from exporters.batch import Batch, count_rollouts, cut_records, take_batch
from exporters.files import RankFile, default_attempt, file_part, write_run, write_vocabulary
from exporters.record import SCHEMA_VERSION, encode_line, round_score
from exporters.vocabulary import describe_vocabulary
from exporters.worker import Worker

_logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_WARNINGS = 60.0
_STEPS_WITH_OPEN_INDEX = (
    8  # how far back a late `log` of an earlier step still continues that step's numbering
)


@dataclass(frozen=True)
class StepEnd:
    """The end of a step in the queue, behind all of its rollouts."""

    step: int
    metrics: Mapping[str, Any]


class RolloutExporter:
    """Writes the rollouts of one rank to a file of its own under `out_dir`.

    Args:
        out_dir: the run's folder, the same on all ranks; made if missing.
        rank, world_size: default to the launcher's RANK and WORLD_SIZE, else 0 and 1.
        attempt: one name for this launch, shared by its ranks and new at every restart; an attempt
            replaces all earlier ones from `start_step` on. Default: from torchrun or Slurm, or the
            time for a single process.
        start_step: first step this launch trains.
        run: what belongs to the whole run (name, config, git commit, thresholds); rank 0 writes it
            to `run-{attempt}.json`.
        tokenizer: rank 0 writes its pieces to `vocab.json`, so that ids are read without it.
        temperature: the sampling temperature that the logged logprobs include.
        logprobs_mode: "processed" where logprobs are after temperature and filters, else "raw".
        digits: significant decimal digits kept of every float, 1 to 9.
        every_n_steps: only steps divisible by this are written.
        mode: "thread" writes in the background, "sync" within the call.
        queue_bytes: memory that waiting rollouts may take.
        on_full: "block" waits up to `full_timeout` seconds for room, then drops and counts; "drop"
            does not wait.
        enabled: False makes every call a no-op, so that the training loop needs no condition.

    Raises:
        ValueError: an argument cannot work. OSError: `out_dir` cannot be made or written to.
    """

    def __init__(
        self,
        out_dir: str | os.PathLike[str],
        *,
        rank: int | None = None,
        world_size: int | None = None,
        attempt: str | None = None,
        start_step: int | None = None,
        run: Mapping[str, Any] | None = None,
        tokenizer: Any = None,
        temperature: float = 1.0,
        logprobs_mode: str = "processed",
        digits: int = 5,
        every_n_steps: int = 1,
        mode: str = "thread",
        queue_bytes: int = 256 << 20,
        on_full: str = "block",
        full_timeout: float = 30.0,
        enabled: bool = True,
    ) -> None:
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world_size = (
            int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
        )
        self._digits = digits
        self._every = every_n_steps
        self._counts: Counter[str] = Counter()
        self._written: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._next_index: dict[int, int] = {}
        self._counting = threading.Lock()  # the caller's thread and the worker's both count losses
        self._last_warning = float("-inf")
        self._process = os.getpid()
        self._open = enabled
        self._worker: Worker[Batch | StepEnd] | None = None
        self.path: Path | None = None
        if not enabled:
            return
        self._check(temperature, logprobs_mode, mode, queue_bytes, on_full, full_timeout)
        started = time.time()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
        self.attempt = file_part(attempt) if attempt else default_attempt(self.world_size, now)
        self._file = RankFile(Path(out_dir), self.attempt, self.rank)
        self.path = self._file.path
        header = {
            "schema": SCHEMA_VERSION,
            "attempt": self.attempt,
            "started": started,
            "start_step": start_step,
            "world_size": self.world_size,
            "digits": digits,
            "temperature": temperature,
            "logprobs_mode": logprobs_mode,
        }
        self._file.append(encode_line({"type": "header", "rank": self.rank, "part": 0, **header}))
        if self.rank == 0:
            self._describe_run(Path(out_dir), header, run or {}, tokenizer)
        if mode == "thread":
            self._worker = Worker(
                self._handle, queue_bytes=queue_bytes, on_full=on_full, full_timeout=full_timeout
            )
        _live.add(self)
        atexit.register(self.close)

    def __enter__(self) -> RolloutExporter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def counts(self) -> dict[str, int]:
        """So far: `records` written, `lost` (for whatever reason), `errors:WHERE`, `refused:NAME`."""
        return {"records": 0, "lost": 0, **self._counts}

    def wants(self, step: int) -> bool:
        """Whether `log` of this step would be written: ask before preparing something costly."""
        return self._open and os.getpid() == self._process and step % self._every == 0

    def log(
        self,
        step: int,
        *,
        micro_step: int = 0,
        prompt_ids: Any,
        prompt_mask: Any = None,
        response_ids: Any,
        response_mask: Any = None,
        loss_mask: Any = None,
        rewards: Any = None,
        meta: Mapping[str, Sequence[Any]] | None = None,
        **arrays: Any,
    ) -> None:
        """Logs the B rollouts of one micro batch. Never raises; all is copied when it returns.

        Args:
            step: the step as the trainer counts.
            micro_step: which micro batch of it.
            prompt_ids: [B, P], padded on either side.
            prompt_mask: [B, P], 1 = a token; default: no padding.
            response_ids: [B, R], padded on either side.
            response_mask: [B, R], 1 = a token; default: no padding.
            loss_mask: [B, R], 1 = the token enters the loss; default all response tokens.
            rewards: [B], the total. Its parts go into `meta["rewards"]`, one dict a rollout.
            meta: column -> B values: prompt, response, group_id, env, ground_truth, ... Unknown names
                are kept.
            **arrays: [B, R] per response token (logprobs in nats, entropy, ...), aligned with
                `response_ids` without a shift, or [B] for one number a rollout (advantage). A name
                whose shape does not fit is left out and counted as `refused:NAME`.
        """
        try:
            step = int(step)
            if not self.wants(step):
                return
            frame = {
                "prompt_ids": prompt_ids,
                "prompt_mask": prompt_mask,
                "response_ids": response_ids,
                "response_mask": response_mask,
            }
            given = {"reward": rewards, "loss_mask": loss_mask, **arrays}
            present = {name: value for name, value in given.items() if value is not None}
            first = self._next_index.get(step, 0)
            self._accept(take_batch(step, micro_step, first, frame, present, meta or {}))
        except Exception as error:
            self._lose(step, count_rollouts(response_ids))
            self._fail("log", error)

    def end_step(self, step: int, **metrics: Any) -> None:
        """Says that this rank logged all of `step`; `metrics` are kept with it. Never raises."""
        try:
            if self.wants(int(step)):
                self._put(StepEnd(int(step), dict(metrics)), 0)
        except Exception as error:
            self._fail("end_step", error)

    def flush(self, timeout: float = 30.0) -> bool:
        """Waits until all is in the file; False where `timeout` seconds did not do."""
        worker = self._worker
        return worker.flush(timeout) if worker and os.getpid() == self._process else True

    def close(self, timeout: float = 30.0) -> None:
        """Writes what is queued and the closing line. A second call and a forked child do nothing."""
        if not self._open or os.getpid() != self._process:
            return
        self._open = False
        atexit.unregister(self.close)
        try:
            if self._worker is not None and not self._worker.stop(timeout):
                for item in self._worker.waiting:
                    self._lose(item.step, item.size if isinstance(item, Batch) else 0)
                # The thread may still be inside a write: a second writer would tear its line.
                raise TimeoutError(f"queue not empty after {timeout:g} s")
            self._file.append(
                encode_line({"type": "close", "t": time.time(), "rank": self.rank, **self.counts})
            )
            self._file.close()
        except Exception as error:
            self._fail("close", error)

    def _check(
        self,
        temperature: float,
        logprobs_mode: str,
        mode: str,
        queue_bytes: int,
        on_full: str,
        full_timeout: float,
    ) -> None:
        needs = (
            (self.world_size >= 1, f"world_size: expected at least 1, found {self.world_size}"),
            (
                0 <= self.rank < self.world_size,
                f"rank: expected 0 to {self.world_size - 1}, found {self.rank}",
            ),
            (1 <= self._digits <= 9, f"digits: expected 1 to 9, found {self._digits}"),
            (self._every >= 1, f"every_n_steps: expected at least 1, found {self._every}"),
            (temperature > 0, f"temperature: expected more than 0, found {temperature}"),
            (
                logprobs_mode in ("processed", "raw"),
                f"logprobs_mode: expected processed or raw, found {logprobs_mode!r}",
            ),
            (mode in ("thread", "sync"), f"mode: expected thread or sync, found {mode!r}"),
            (on_full in ("block", "drop"), f"on_full: expected block or drop, found {on_full!r}"),
            (queue_bytes > 0, f"queue_bytes: expected more than 0, found {queue_bytes}"),
            (full_timeout >= 0, f"full_timeout: expected 0 s or more, found {full_timeout}"),
        )
        for holds, message in needs:
            if not holds:
                raise ValueError(message)

    def _describe_run(
        self, folder: Path, header: Mapping[str, Any], run: Mapping[str, Any], tokenizer: Any
    ) -> None:
        facts: dict[str, Any] = {
            "name": folder.resolve().name,
            "created": header["started"],
            **header,
        }
        del facts["started"]
        if tokenizer is not None:
            vocabulary = describe_vocabulary(tokenizer)
            write_vocabulary(folder, vocabulary)
            facts["tokenizer"] = {
                "vocab_size": len(vocabulary["pieces"]),
                "coding": vocabulary["coding"],
            }
        write_run(folder, self.attempt, {**facts, **run})

    def _accept(self, batch: Batch) -> None:
        for name in batch.refused:
            self._counts[f"refused:{name}"] += 1
            self._warn(f"step {batch.step}: {name} does not fit the batch and was left out")
        self._next_index[batch.step] = batch.first_index + batch.size
        while len(self._next_index) > _STEPS_WITH_OPEN_INDEX:
            del self._next_index[min(self._next_index)]
        if not self._put(batch, batch.nbytes):
            self._lose(batch.step, batch.size)
            self._warn(f"step {batch.step}: queue full, {batch.size} rollouts dropped")

    def _put(self, item: Batch | StepEnd, nbytes: int) -> bool:
        if self._worker is not None:
            return self._worker.put(item, nbytes)
        self._handle(item)
        return True

    def _handle(self, item: Batch | StepEnd) -> None:
        """Writes one queued item; runs on the worker's thread in thread mode."""
        try:
            if isinstance(item, StepEnd):
                self._write_end(item)
            else:
                self._write_samples(item)
        except Exception as error:
            self._fail("write", error)

    def _write_samples(self, batch: Batch) -> None:
        done = 0
        try:
            for record in cut_records(batch, self.rank, self._digits):
                done += 1
                self._write_sample(batch.step, record)
        except Exception:
            self._lose(batch.step, batch.size - done)
            raise

    def _write_sample(self, step: int, record: Mapping[str, Any]) -> None:
        try:
            self._file.append(encode_line(record))
        except (OSError, TypeError) as error:
            self._lose(step, 1)
            self._fail("write", error)
        else:
            self._counts["records"] += 1
            self._written[step] += 1

    def _write_end(self, end: StepEnd) -> None:
        metrics = {
            name: round_score(value, self._digits) if isinstance(value, float) else value
            for name, value in end.metrics.items()
        }
        line = {
            "type": "step_end",
            "step": end.step,
            "rank": self.rank,
            "records": self._written.pop(end.step, 0),
            "dropped": self._lost.pop(end.step, 0),
            "t": time.time(),
        }
        self._file.append(encode_line({**line, "metrics": metrics} if metrics else line))

    def _lose(self, step: int, rollouts: int) -> None:
        with self._counting:
            self._counts["lost"] += rollouts
            self._lost[step] += rollouts

    def _fail(self, where: str, error: Exception) -> None:
        with self._counting:
            self._counts[f"errors:{where}"] += 1
        self._warn(f"{where}: {type(error).__name__}: {error}")

    def _warn(self, message: str) -> None:
        now = time.monotonic()
        if now - self._last_warning >= _SECONDS_BETWEEN_WARNINGS:
            self._last_warning = now
            _logger.warning(
                "%s (training goes on; %d rollouts lost so far)", message, self._counts["lost"]
            )

    def disable_in_child(self) -> None:
        """Called in a forked process: the file belongs to the parent."""
        self._open = False
        self._worker = None


_live: weakref.WeakSet[RolloutExporter] = weakref.WeakSet()


def _disable_all() -> None:
    for exporter in list(_live):
        exporter.disable_in_child()


os.register_at_fork(after_in_child=_disable_all)
