"""What a line of a log holds and its rollouts do not show: found by comparing the two, for any reader.

A text of 12 characters or more, or a number, is shown where a rollout of the line has it: in its texts,
turns, tool calls, token arrays, scores, or a further field. Shorter texts and true or false are too
common for their absence to mean anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from board.core.records import NumberArray, Record, Remark, is_number
from board.core.texts.conversation import Block, arguments_text, blocks_of, conversation_of
from board.errors import RecordError

SHORTEST_TEXT: Final = 12
"""Characters; shorter texts are found somewhere by chance."""
_MOST_LEVELS: Final = 60
_LONGEST_NUMBER: Final = 24
_LONGEST_REFERENCE: Final = 200
_MOST_REFERENCES: Final = 4
"""Within each other: JSON in a text of JSON, a reference to a reference."""
_NUMBER: Final = re.compile(r"[0-9]{1,40}")
_MOST_STARTS: Final = 16
"""Places in an array at which another is looked for."""

_Numbers = npt.NDArray[np.float64]
"""Sorted, each once."""


def not_shown(
    line: Mapping[str, Any], records: Sequence[Record], left_out: Iterable[str] = ()
) -> dict[str, Any]:
    """The texts and numbers of a parsed line that none of its rollouts shows.

    Args:
        line: the line as it is logged, every value parsed.
        records: the rollouts of the line.
        left_out: paths, without brackets, whose values nobody misses, and those of all below them.

    Returns:
        Of each path, such as `turns[].content`, the first value that is not shown.
    """
    prefixes = frozenset(left_out)
    missing: dict[str, Any] = {}
    for with_turns in (False, True):  # turns take most of the time, and most lines need none
        search = _Search(line, _Shown(records, with_turns=with_turns), prefixes)
        search.look_for(line, "")
        if not (missing := search.missing):
            break
    return missing


class _Search:
    """Looks for what of a line is not shown. missing: of each path the first value."""

    def __init__(
        self, line: Mapping[str, Any], displayed: _Shown, prefixes: frozenset[str]
    ) -> None:
        self._line = line
        self._displayed = displayed
        self._prefixes = prefixes
        self.missing: dict[str, Any] = {}

    def look_for(self, value: Any, path: str, level: int = 0) -> None:
        """Adds the leaves of a value that are not shown; of JSON in a text, and of a reference to another
        place of the line, those of what it stands for.
        """
        for leaf_path, leaf in leaves(value, path):
            if leaf_path in self.missing or _is_below(leaf_path, self._prefixes):
                continue
            if self._displayed.has(leaf):
                continue
            meant = None
            if isinstance(leaf, str) and level < _MOST_REFERENCES:
                meant = _json_in(leaf)
                meant = _referred(leaf, self._line) if meant is None else meant
            if meant is None:
                self.missing[leaf_path] = leaf
            else:
                self.look_for(meant, leaf_path, level + 1)


def _referred(text: str, line: Any) -> Any:
    """What a reference such as `attachment://3f1c` stands for: what the line has under that key."""
    _, sign, key = text.partition("://")
    return _under(key, line) if sign and key and len(text) < _LONGEST_REFERENCE else None


def _under(key: str, value: Any, level: int = 0) -> str | None:
    """The first text under a key of a value, at whatever depth; None where there is none."""
    if level > _MOST_LEVELS:
        return None
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        if isinstance(text := fields.get(key), str):
            return text
        entries = list(fields.values())
    else:
        entries = cast("list[Any]", value) if isinstance(value, list) else []
    texts = (_under(key, entry, level + 1) for entry in entries)
    return next((text for text in texts if text is not None), None)


def remark_on(path: str, value: Any) -> Remark:
    """The remark on a path whose values are not shown."""
    kind = "a text" if isinstance(value, str) else "a number"
    if isinstance(value, np.ndarray):
        kind = "numbers"
    hint = "the raw record has it"
    return Remark(path, f"{kind} under {path!r} is not shown", hint)


def leaves(
    value: Any, path: str = "", *, shortest: int = SHORTEST_TEXT, level: int = 0
) -> Iterator[tuple[str, Any]]:
    """The texts of at least `shortest` characters and the finite numbers within a value, with paths.

    A list of numbers, with or without nulls, is one leaf: float64 [n], without the nulls.
    """
    if isinstance(value, str):
        if len(value) >= shortest:
            yield path, value
    elif is_number(value):
        with suppress(OverflowError):  # an integer of 400 digits
            if math.isfinite(value):
                yield path, float(value)
    elif level > _MOST_LEVELS:
        return
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, Any]", value).items():
            below = f"{path}.{key}" if path else str(key)
            yield from leaves(inner, below, shortest=shortest, level=level + 1)
    elif (numbers := _numbers_in(value)) is not None:
        if len(numbers):
            yield f"{path}[]", numbers
    elif isinstance(value, list | tuple):
        for inner in cast("Sequence[Any]", value):
            yield from leaves(inner, f"{path}[]", shortest=shortest, level=level + 1)


class _Shown:
    """What the rollouts of a line show, as texts and numbers to look up.

    with_turns: also the texts and numbers of their turns, and texts that two fields hold together.
    """

    def __init__(self, records: Sequence[Record], *, with_turns: bool) -> None:
        self._as_shown: set[str] = set()
        self._arrays: list[npt.NDArray[np.float64]] = []
        self._scalars: list[float] = []
        for record in records:
            self._take_record(record)
            if with_turns:
                self._take_turns(record)
        # One after the other: together they would take as much memory once more.
        arrays = [np.unique(array) for array in (*self._arrays, np.array(self._scalars))]
        self._numbers = np.unique(np.concatenate(arrays))

    @cached_property
    def _texts(self) -> set[str]:
        """The texts without differences of white space."""
        return {*map(_plain, self._as_shown)}

    @cached_property
    def _all_texts(self) -> str:
        return "\0".join(self._texts)

    def has(self, value: Any) -> bool:
        """Whether a leaf of the line is shown."""
        if isinstance(value, str):
            return self._has_text(value)
        wanted = np.unique(np.atleast_1d(value))
        absent = wanted[~_among(wanted, self._numbers)]
        # Tables of frameworks and token arrays have single precision.
        if not len(absent) or _among(_single(absent), self._numbers).all():
            return True
        wanted = np.atleast_1d(value)
        # Arrays over a whole sequence are cut to the response: what stands at the prompt is no loss.
        return any(_is_part(array, wanted) for array in self._arrays)

    def _has_text(self, text: str) -> bool:
        if text in self._as_shown:
            return True
        plain = _plain(text)
        if len(plain) < SHORTEST_TEXT or plain in self._texts or plain in self._all_texts:
            return True
        if text.startswith("data:"):  # an image, which is shown by its size
            return True
        blocks = blocks_of(text)
        if not blocks or (len(blocks) == 1 and blocks[0].text == text):
            return False
        parts = (part for block in blocks for part in _texts_of(block))
        return all(_plain(part) in self._all_texts for part in parts)

    def _take_record(self, record: Record) -> None:
        self._take([record.step, *record.ids.values(), *record.scores.values()])
        ids = (str(value) for value in record.ids.values())
        self._scalars += (float(number) for text in ids for number in _NUMBER.findall(text))
        lengths = [record.response_length or 0, len(record.prompt_ids or ())]
        self._scalars += (*map(float, lengths), float(sum(lengths)))
        self._take([*record.texts.values(), dict(record.extras), [*record.segments]])
        for array in (record.prompt_ids, record.response_ids, *record.tokens.values()):
            if array is not None:
                with suppress(RecordError):  # which is remarked where it is shown
                    self._arrays.append(_finite(array.values()))

    def _take_turns(self, record: Record) -> None:
        self._take("".join(record.response_tokens or ()))
        self._take(f"{record.texts.get('prompt', '')}{record.texts.get('response', '')}")
        self._as_shown.update(record.response_tokens or ())
        for turn in conversation_of(record.messages, record.texts):
            self._take([turn.role, turn.name, turn.seconds, turn.at])
            self._as_shown.add("\n".join(_written_in(turn.blocks)))
            for block in (*turn.blocks, *turn.results.values()):
                self._take([block.text, block.name, block.id, block.error, block.seconds])
                self._take([block.arguments, arguments_text(block.arguments)])

    def _take(self, value: Any) -> None:
        for _, leaf in leaves(value, shortest=1):
            if isinstance(leaf, str):
                self._take_number_in(leaf)
                self._as_shown.add(leaf)
                if (parsed := _json_in(leaf)) is not None:
                    self._take(parsed)
            elif isinstance(leaf, float):
                self._scalars.append(leaf)
            else:
                self._arrays.append(leaf)

    def _take_number_in(self, text: str) -> None:
        """Takes a number that is shown as text, as ids are."""
        if len(text) < _LONGEST_NUMBER:
            with suppress(ValueError):
                self._scalars.append(float(text))


def _is_below(path: str, prefixes: frozenset[str]) -> bool:
    """Whether a path, or one above it, is among the prefixes."""
    names = path.replace("[]", "").split(".")
    return any(".".join(names[:count]) in prefixes for count in range(1, len(names) + 1))


def _written_in(blocks: Iterable[Block]) -> Iterator[str]:
    """What a turn says and what its calls are given, which some logs have as one text."""
    for block in blocks:
        yield block.text
        arguments: Any = block.arguments
        if isinstance(arguments, dict):
            values = cast("dict[str, Any]", arguments).values()
            yield from (value for value in values if isinstance(value, str))


def _texts_of(block: Block) -> Iterator[str]:
    texts = (block.text, block.name, arguments_text(block.arguments))
    return (text for text in texts if len(text) >= SHORTEST_TEXT)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _json_in(text: str) -> Any:
    """What JSON in a text says, where that is an object or a list; else None."""
    if text[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]"):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return None


def _numbers_in(value: Any) -> npt.NDArray[np.float64] | None:
    """The finite numbers of a list of numbers and nulls, or of a NumberArray; None for anything else."""
    if isinstance(value, list | tuple):
        numbers = _numbers_of(cast("Sequence[Any]", value))
        if numbers is None:
            return None
    elif isinstance(value, np.ndarray):
        array = cast("npt.NDArray[Any]", value)
        if array.ndim != 1 or array.dtype.kind not in "iuf":
            return None
        numbers = array.astype(np.float64)
    elif hasattr(value, "values") and hasattr(value, "__len__"):
        try:
            numbers = np.asarray(cast("NumberArray", value).values(), np.float64)
        except RecordError:
            return np.empty(0)
    else:
        return None
    return _finite(numbers)


def _finite(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    are_finite = np.isfinite(numbers)
    return numbers if are_finite.all() else numbers[are_finite]


def _numbers_of(entries: Sequence[Any]) -> npt.NDArray[np.float64] | None:
    """The numbers of a list of numbers and nulls; None of another. Long ones are looked at by numpy."""
    with suppress(ValueError, OverflowError, TypeError):
        if entries and is_number(entries[0]) and is_number(entries[-1]):
            array = np.array(entries)
            if array.dtype.kind in "iuf" and array.ndim == 1:
                return array.astype(np.float64)
        if all(entry is None or is_number(entry) for entry in entries):
            return np.array([entry for entry in entries if entry is not None], np.float64)
        return None
    return None if any(not is_number(entry) for entry in entries) else np.empty(0)


def _is_part(array: npt.NDArray[np.float64], of: npt.NDArray[np.float64]) -> bool:
    """Whether an array of at least two values is a stretch of another."""
    if not 2 <= len(array) <= len(of):
        return False
    starts = np.flatnonzero(of[: len(of) - len(array) + 1] == array[0])
    first, last = starts[:_MOST_STARTS], starts[-1:]
    return any(np.array_equal(of[i : i + len(array)], array) for i in (*first, *last))


def _among(wanted: _Numbers, numbers: _Numbers) -> npt.NDArray[np.bool_]:
    """Whether each of some numbers is among others."""
    return np.isin(wanted, numbers, assume_unique=True)


def _single(numbers: _Numbers) -> _Numbers:
    """Numbers as they are in single precision."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32).astype(np.float64)
