"""One rollout, opened whole: read again from its place in the log, with every token and value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from board.core.metrics import token_metrics
from board.core.pieces import detect_coding, display_pieces, joined
from board.core.records import FloatArray, Record, Remark
from board.core.vocabulary import Vocabulary, id_texts
from board.errors import NotFoundError, RecordError, UnreadableError
from board.readers import reader_named
from board.readers.fields import message_text
from board.readers.lines import read_bytes
from board.readers.parse import parse_whole
from board.store.run import Run
from board.store.scan import MENDED, previews

_SEARCHED: Final = ("prompt", "response", "ref_response", "ground_truth")


@dataclass(frozen=True, slots=True)
class OpenRollout:
    """A rollout with its tokens as text.

    line: the parsed line as the log holds it. tokens: display text of each response token, [R].
    prompt_tokens: of each prompt token, [P]; None where the log has no prompt ids.
    metrics: every token metric, recorded or derived, float64, each of its recorded length.
    tokens_are_ids: there is no vocabulary, so that ids stand in the place of text.
    """

    step: int
    index: int
    record: Record
    line: Mapping[str, Any]
    tokens: tuple[str, ...]
    prompt_tokens: tuple[str, ...] | None
    metrics: Mapping[str, FloatArray]
    tokens_are_ids: bool
    remarks: tuple[Remark, ...]


def open_rollout(run: Run, step: int, index: int) -> OpenRollout:
    """Reads one rollout by its step and its index within the step.

    Raises NotFoundError when the run has none there, UnreadableError when its file can't be read or
    no longer holds that line.
    """
    row = run.row(step, index)
    line, record, mended = _read(run, row)
    values, remarks = _values(record)
    if mended:
        remarks.append(MENDED)
    tokens, are_ids = _response_tokens(run, record)
    if not tokens and not values and record.texts.get("response"):
        remarks.append(Remark("response_ids", "no tokens are recorded", "texts only", "note"))
    return OpenRollout(
        step=step,
        index=index,
        record=record,
        line=line,
        tokens=tuple(tokens),
        prompt_tokens=_prompt_tokens(run, record),
        metrics=token_metrics(values),
        tokens_are_ids=are_ids,
        remarks=(*record.remarks, *remarks),
    )


def _read(run: Run, row: pd.Series[Any]) -> tuple[Mapping[str, Any], Record, bool]:
    """The line of a row, its Record, and whether broken text in it had to be mended."""
    file = run.info.files[int(row["file"])]
    where = f"{file.path.name}:{int(row['line'])}"
    try:
        text = read_bytes(file.path, int(row["offset"]), int(row["size"]))
        line, mended = parse_whole(text.rstrip(b"\n"))
        record = reader_named(file.reader).read(line, run.options.read)
    except OSError as error:
        raise UnreadableError(
            f"{where} can't be read: {error.strerror}; was the log moved?"
        ) from error
    except RecordError as error:
        raise UnreadableError(
            f"{where} no longer holds the rollout it held ({error.reason}); reload the run"
        ) from error
    if not isinstance(record, Record) or not _is_of_row(record, row, run.vocabulary):
        raise UnreadableError(f"{where} no longer holds the rollout it held; reload the run")
    return line, record, mended


def _is_of_row(record: Record, row: pd.Series[Any], vocabulary: Vocabulary | None) -> bool:
    """Whether a line read again holds the rollout that the row was made from."""
    prompt, response = previews(record, vocabulary)
    known = {
        "step": record.step,
        "rollout_id": record.ids.get("rollout_id"),
        "reward": record.scores.get("reward"),
        "prompt": prompt,
        "response": response,
    }
    for name, value in known.items():
        expected: Any = row.get(name, value)
        if pd.notna(expected) if value is None else expected != value:
            return False
    return True


def _values(record: Record) -> tuple[dict[str, FloatArray], list[Remark]]:
    """The recorded token arrays, parsed; those that hold something else are named."""
    values: dict[str, FloatArray] = {}
    remarks: list[Remark] = []
    for name, array in record.tokens.items():
        try:
            values[name] = array.values()
        except RecordError as error:
            remarks.append(Remark(name, f"{name} {error.reason}", f"expected: {error.hint}"))
    return values, remarks


def _response_tokens(run: Run, record: Record) -> tuple[list[str], bool]:
    if record.response_tokens is not None:
        pieces = list(record.response_tokens)
        return display_pieces(pieces, detect_coding(pieces, record.texts.get("response"))), False
    if record.response_ids is None:
        return [], False
    ids = record.response_ids.values()
    if run.vocabulary is not None:
        return run.vocabulary.texts(ids), False
    return id_texts(ids), True


def _prompt_tokens(run: Run, record: Record) -> tuple[str, ...] | None:
    if record.prompt_ids is None:
        return None
    ids = record.prompt_ids.values()
    return tuple(run.vocabulary.texts(ids) if run.vocabulary else id_texts(ids))


def search(run: Run, rows: pd.DataFrame, text: str, *, regex: bool = False) -> pd.Series[bool]:
    """Which of `rows` (of run.rollouts) have `text` in their prompt, responses or ground truth.

    Reads the whole texts from the log, not the previews; case is ignored. Lines that can't be read
    any more do not match. Raises NotFoundError when `text` is no valid regular expression.
    """
    try:
        pattern = re.compile(text if regex else re.escape(text), re.IGNORECASE)
    except re.error as error:
        raise NotFoundError(f"{text!r} is no regular expression: {error}") from error
    hits = [_matches(run, row, pattern) for row in _located(rows)]
    return pd.Series(hits, index=rows.index, dtype=bool)


def _located(rows: pd.DataFrame) -> Iterator[pd.Series[Any]]:
    wanted = [
        "step",
        "file",
        "line",
        "offset",
        "size",
        "rollout_id",
        "reward",
        "prompt",
        "response",
    ]
    for _, row in rows[[name for name in wanted if name in rows]].iterrows():
        yield row


def _matches(run: Run, row: pd.Series[Any], pattern: re.Pattern[str]) -> bool:
    try:
        _, record, _ = _read(run, row)
    except UnreadableError:
        return False
    return any(pattern.search(text) for text in _texts(run, record))


def _texts(run: Run, record: Record) -> Iterator[str]:
    """All that was said in a rollout; decoded from tokens where the log has no text."""
    yield from (record.texts[name] for name in _SEARCHED if name in record.texts)
    yield from (message_text(message) for message in record.messages)
    if "prompt" not in record.texts:
        yield joined(_prompt_tokens(run, record) or ())
    if "response" not in record.texts:
        yield joined(_response_tokens(run, record)[0])
