"""What goes to the terminal: one JSON document, an aligned table, or a line that says how far it is."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TextIO, cast

import numpy as np
import orjson

from board.cli.terminal import HarmlessStream, escaped_cell, escaped_json, one_line
from board.core.csv_rows import CsvRows, harmless_cell
from board.core.metrics.shares import ROUNDING_NOISE, percent

SCHEMA: Final = 1
"""Of all JSON that commands print."""
_MAX_CELL: Final = 48
_DEEPEST_PIECES: Final = 2
_MANY_BYTES: Final = 10_000_000
"""From here on an amount is said in MB, below it in kB."""


@dataclass(slots=True)
class _Answer:
    """What the running command has to say. notes: what it said on stderr, which its JSON has too."""

    command: str = ""
    notes: list[str] = field(default_factory=list[str])


_answer = _Answer()


def begin(command: str) -> None:
    """Begins the answer of a command; one runs at a time."""
    _answer.command, _answer.notes = command, []


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON object: schema (the command and a number that changes with the meaning of its keys), what
    the command answers, and notes. NaN and infinities become null.
    """
    whole = {"schema": f"{_answer.command}/{SCHEMA}", **document, "notes": _answer.notes}
    sys.stdout.writelines(_pieces(whole, _DEEPEST_PIECES))
    print()


def print_rows_json(rows: Sequence[Mapping[str, Any]]) -> None:
    """The same with rows alone, one a line."""
    lines = ",\n".join(map(_encoded, rows))
    head = f'{{"schema":{_encoded(f"{_answer.command}/{SCHEMA}")},"rows":['
    print(f'{head}\n{lines}\n],"notes":{_encoded(_answer.notes)}}}')


def _pieces(document: object, depth: int) -> Iterator[str]:
    """The document as JSON, a value of an object after the other: a rollout of a million tokens has some
    100 MB, which need not be in memory at once. depth: of objects within each other.
    """
    if isinstance(document, list) and len(cast("list[object]", document)) == 1:
        (item,) = cast("list[object]", document)
        yield "["
        yield from _pieces(item, depth)
        yield "]"
        return
    fields = cast("dict[object, object]", document) if isinstance(document, dict) else {}
    if not depth or not fields or not all(isinstance(key, str) for key in fields):
        yield _encoded(document)
        return
    for number, (key, value) in enumerate(fields.items()):
        yield f"{',' if number else '{'}{_encoded(key)}:"
        yield from _pieces(value, depth - 1)
    yield "}"


def _encoded(document: object) -> str:
    return escaped_json(_json(document))


def _json(document: object) -> str:
    try:
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except TypeError:  # integers beyond 64 bits, which JSON has and orjson does not
        text = json.dumps(document, default=np.ndarray.tolist)
        finite = json.loads(text, parse_constant=lambda _: None)
        return json.dumps(finite, ensure_ascii=False)


def print_rows(
    args: argparse.Namespace,
    batches: Iterable[Sequence[Mapping[str, Any]]],
    columns: Sequence[str],
    table_columns: Sequence[str] | None = None,
) -> None:
    """Rows as `--json`, `--jsonl` or `--csv` say, else as a table of `table_columns` (default: all)."""
    if args.csv:
        writer = CsvRows(sys.stdout)
        writer.add(map(_csv_cell, columns))
        for row in (row for rows in batches for row in rows):
            writer.add(_csv_cell(row.get(name, "")) for name in columns)
    elif getattr(args, "jsonl", False):
        for rows in batches:
            sys.stdout.writelines(f"{_encoded(row)}\n" for row in rows)
    else:
        rows = [row for batch in batches for row in batch]
        if args.json:
            print_rows_json(rows)
        else:
            print_table(rows, columns if table_columns is None else table_columns)


def _csv_cell(value: Any) -> Any:
    return harmless_cell(escaped_cell(value))


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    whole: Sequence[str] = (),
    titles: Mapping[str, str] | None = None,
) -> None:
    """Aligned columns, numbers to the right; a dash where nothing is recorded.

    whole: columns whose texts are never cut. titles: of columns that are not called by their names.
    """
    widths = [sys.maxsize if column in whole else _MAX_CELL for column in columns]
    cells = [
        [cell(row.get(column), width) for column, width in zip(columns, widths, strict=True)]
        for row in rows
    ]
    heads = [one_line((titles or {}).get(column, column)) for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numeric = [any(isinstance(row.get(column), int | float) for row in rows) for column in columns]
    for line in (heads, *cells):
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(padded).rstrip())


def cell(value: object, width: int = _MAX_CELL) -> str:
    """A value as a short text on one line."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if abs(value) < ROUNDING_NOISE:
            return "0"
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e6 else f"{value:.4g}"
    text = one_line(str(value))
    return text if len(text) <= width else text[: width - 1] + "…"


def print_lines(lines: Iterable[str]) -> None:
    """Prints each on one line of its own."""
    for line in lines:
        print(one_line(line))


def say(text: str) -> None:
    """A line to the user beside the data, on stderr, and in notes of its JSON."""
    _answer.notes.append(one_line(text))
    print(one_line(text), file=sys.stderr)


class ProgressLine:
    """Says on stderr how far long work is: of a reading MB, or kB of little, the rate and the time left.

    Silent for the first second. One line is drawn again and again and removed in the end. Where stderr is
    no terminal nothing is written.
    """

    _QUIET_SECONDS: Final = 1.0
    _REDRAW_SECONDS: Final = 0.2

    def __init__(
        self,
        stream: TextIO | None = None,
        text: Callable[[int, int, float], str] | None = None,
    ) -> None:
        given = stream or sys.stderr
        self._stream = given.stream if isinstance(given, HarmlessStream) else given
        self._text = text or progress_text
        self._terminal = self._stream.isatty()
        self._begun = time.monotonic()
        self._last = self._begun
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        """Takes note of `done` of `total` bytes, or of what the text counts."""
        now = time.monotonic()
        is_early = (
            now - self._begun < self._QUIET_SECONDS or now - self._last < self._REDRAW_SECONDS
        )
        if not self._terminal or is_early:
            return
        self._last = now
        text = self._text(done, total, now - self._begun)
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
        self._drawn = True

    def close(self) -> None:
        """Removes the line from a terminal."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def progress_text(done: int, total: int, seconds: float) -> str:
    """Such as `reading 120 of 480 MB (25 %), 60 MB/s, 6 s left`."""
    rate = done / seconds
    share = done / total if total else 1.0
    left = f", {(total - done) / rate:.0f} s left" if rate else ""
    size, unit = (1e6, "MB") if total >= _MANY_BYTES else (1e3, "kB")
    amount = f"{done / size:.0f} of {total / size:.0f} {unit} ({percent(share)})"
    return f"reading {amount}, {rate / size:.0f} {unit}/s{left}"


def rows_text(done: int, total: int, seconds: float) -> str:
    """Such as `writing 12,000 of 100,000 (12 %), 8 s left`."""
    left = (total - done) * seconds / done if done else 0.0
    return f"writing {done:,} of {total:,} ({percent(done / max(total, 1))}), {left:.0f} s left"


def runs_text(done: int, total: int, seconds: float) -> str:
    """Such as `reading run 120 of 500, 8 s left`."""
    left = (total - done) * seconds / done if done else 0.0
    return f"reading run {done + 1:,} of {total:,}, {left:.0f} s left"


def print_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """`name  value`, one a line, names aligned; what is not recorded is left out."""
    recorded = [(name, value) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in recorded), default=0)
    for name, value in recorded:
        print(f"{one_line(name).ljust(width)}  {cell(value, 200)}")
