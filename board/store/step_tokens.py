"""Reads the tokens of a step, or of some of its rollouts, into flat arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.alignment import words
from board.core.joined_records import Told
from board.core.metrics import DERIVED
from board.core.options import ReadOptions
from board.core.pieces import Coding, detect_coding, display_pieces, joined
from board.core.records import FloatArray, NumberArray, Record
from board.core.schema import TOKEN_ARRAY_FIELDS
from board.core.step_tokens import StepTokens
from board.core.token_kinds import KINDS, kinds_of
from board.core.turns import from_markers, of_tokens, with_tool_names
from board.core.vocabulary import Vocabulary, id_texts
from board.errors import RecordError
from board.readers import reader_named, source_of
from board.readers.base import Place, Reader
from board.readers.parse import LineParser, parse_whole
from board.readers.sources import Row
from board.store.log_file import LogFile
from board.store.packed import readable
from board.store.run import Run
from board.store.segments import PART

Progress = Callable[[int, int], None]
"""Called with rollouts done and rollouts in all; raising from it stops the reading."""

_NUMBERS: Final = ("reward", "advantage", "policy_version", "rank", "is_truncated")
_ROLE_MARKS: Final = frozenset(("template", "tool tag", "end of text"))
_BROKEN: Final = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]")
_LEAST_BROKEN: Final = 3
_MOST_OPEN: Final = 4
"""Files of a joined run at hand at once: one of each log, as a rule."""
_FAULTY: Final = 3
_PLACES: Final = ("step", "index", "file", "line", "offset", "size", PART)


@dataclass(frozen=True, slots=True)
class ReadTokens:
    """What of each rollout is read. arrays: token arrays by name; () is all that are recorded.

    roles: whether to find out who speaks where, which takes a look at every token's text where the
    log has chat-template markers. columns: further columns of the rollouts table for `numbers`.
    texts: whether to look at the responses as texts: `numbers["broken"]` is then the share of their
    characters that are no text, and words stand for tokens where a rollout has no tokens.
    """

    arrays: tuple[str, ...] = ()
    roles: bool = True
    columns: tuple[str, ...] = ()
    texts: bool = False

    @classmethod
    def of_metric(cls, metric: str) -> ReadTokens:
        """What a token metric needs, and no more."""
        needs = DERIVED[metric].needs if metric in DERIVED else (metric,)
        return cls(tuple(dict.fromkeys((*needs, metric))))


@dataclass(slots=True)
class _Read:
    """One rollout as far as it is needed. tokens: ids as numbers, or codes of pieces as whole ones."""

    place: int
    length: int
    arrays: dict[str, FloatArray]
    tokens: FloatArray | npt.NDArray[np.int32] | None
    segments: Sequence[Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]] = ()
    broken: float = float("nan")
    faults: list[str] = field(default_factory=list[str])


COLUMNS: Final = (*_PLACES, *_NUMBERS)
"""Columns of the rollouts table that `StepReader.read` takes."""


def read_step(
    run: Run,
    step: int,
    what: ReadTokens | None = None,
    indices: Iterable[int] | None = None,
    vocabulary: Vocabulary | None = None,
    progress: Progress | None = None,
) -> StepTokens:
    """The tokens of a step's rollouts.

    indices: of the rollouts to read; None is all. vocabulary: decodes ids where the run has none.
    Rollouts that can't be read are left out and counted. Raises NotFoundError when the run has no such
    step.
    """
    run.row(step, 0)
    rows = run.of_step(step)
    if indices is not None:
        rows = rows[rows["index"].isin(list(indices))]
    found = StepReader(run, what, vocabulary).read(step, rows, progress)
    return replace(found, left_out=len(run.of_step(step)) - len(found.indices))


class StepReader:
    """Reads steps of a run one after the other, keeping what it learned of tokens and lines."""

    def __init__(
        self, run: Run, what: ReadTokens | None = None, vocabulary: Vocabulary | None = None
    ) -> None:
        self._run, self._what = run, what or ReadTokens()
        self._texts = _Texts(run.vocabulary or vocabulary)
        self._parsers: dict[str, LineParser] = {}

    def read(self, step: int, rows: pd.DataFrame, progress: Progress | None = None) -> StepTokens:
        """The tokens of these rollouts of a step. rows: of the rollouts table, with COLUMNS as far as
        the run has them. Rollouts that can't be read are left out and counted.
        """
        found = sorted(self._rollouts(rows, progress), key=lambda read: read.place)
        return _joined(step, rows, found, self._texts, self._what)

    def _rollouts(self, rows: pd.DataFrame, progress: Progress | None) -> Iterator[_Read]:
        for place, record in self.records(rows, progress):
            yield _needed(place, record, self._what, self._texts)

    def records(
        self, rows: pd.DataFrame, progress: Progress | None = None
    ) -> Iterator[tuple[int, Record]]:
        """The rollouts that can be read with their places in rows, file after file in the order of
        their bytes.
        """
        if self._run.info.is_joined:
            yield from self._joined(rows, progress)
            return
        numbers, parts = rows["file"].to_numpy(), _parts(rows)
        lines, offsets, sizes = (rows[name].to_numpy() for name in ("line", "offset", "size"))
        done = 0
        present: list[int] = np.unique(numbers).tolist()
        for number in present:
            try:
                file = _Lines(self._run.info.files[number], self._run.options.read, self._parsers)
                for place in np.flatnonzero(numbers == number).tolist():
                    at = (int(lines[place]), int(offsets[place]), int(sizes[place]))
                    record = file.record(*at, int(parts[place]))
                    if record is not None:
                        yield place, record
                    done += 1
                    if progress is not None:
                        progress(done, len(rows))
            except OSError:
                continue

    def _joined(
        self, rows: pd.DataFrame, progress: Progress | None
    ) -> Iterator[tuple[int, Record]]:
        """As records, of a run that is joined of several logs, in the order of the last one's files: its
        arrays are the longest, so that they are read once.
        """
        logs = _Logs(self._run, self._parsers)
        places = [[row, *self._run.joined_places(row)] for row in _located(rows)]
        order = sorted(range(len(places)), key=lambda i: [_at(place) for place in places[i][::-1]])
        for done, place in enumerate(order, start=1):
            record = logs.joined(places[place])
            if record is not None:
                yield place, record
            if progress is not None:
                progress(done, len(rows))


def _located(rows: pd.DataFrame) -> Iterator[dict[str, int]]:
    """Where each row stands."""
    names = ("step", "file", "line", "offset", "size")
    columns = [rows[name].tolist() for name in names]
    for *values, part in zip(*columns, _parts(rows).tolist(), strict=True):
        yield {**dict(zip(names, map(int, values), strict=True)), PART: part}


def _at(place: Mapping[str, int]) -> tuple[int, int, int]:
    return place["file"], place["line"], place[PART]


def _parts(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """[rows] which of the rollouts of its line each one is."""
    if PART not in rows:
        return np.zeros(len(rows), np.int64)
    return rows[PART].fillna(0).to_numpy(np.int64)


class _Lines:
    """One file: its rollouts again, by their places. Raises OSError when the file can't be read."""

    def __init__(self, file: LogFile, options: ReadOptions, parsers: dict[str, LineParser]) -> None:
        self._reader = reader_named(file.reader)
        self._source, self._path = source_of(file.path), readable(file).path
        self._place = Place(file.path, options, self._reader.layout)
        self._parser = parsers.setdefault(file.reader, LineParser())
        several = type(self._reader).rows is not Reader.rows
        self._by_rows = several or not self._source.appends
        self._last: tuple[int, Sequence[Mapping[str, Any]]] = (-1, ())

    def record(self, line: int, offset: int, size: int, part: int) -> Record | None:
        """The rollout at that place; None where it can't be read any more."""
        self._place.line = line
        try:
            if self._last[0] != offset:  # rollouts of one line follow each other
                self._last = (offset, self._rows(offset, size))
            rows = self._last[1]
            found = self._reader.read(rows[part], self._place) if part < len(rows) else None
        except RecordError:
            return None
        return found if isinstance(found, Record) else None

    def told(self, record: Record) -> Told:
        """A rollout of it as what this log tells of one."""
        join = self._reader.join
        return Told(record, self._reader.title, join is not None and join.is_trainer)

    def _rows(self, offset: int, size: int) -> Sequence[Mapping[str, Any]]:
        line = self._source.fetch(self._path, offset, size)
        if isinstance(line, Row):
            return self._reader.rows(line.record, self._place)
        text = line.text or b""
        if not self._by_rows:
            return (self._parser.parse(text)[0],)
        return self._reader.rows(parse_whole(text)[0], self._place)


class _Logs:
    """Rollouts that several logs tell of, with a few files at hand."""

    def __init__(self, run: Run, parsers: dict[str, LineParser]) -> None:
        self._run, self._parsers = run, parsers
        self._open: dict[int, _Lines] = {}

    def joined(self, places: Sequence[Mapping[str, int]]) -> Record | None:
        """The record of one rollout; None where one of its logs can't be read any more."""
        told: Told | None = None
        for place in places:
            try:
                lines = self._lines(place["file"])
                record = lines.record(*(place[name] for name in ("line", "offset", "size", PART)))
            except OSError:
                return None
            if record is None:
                return None
            other = lines.told(record)
            told = other if told is None else told.with_other(other, compare=False)
        return None if told is None else told.record

    def _lines(self, number: int) -> _Lines:
        if number not in self._open:
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open)))
            file = self._run.info.files[number]
            self._open[number] = _Lines(file, self._run.options.read, self._parsers)
        return self._open[number]


class _Texts:
    """Gives every distinct token a code; ids and pieces may both occur in a run."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self._vocabulary = vocabulary
        self._pieces: dict[tuple[Coding, str], int] = {}
        self._codes: dict[int, int] = {}
        self._special: list[int] = []
        self._kinds = np.zeros(0, np.int8)
        self.shown: list[str] = []

    def of_pieces(self, pieces: Sequence[str], response: str | None) -> npt.NDArray[np.int32]:
        coding = detect_coding(pieces, response)
        inverse, unique = pd.factorize(np.asarray(pieces, object))
        known = np.array([self._code_of_piece(piece, coding) for piece in unique], np.int32)
        return known[inverse] if len(known) else np.zeros(0, np.int32)

    def _code_of_piece(self, piece: str, coding: Coding) -> int:
        known = self._pieces.get((coding, piece))
        if known is None:
            known = self._pieces[coding, piece] = len(self.shown)
            self.shown.append(display_pieces([piece], coding)[0])
        return known

    def of_ids(self, ids: FloatArray) -> npt.NDArray[np.int32]:
        """All ids at once: most occur many times, and each is decoded once."""
        known = np.isfinite(ids)
        codes = np.full(len(ids), -1, np.int32)
        inverse, unique = pd.factorize(ids[known].astype(np.int64))
        numbers: list[int] = unique.tolist()
        self._learn([number for number in numbers if number not in self._codes])
        own = np.array([self._codes[number] for number in numbers], np.int32)
        codes[known] = own[inverse] if len(own) else 0
        return codes

    def _learn(self, ids: list[int]) -> None:
        first = len(self.shown)
        self._codes |= {number: first + place for place, number in enumerate(ids)}
        if self._vocabulary:
            special = self._vocabulary.special_ids
            self._special += [self._codes[number] for number in ids if number in special]
            self.shown += self._vocabulary.alone(ids)
        else:
            self.shown += id_texts(np.array(ids, np.float64))

    def decoded(self, ids: npt.NDArray[Any]) -> str:
        """The text of a whole response; empty without a vocabulary."""
        return joined(self._vocabulary.texts(ids)) if self._vocabulary else ""

    def kinds(self) -> npt.NDArray[np.int8]:
        """[shown] codes; those known before are not judged again."""
        first = len(self._kinds)
        special = [place - first for place in self._special if place >= first]
        self._kinds = np.append(self._kinds, kinds_of(self.shown[first:], special))
        return self._kinds


def _needed(place: int, record: Record, what: ReadTokens, texts: _Texts) -> _Read:
    """The arrays that are asked for, of the length that most have, and the tokens' codes."""
    names = ("loss_mask", *what.arrays) if what.arrays else (*record.tokens,)
    held = {name: record.tokens[name] for name in names if name in record.tokens}
    length = _length(record, held)
    arrays: dict[str, FloatArray] = {}
    faults: list[str] = []
    for name, array in held.items():
        values = _values(array) if len(array) == length else None
        if values is None:
            faults.append(name)
        else:
            arrays[name] = values
    if "loss_mask" in faults:  # without it, means would be over other tokens
        arrays = {}
    tokens = _tokens(record, texts)
    response = record.texts.get("response") if what.texts else None
    if tokens is None and not arrays and response:
        tokens = texts.of_pieces(words(response), None)
        length = len(tokens)
    if tokens is not None and len(tokens) != length:
        tokens = None
        faults.append("response_ids")
    broken = _broken_share(response) if response else float("nan")
    # What tools said is told by them; of other runs they would only take memory.
    messages = record.messages if "sft_mask" in arrays else ()
    return _Read(place, length, arrays, tokens, record.segments, messages, broken, faults)


def _broken_share(text: str) -> float:
    """The share of characters that are no text: U+FFFD, control and private-use characters.

    One in the end is what a response cut within a character ends with.
    """
    count = len(_BROKEN.findall(text[:-1]))
    return count / len(text) if count >= _LEAST_BROKEN else 0.0


def _length(record: Record, held: Mapping[str, NumberArray]) -> int:
    lengths = [len(array) for array in held.values()]
    if not lengths:
        return record.response_length or 0
    return max(lengths, key=lengths.count)


def _values(array: NumberArray) -> FloatArray | None:
    try:
        return array.values()
    except RecordError:
        return None


def _tokens(record: Record, texts: _Texts) -> FloatArray | npt.NDArray[np.int32] | None:
    if record.response_tokens is not None:
        return texts.of_pieces(record.response_tokens, record.texts.get("response"))
    return None if record.response_ids is None else _values(record.response_ids)


def _codes(
    found: list[_Read], starts: npt.NDArray[np.int64], texts: _Texts
) -> npt.NDArray[np.int32]:
    """Codes of all tokens, -1 where a rollout has none."""
    codes = np.full(int(starts[-1]), -1, np.int32)
    of_ids = np.zeros(len(codes), bool)
    ids: list[FloatArray] = []
    for read, start in zip(found, starts.tolist(), strict=False):
        if read.tokens is None:
            continue
        if read.tokens.dtype == np.int32:
            codes[start : start + read.length] = read.tokens
        else:
            of_ids[start : start + read.length] = True
            ids.append(read.tokens.astype(np.float64, copy=False))
    if ids:
        codes[of_ids] = texts.of_ids(np.concatenate(ids))
    return codes


def _joined(
    step: int,
    rows: pd.DataFrame,
    found: list[_Read],
    texts: _Texts,
    what: ReadTokens,
) -> StepTokens:
    lengths = np.array([read.length for read in found], np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    kept = rows.iloc[[read.place for read in found]]
    names = sorted({name for read in found for name in read.arrays}, key=_rank)
    arrays = {name: _flat(found, name, starts) for name in names}
    arrays.pop("loss_mask", None)
    codes = _codes(found, starts, texts)
    kinds = texts.kinds()
    roles = _roles(found, codes, texts.shown, kinds, starts) if what.roles else ((), None, None)
    indices = kept["index"].to_numpy(np.int64)
    faulty: dict[str, list[int]] = {}
    for read, index in zip(found, indices.tolist(), strict=True):
        for name in read.faults:
            faulty.setdefault(name, []).append(index)
    return StepTokens(
        step=step,
        indices=indices,
        starts=starts,
        arrays=arrays,
        in_loss=_in_loss(found),
        codes=codes,
        pieces=[*texts.shown],
        kinds=kinds,
        roles=roles[0],
        role_codes=np.zeros(0, np.int16) if roles[1] is None else roles[1],
        turns=np.zeros(0, np.int32) if roles[2] is None else roles[2],
        numbers=_broken(found, codes, starts, kinds, texts)
        | {
            name: kept[name].to_numpy(np.float64, na_value=np.nan)
            for name in dict.fromkeys((*_NUMBERS, *what.columns))
            if name in kept
        },
        left_out=len(rows) - len(found),
        faults={name: len(own) for name, own in faulty.items()},
        faulty={name: own[:_FAULTY] for name, own in faulty.items()},
    )


def _broken(
    found: list[_Read],
    codes: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int8],
    texts: _Texts,
) -> dict[str, FloatArray]:
    """By rollout the share of characters that are no text; decoded from ids where there is no text."""
    shares = np.array([read.broken for read in found])
    part = KINDS.index("part of a character")
    is_part = np.append(kinds, np.int8(-1))[codes] == part
    for place in np.flatnonzero(np.isnan(shares)).tolist():
        read, own = found[place], is_part[starts[place] : starts[place + 1]]
        if own.any() and read.tokens is not None and read.tokens.dtype != np.int32:
            shares[place] = _broken_share(texts.decoded(read.tokens))
        elif read.tokens is not None:
            shares[place] = 0.0
    return {"broken": shares} if np.isfinite(shares).any() else {}


def _rank(name: str) -> int:
    return TOKEN_ARRAY_FIELDS.index(name) if name in TOKEN_ARRAY_FIELDS else len(TOKEN_ARRAY_FIELDS)


def _flat(found: list[_Read], name: str, starts: npt.NDArray[np.int64]) -> FloatArray:
    """The array of all rollouts, NaN where a rollout has none."""
    flat = np.full(int(starts[-1]), np.nan)
    for read, start in zip(found, starts.tolist(), strict=False):
        if name in read.arrays:
            flat[start : start + read.length] = read.arrays[name]
    return flat


def _in_loss(found: list[_Read]) -> npt.NDArray[np.bool_]:
    """A rollout without a loss_mask has all its tokens in the loss."""
    masks = [read.arrays.get("loss_mask", np.ones(read.length)) for read in found]
    return np.concatenate(masks) > 0 if masks else np.zeros(0, bool)


def _roles(
    found: list[_Read],
    codes: npt.NDArray[np.int32],
    shown: Sequence[str],
    kinds: npt.NDArray[np.int8],
    starts: npt.NDArray[np.int64],
) -> tuple[Sequence[str], npt.NDArray[np.int16] | None, npt.NDArray[np.int32] | None]:
    """Roles, and of each token the code of its role and the number of its turn."""
    marks = [
        code
        for code, kind in enumerate(kinds.tolist())
        if KINDS[kind] in _ROLE_MARKS and from_markers(shown[code])
    ]
    has_marks = np.zeros(len(shown) + 1, bool)
    has_marks[marks] = True
    names: dict[str, int] = {}
    roles = np.full(int(starts[-1]), -1, np.int16)
    numbers = np.zeros(int(starts[-1]), np.int32)
    for read, start in zip(found, starts.tolist(), strict=False):
        own = codes[start : start + read.length]
        if not read.segments and not read.messages and not has_marks[own].any():
            continue
        tokens = [shown[int(code)] if code >= 0 else "" for code in own.tolist()]
        turns = of_tokens(tokens, read.segments, read.messages)
        for number, turn in enumerate(with_tool_names(turns, read.messages)):
            label = f"{turn.role} {turn.name}".strip()
            roles[start + turn.start : start + turn.end] = names.setdefault(label, len(names))
            numbers[start + turn.start : start + turn.end] = number
    return [*names], (roles if names else None), (numbers if names else None)
