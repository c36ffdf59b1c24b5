"""RolloutExporter: what a training loop calls.

The constructor raises on arguments that cannot work. After that nothing raises into training: what
goes wrong is counted in `counts` and written to the log at most once a minute. In strict mode, for
development, a call that hands over something wrong raises.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exporters.arrays.batch import count_rollouts, reason, take_padded
from exporters.arrays.packed import take_packed
from exporters.arrays.ragged import take_ragged
from exporters.launch.board_command import print_board_command
from exporters.launch.compiling import run_uncompiled
from exporters.launch.forks import disable_in_children
from exporters.launch.opening import named, open_files
from exporters.launch.termination import drain_on_sigterm
from exporters.settings import (
    SECONDS_TO_CLOSE,
    TAKEN_AS_GIVEN,
    Settings,
    is_strict,
    place_of_launch,
    seconds,
    whole_number,
)
from exporters.writing.counters import Counters
from exporters.writing.files import file_part
from exporters.writing.intake import Intake, Take
from exporters.writing.journal import Journal
from exporters.writing.losses import Losses
from exporters.writing.redaction import Redact, Redaction
from exporters.writing.store import store_of


class RolloutExporter:
    """Writes the rollouts of one rank to files of its own under `out_dir`.

    Args:
        out_dir: the run's folder, the same on all ranks; made if missing. Or the address of one in an
            object store (`s3://bucket/run`), where full parts and, at the end, the last one go.
        rank, world_size: this writer and how many there are; default to the launcher's RANK and
            WORLD_SIZE, else 0 and 1. Where ranks share their data see `exporters.parallel`.
        attempt: one name for this launch, shared by its ranks and new at every restart; an attempt
            replaces all earlier ones from `start_step` on. Default: from torchrun or Slurm, or the
            time for a single process.
        start_step: first step this launch trains.
        run: what belongs to the whole run (name, config, git commit, thresholds); rank 0 writes it
            to `run-{attempt}.json`.
        tokenizer: rank 0 writes its pieces to `vocab.json`, so that ids are read without it.
        redact: a function of a text, or regular expressions of what is replaced, applied to every text
            before it is written. Ids stay only where `tokenizer` decodes them to a text that may.
        temperature: the sampling temperature that the logged logprobs include; None: not recorded.
        logprobs_mode: "processed" where logprobs are after temperature and filters, else "raw".
        engine: name and version of what sampled, e.g. "vllm 0.10".
        digits: significant decimal digits kept of every float, 1 to 9.
        every_n_steps: only steps divisible by this are written.
        max_samples_per_step: at most so many rollouts of a step are written by this rank: whole
            groups, chosen by a hash of `group_id` and so the same on all ranks; never less than one.
        mode: "thread" writes in the background, "sync" within the call.
        queue_bytes, max_inflight_steps: memory that waiting rollouts may take, and of how many steps
            they may be.
        on_full: "block" waits up to `full_timeout` seconds for room, then drops and counts; "drop"
            does not wait.
        rotate_bytes: size at which a file is closed and the next part begun.
        compress: "zstd" compresses the parts that were closed so.
        fsync: "step" returns from the end of a step's writing only when the disk has it.
        dialect: "native", or "rllb" for files that the original RLLoggingBoard opens.
        flush_on_sigterm: on SIGTERM what is queued is written first.
        strict: True makes calls raise on what does not fit; default: whether ROLLOUT_EXPORT_STRICT
            is 1.
        enabled: False makes every call a no-op, so that the training loop needs no condition.
        open_board: rank 0 prints the command that shows this run.

    Raises:
        ValueError: an argument cannot work. OSError: `out_dir` cannot be made or written to.
        ImportError: `compress` needs zstandard, a store fsspec and its own package.
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
        redact: Redact | None = None,
        temperature: float | None = None,
        logprobs_mode: str = "processed",
        engine: str | None = None,
        digits: int = 5,
        every_n_steps: int = 1,
        max_samples_per_step: int | None = None,
        mode: str = "thread",
        queue_bytes: int = 512 << 20,
        max_inflight_steps: int = 2,
        on_full: str = "block",
        full_timeout: float = 30.0,
        rotate_bytes: int = 1 << 30,
        compress: str | None = None,
        fsync: str | None = None,
        dialect: str = "native",
        flush_on_sigterm: bool = False,
        strict: bool | None = None,
        enabled: bool = True,
        open_board: bool = False,
    ) -> None:
        given = locals()  # the arguments by their names
        self.rank, self.world_size = place_of_launch(rank, world_size)
        self._every = every_n_steps
        self._strict = is_strict(strict)
        self._counters = Counters()
        self._process = os.getpid()
        self._open = False
        self._losses = Losses(self._counters)
        self._closing, self._closed = threading.RLock(), threading.Event()
        self.attempt = ""
        self._journal: Journal | None = None
        self._intake: Intake | None = None
        if not enabled:
            return
        settings = Settings(
            folder=Path(out_dir).absolute(),  # training may go to another folder
            store=store_of(out_dir),
            rank=self.rank,
            world_size=self.world_size,
            attempt=file_part(str(attempt or "")),
            **{name: given[name] for name in TAKEN_AS_GIVEN},
        )
        settings.check()
        redaction = None if redact is None else Redaction(redact, tokenizer)
        self._start(settings, run or {}, tokenizer, redaction)
        if open_board and self.rank == 0:
            print_board_command(settings.target)
        if flush_on_sigterm:
            self._undo_sigterm = drain_on_sigterm(self._drain)

    def __enter__(self) -> RolloutExporter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def path(self) -> Path | None:
        """The file that is written to now; None where nothing is."""
        return self._journal.path if self._journal else None

    @property
    def counts(self) -> dict[str, int]:
        """So far: `records` written, `lost` for whatever reason, of these `dropped` for want of room in
        the queue; `sampled_out`, `not_uploaded`, `errors:WHERE`, `refused:NAME`, `skipped:capture`.
        """
        return self._counters.counts

    def wants(self, step: int) -> bool:
        """Whether `log` of this step would be written: ask before preparing something costly."""
        if not self._open or os.getpid() != self._process:
            return False
        try:
            return whole_number("step", step) % self._every == 0
        except Exception:
            return False

    def log(
        self,
        /,
        step: int,
        *,
        micro_step: int = 0,
        prompt_ids: Any = None,
        prompt_mask: Any = None,
        response_ids: Any,
        response_mask: Any = None,
        loss_mask: Any = None,
        rewards: Any = None,
        meta: Mapping[str, Sequence[Any]] | None = None,
        **arrays: Any,
    ) -> None:
        """Logs the B rollouts of one padded micro batch. All is copied when it returns.

        Args:
            step: the step as the trainer counts.
            micro_step: which micro batch of it.
            prompt_ids: [B, P], padded on either side; default: not recorded.
            prompt_mask: [B, P], 1 = a token; default: no padding.
            response_ids: [B, R], padded on either side.
            response_mask: [B, R], 1 = a token; default: no padding.
            loss_mask: [B, R], 1 = the token enters the loss; default all response tokens.
            rewards: [B], the total. Its parts go into `meta["rewards"]`: {name: B values}, or B dicts
                {name: value}.
            meta: column -> B values: prompt, response, group_id, env, ground_truth, ... Unknown names
                are kept.
            **arrays: [B, R] per response token (logprobs in nats, entropy, ...), aligned with
                `response_ids` without a shift, or [B] for one number a rollout (advantage). A name
                whose shape does not fit is left out and counted as `refused:NAME`.
        """
        frame = {
            "prompt_ids": prompt_ids,
            "prompt_mask": prompt_mask,
            "response_ids": response_ids,
            "response_mask": response_mask,
        }
        given = {"reward": rewards, "loss_mask": loss_mask, **arrays}
        self._log(take_padded, step, micro_step, frame, given, meta, response_ids)

    def log_packed(
        self,
        /,
        step: int,
        *,
        micro_step: int = 0,
        input_ids: Any,
        seq_lens: Any,
        loss_mask: Any,
        prompt_lens: Any = None,
        positions: Mapping[str, str] | None = None,
        rewards: Any = None,
        meta: Mapping[str, Sequence[Any]] | None = None,
        **arrays: Any,
    ) -> None:
        """Logs the S sequences of one packed micro batch. All is copied when it returns.

        Args:
            step: as in `log`.
            micro_step: as in `log`.
            input_ids: [T] or [1, T], prompts and responses one behind the other; tokens behind the
                last sequence are padding.
            seq_lens: [S], the length of each sequence (of `cu_seqlens`: its differences).
            loss_mask: [T], 1 = the token enters the loss.
            prompt_lens: [S]; default: a response begins with its first token of the loss.
            rewards: [S], the total.
            meta: column -> S values, as in `log`.
            positions: array -> whose value its value at token i is: "predicted" (of token i given those
                before it; the first of a sequence has none), "predicting" (of token i + 1, as the logits
                at i are) or "token" (of token i itself). Default: "token" for advantages, returns,
                values, token_rewards, versions and masks, else "predicted".
            **arrays: [T] beside `input_ids`, or [S]. No value is carried from one sequence into another.
        """
        frame = {
            "input_ids": input_ids,
            "seq_lens": seq_lens,
            "loss_mask": loss_mask,
            "prompt_lens": prompt_lens,
            "positions": positions,
        }
        given = {"reward": rewards, **arrays}
        self._log(take_packed, step, micro_step, frame, given, meta, seq_lens)

    def log_ragged(
        self,
        /,
        step: int,
        *,
        micro_step: int = 0,
        token_ids: Sequence[Any] | None = None,
        response_lengths: Any = None,
        loss_mask: Sequence[Any] | None = None,
        rewards: Any = None,
        meta: Mapping[str, Sequence[Any]] | None = None,
        **lists: Any,
    ) -> None:
        """Logs B rollouts of any lengths. All is copied when it returns.

        Args:
            step: as in `log`.
            micro_step: as in `log`.
            token_ids: B rows, prompt and response behind each other; None where only texts are
                known, which are in `meta` then. Rows are lists, arrays or tensors.
            response_lengths: [B], how many tokens at the end of each row are the response. 0 for a
                rollout that failed; what happened goes into `meta` (`finish_reason`, `error`).
            loss_mask: B rows, as in `lists`.
            rewards: [B], the total.
            meta: column -> B values, as in `log`.
            **lists: B rows as long as the response or as the whole row, or [B] numbers. A row of
                None was not recorded.
        """
        frame = {"token_ids": token_ids, "response_lengths": response_lengths}
        given = {"reward": rewards, "loss_mask": loss_mask, **lists}
        self._log(take_ragged, step, micro_step, frame, given, meta, token_ids)

    def end_step(self, step: int, /, **metrics: Any) -> None:
        """Says that this rank logged all of `step`; `metrics` are kept with it, of any name."""
        try:
            step = whole_number("step", step)
            if self._intake is not None and self.wants(step):
                self._intake.end_step(step, metrics)
        except Exception as error:
            self._counters.fail("end_step", error)
            if self._strict:
                raise

    def flush(self, timeout: float | None = 30.0) -> bool:
        """Waits until all is in the file; False where `timeout` seconds did not do (None: no limit).

        With `max_samples_per_step` the rollouts of a step wait for its end.
        """
        intake = self._intake
        return intake.flush(seconds(timeout)) if intake and os.getpid() == self._process else True

    def close(self, timeout: float | None = SECONDS_TO_CLOSE) -> None:
        """Writes what is queued and the closing line. A second call and a forked child do nothing."""
        if os.getpid() != self._process or self._intake is None:
            return
        with self._closing:
            if not self._open:
                return
            self._losses.reason = "after the exporter was closed"
            self._open = False
        atexit.unregister(self.close)
        self._undo_sigterm()
        try:
            self._intake.close(seconds(timeout))
        except Exception as error:
            self._counters.fail("close", error)
        finally:
            self._closed.set()

    def report_error(
        self, where: str, error: Exception, *, step: int | None = None, rollouts: int = 0
    ) -> None:
        """Counts an error of a hook and the rollouts it cost. Raises it in strict mode."""
        self._losses.add(step, rollouts)
        self._counters.fail(where, error)
        if self._strict:
            raise error

    def give_up(self, error: Exception) -> None:
        """Says once why nothing will be written, and counts what is logged from now on as lost."""
        self._losses.reason = f"because nothing can be written: {reason(error)}"
        self._counters.add("errors:open")
        self._counters.warn(f"rollouts are not exported: {reason(error)}", always=True)

    def disable_in_child(self) -> None:
        """Called in a forked process: the file and the locks belong to the parent."""
        self._open = False
        self._intake = None
        self._counters = Counters()
        self._losses = Losses(self._counters)

    def _start(
        self,
        settings: Settings,
        run: Mapping[str, Any],
        tokenizer: Any,
        redaction: Redaction | None,
    ) -> None:
        started = time.time()
        settings = named(settings, started)
        self.attempt = settings.attempt
        self._journal, self._intake = open_files(
            settings, started, run, tokenizer, redaction, self._counters, strict=self._strict
        )
        self._losses.journal = self._journal
        self._open = True
        for call in ("wants", "log", "log_packed", "log_ragged", "end_step"):
            setattr(self, call, run_uncompiled(getattr(self, call)))
        disable_in_children(self)
        atexit.register(self.close)

    def _undo_sigterm(self) -> None:
        """Replaced where SIGTERM was taken over."""

    def _drain(self) -> None:
        self.close()
        self._closed.wait(SECONDS_TO_CLOSE)  # where SIGTERM came while a `close` was waiting

    def _log(
        self,
        take: Take,
        step: Any,
        micro_step: int,
        frame: Mapping[str, Any],
        arrays: Mapping[str, Any],
        meta: Mapping[str, Sequence[Any]] | None,
        rollouts: Any,
    ) -> None:
        number = None
        try:
            number = whole_number("step", step)
            if self._losses.reason and number % self._every == 0:
                self._losses.add_late(number, count_rollouts(rollouts))
            elif self._intake is not None and self.wants(number):
                self._intake.log(take, (number, micro_step), frame, arrays, meta)
        except Exception as error:
            self._losses.add(number, count_rollouts(rollouts))
            self._counters.fail("log", error)
            if self._strict:
                raise
