"""One rollout, opened whole: read again from its place in the log, with every token and value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, Final

import numpy as np

from board.analysis.audit import audited_remarks, repeated_key
from board.analysis.log_line import changed, parse_lightly, read_line
from board.analysis.step_records import PLACES, Progress, StepRecords, logged, with_reward
from board.core.arrays import FloatArray
from board.core.metrics.definitions import token_metrics
from board.core.metrics.kl import recorded_gamma, td_error, without_fill
from board.core.records import Record, Remark, TopK, read_top_k
from board.core.tokens.masks import RULES, hit, recorded_clip
from board.core.tokens.pieces import PLACEHOLDER, PLACEHOLDER_SIGN, joined
from board.core.tokens.scales import Histogram, Span
from board.core.tokens.vocabulary import Vocabulary, id_texts
from board.errors import RecordError
from board.formats import reader_named
from board.formats.base import LineContext, Reader
from board.formats.messages import response_text
from board.formats.parse import repeated_keys
from board.index import segments
from board.index.discovery.run_info import LogFile
from board.index.reading.record_row import previews
from board.index.reading.scan import MENDED
from board.index.whole_texts import prompt_tokens, response_tokens
from board.query.open_run import Run
from board.query.rollouts import joined_places

_COLUMNS: Final = (
    *("step", "file", *segments.LOCATION, segments.PART),
    *("rollout_id", "reward", "prompt", "response"),
)
"""Columns of the rollouts by which one is found again in the log, and known to be the same."""


@dataclass(frozen=True, slots=True)
class OpenRollout:
    """A rollout with its tokens as text.

    lines: by reader what reads its line again.
    tokens: display text of each response token, [R].
    prompt_tokens: of each prompt token, [P]; None where the log has no prompt ids.
    metrics: every token metric, recorded or derived, float64, each of its recorded length.
    tokens_are_ids: there is no vocabulary, so that ids are shown in place of text.
    top_k: the likeliest tokens at each position; None where not recorded.
    clip: the clip range of the run's settings, by threshold name of core.masks; None without one.
    """

    step: int
    index: int
    record: Record
    lines: Mapping[str, Callable[[], Mapping[str, Any]]]
    tokens: tuple[str, ...]
    prompt_tokens: tuple[str, ...] | None
    metrics: Mapping[str, FloatArray]
    tokens_are_ids: bool
    remarks: tuple[Remark, ...]
    top_k: TopK | None = None
    clip: Mapping[str, float] | None = None

    @property
    def line(self) -> Mapping[str, Any]:
        """The parsed line as the log holds it, of a line of several its own part; by reader where it was
        joined of several logs. Read again, since it takes many times the memory of all else. Raises
        UnreadableError.
        """
        lines = {reader: read() for reader, read in self.lines.items()}
        return lines if len(lines) > 1 else next(iter(lines.values()))

    @property
    def response_text(self) -> str:
        """What was generated: the text, else its tokens, else the messages from the first of the
        assistant on. Empty where the log holds none.
        """
        text = self.record.texts.get("response") or joined(self.tokens)
        return text or response_text(self._turns)

    @property
    def transcript(self) -> str:
        """The messages from the first of the assistant on under their roles where there are several,
        else `response_text`.
        """
        return response_text(self._turns) if len(self._turns) > 1 else self.response_text

    @property
    def compared_text(self) -> str:
        """What a response is compared by: its tokens together where their texts are known, else the
        transcript.
        """
        return joined(self.tokens) if self.tokens and not self.tokens_are_ids else self.transcript

    @property
    def texts(self) -> dict[str, str]:
        """Whole texts by name: those recorded, the response, and the transcript where that is another."""
        texts = dict(self.record.texts)
        if "response" not in texts and self.response_text:
            texts["response"] = self.response_text
        if self.transcript not in texts.values():
            texts["transcript"] = self.transcript
        return texts

    @property
    def token_count(self) -> int:
        """Tokens of the response; of one without them the entries of its longest array."""
        return len(self.tokens) or max(map(len, self.metrics.values()), default=0)

    @property
    def listed_tokens(self) -> list[str]:
        """The tokens as they are listed one by one."""
        return [PLACEHOLDER_SIGN if text == PLACEHOLDER else text for text in self.tokens]

    @property
    def _turns(self) -> list[Mapping[str, Any]]:
        messages = self.record.messages
        return [*dropwhile(lambda message: message.get("role") != "assistant", messages)]


def open_rollout(
    run: Run, step: int, index: int, vocabulary: Vocabulary | None = None
) -> OpenRollout:
    """Reads one rollout by its step and its index within the step.

    vocabulary: decodes ids where the run has none of its own. Pieces in the record come first, then
    the run's vocab.json, then this; without any, ids are shown.

    Raises NotFoundError when the run has none there, UnreadableError when its file can't be read or
    no longer holds that line.
    """
    row = run.row(step, index, _COLUMNS)
    lines, record, of_lines = _read(run, row)
    metrics, remarks = _metrics(run, record)
    remarks += of_lines
    vocabulary = run.vocabulary or vocabulary
    tokens, are_ids = response_tokens(vocabulary, record)
    top_k = _top_k(record, vocabulary, len(tokens))
    if top_k is None and record.extras.get("topk_logprobs") is not None:
        reason = "topk_ids and topk_logprobs are not one row per response token"
        remarks.append(Remark("topk_logprobs", reason, "top-k alternatives are not shown"))
    if not tokens and not metrics and record.texts.get("response"):
        hint = "the rollout is shown as text, without token colours"
        remarks.append(Remark("response_ids", "no tokens are recorded", hint, "note"))
    return OpenRollout(
        step=step,
        index=index,
        record=record,
        lines=lines,
        tokens=tuple(tokens),
        prompt_tokens=prompt_tokens(vocabulary, record),
        metrics=metrics,
        tokens_are_ids=are_ids,
        remarks=(*record.remarks, *remarks),
        top_k=top_k,
        clip=_clip(run),
    )


def _metrics(run: Run, record: Record) -> tuple[dict[str, FloatArray], list[Remark]]:
    """Every token metric, recorded or derived, and what was wrong with those recorded."""
    values, remarks = _values(record)
    metrics = token_metrics(values)
    clip, gamma = _clip(run), _gamma(run)
    if clip is not None:
        metrics |= _clipped(metrics, record, clip)
    if gamma != 1 and "td_error" in metrics and "td_error" not in values:
        metrics["td_error"] = td_error(values["token_rewards"], values["values"], gamma)
    return metrics, remarks


def _gamma(run: Run) -> float:
    """The discount of the newest settings."""
    newest = max(run.settings, default=None)
    return 1.0 if newest is None else recorded_gamma(run.settings[newest])


def _clip(run: Run) -> Mapping[str, float] | None:
    """The clip range of the newest settings that name one."""
    clips = (recorded_clip(run.settings[name]) for name in sorted(run.settings, reverse=True))
    return next((clip for clip in clips if clip is not None), None)


def _clipped(
    metrics: Mapping[str, FloatArray], record: Record, clip: Mapping[str, float]
) -> dict[str, FloatArray]:
    """Which tokens the run's own clip range stops, where the ratio and the advantage are known."""
    ratio, advantages = metrics.get("importance_ratio"), metrics.get("advantages")
    if ratio is None or "clipped" in metrics:
        return {}
    if advantages is None and "advantage" in record.scores:
        advantages = np.full(ratio.shape, record.scores["advantage"])
    if advantages is None or advantages.shape != ratio.shape:
        return {}
    clipped = hit(RULES["ratio_clip"], ratio, clip, advantages).astype(np.float64)
    return {"clipped": np.where(np.isnan(ratio) | np.isnan(advantages), np.nan, clipped)}


def _top_k(record: Record, vocabulary: Vocabulary | None, length: int) -> TopK | None:
    recorded = read_top_k(record.extras, length)
    if recorded is None:
        return None
    recorded_ids, logprobs = recorded
    unique, places = np.unique(recorded_ids, return_inverse=True)
    ids = unique.astype(np.float64)
    # One by one: a piece alone is itself and completes no character of another.
    alone = vocabulary.texts if vocabulary else id_texts
    texts = [alone(ids[i : i + 1])[0] for i in range(len(ids))]
    shaped = places.reshape(recorded_ids.shape).astype(np.int32)
    return TopK(texts, np.where(recorded_ids < 0, np.int32(-1), shaped), logprobs)


_MOST_AUDITED: Final = 64
"""Of a line of more rollouts it is not said what it holds beside them; `check` says it."""


@dataclass(frozen=True, slots=True)
class _Logged:
    """What one log has of a rollout. line: reads its line, of a line of several its part of it.
    is_mended: whether broken text in it had to be mended. not_shown: remarks on what of the line is not
    shown.
    """

    line: Callable[[], Mapping[str, Any]]
    record: Record
    is_mended: bool
    not_shown: Sequence[Remark]


def _read(
    run: Run, row: Mapping[str, Any]
) -> tuple[Mapping[str, Callable[[], Mapping[str, Any]]], Record, list[Remark]]:
    """What reads the lines of a row by reader, its Record, and remarks on the lines.

    There are several where it is joined of several logs; the Record has remarks on token arrays that
    differ between them then.
    """
    first = _read_log(run, row)
    reader = _file(run, row).reader
    joined, logs = logged(reader_named(reader), first.record), {reader: first}
    for place in joined_places(run, row):
        log, reader = _read_log(run, place), _file(run, place).reader
        joined = joined.with_other(logged(reader_named(reader), log.record), compare=True)
        logs[reader] = log
    record = joined.record
    if run.rows.derived.reward is not None and (reward := row.get("reward")) is not None:
        record = with_reward(record, float(reward))
    if not _is_of_row(record, row, run.vocabulary, first.record):
        raise changed(_where(run, row))
    remarks = [remark for log in logs.values() for remark in log.not_shown]
    if any(log.is_mended for log in logs.values()):
        remarks.append(MENDED)
    return {reader: log.line for reader, log in logs.items()}, record, remarks


def _file(run: Run, place: Mapping[str, Any]) -> LogFile:
    return run.info.files[int(place["file"])]


def _where(run: Run, place: Mapping[str, Any]) -> str:
    return f"{_file(run, place).path.name}:{int(place['line'])}"


def _read_log(run: Run, place: Mapping[str, Any]) -> _Logged:
    """What the log at a place has of a rollout. Raises UnreadableError."""
    file, where = _file(run, place), _where(run, place)
    reader = reader_named(file.reader)
    context = LineContext(file.path, run.options.read, reader.layout, int(place["line"]))
    read = read_line(file, context, place, parse_lightly)
    try:
        record = reader.record(read.part, context)
    except RecordError as error:
        raise changed(where, error.reason) from error
    if not isinstance(record, Record):
        raise changed(where)
    remarks: list[Remark] = []
    if len(read.rows) <= _MOST_AUDITED:
        others = [read.rows[n] for n in range(len(read.rows)) if n != read.number]
        records = [record, *_records(reader, others, context)]
        remarks = audited_remarks(reader, read.content, records)
        if read.text is not None:
            remarks += map(repeated_key, repeated_keys(read.text, read.content))

    def line() -> Mapping[str, Any]:
        return read_line(file, context, place).part

    return _Logged(line, record, read.is_mended, remarks)


def _records(
    reader: Reader, rows: Sequence[Mapping[str, Any]], context: LineContext
) -> Iterator[Record]:
    """The rollouts of some rows of a line, without those that can't be used."""
    for row in rows:
        with suppress(RecordError):
            if isinstance(record := reader.record(row, context), Record):
                yield record


def _is_of_row(
    record: Record, row: Mapping[str, Any], vocabulary: Vocabulary | None, own: Record
) -> bool:
    """Whether a line read again holds the rollout that the row was made from.

    own: what its first log says, whose beginnings of texts count where it has any.
    """
    texts = zip(previews(own, vocabulary), previews(record, vocabulary), strict=True)
    prompt, response = (ours if ours is not None else both for ours, both in texts)
    known = {
        "step": record.step,
        "rollout_id": record.ids.get("rollout_id"),
        "reward": record.scores.get("reward"),
        "prompt": prompt,
        "response": response,
    }
    return all(row.get(name, value) == value for name, value in known.items())


def _values(record: Record) -> tuple[dict[str, FloatArray], list[Remark]]:
    """The recorded token arrays, parsed; those that hold something else are named."""
    values: dict[str, FloatArray] = {}
    remarks: list[Remark] = []
    for name, array in record.tokens.items():
        try:
            numbers = array.values()
            values[name] = without_fill(numbers) if name.endswith("logprobs") else numbers
        except RecordError as error:
            remarks.append(Remark(name, f"{name} {error.reason}", f"expected: {error.hint}"))
    return values, remarks


@dataclass(frozen=True, slots=True)
class StepSpans:
    """spans: by metric, over loss tokens; of `read` rollouts out of `total`."""

    spans: dict[str, Span]
    read: int
    total: int


def read_spans(run: Run, step: int, progress: Progress) -> StepSpans:
    """Reads the token metrics of a step; a metric without a number is left out, and so are rollouts that
    can't be read.
    """
    spreads: dict[str, Histogram] = {}
    read, total = 0, run.counts.get(step, 0)
    for _, record in StepRecords(run).of(run.frame(PLACES, (step, step))):
        read += 1
        for name, values in in_loss(_metrics(run, record)[0]).items():
            spreads.setdefault(name, Histogram()).add(values)
        progress(read, total)
    ranges = {name: one.span() for name, one in spreads.items()}
    return StepSpans({name: span for name, span in ranges.items() if span is not None}, read, total)


def in_loss(metrics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Token metrics at the tokens that enter the loss, those of an unknown mask too; at all of them where
    no mask fits.
    """
    mask = metrics.get("loss_mask")
    return {
        name: values[mask != 0] if mask is not None and len(mask) == len(values) else values
        for name, values in metrics.items()
    }
