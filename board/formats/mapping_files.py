"""The reader that the text of a mapping file tells of: of lines, of rows in a line, or of turns.

Where a mapping says `trajectory`, lines of one trajectory are one rollout, in the order that `turn` says.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from board.core.records import Remark
from board.errors import BoardError
from board.formats.base import Event, LineContext
from board.formats.fields import Fields, with_remarks
from board.formats.io.parquet_files import PARQUET
from board.formats.joined_rows import JoinedRows, Together
from board.formats.mapping import (
    WHOLE_LINE,
    MappedRowsReader,
    MappingReader,
    key_path,
    value_at,
)
from board.formats.merged_turns import merged_turns
from board.formats.messages import keys_of_message, message_of_row, split_conversation
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, Source

_TABLES: Final = (
    *("title", "files", "rows", "columns", "trajectory", "turn", "group", "json", "keys", "values"),
)
LAST_FLAGS: Final = ("is_last_step", "is_last_turn", "is_last", "last_step", "last_turn")
"""Keys that say whether a row is the last of its trajectory."""
WHOLE_FILE: Final = "."
"""In the place of a trajectory's key: all rows of the file are one."""
_IN_PIECES: Final = Remark(
    None,
    "rows of a trajectory are so far apart that it is shown as several rollouts",
    "write the turns of a trajectory nearer to each other",
)


@dataclass(slots=True)
class _Copies:
    """Of the trajectories of an id: turns that were there, the last one, how many began."""

    seen: Counter[Hashable] = field(default_factory=Counter[Hashable])
    last: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    number: Counter[Hashable] = field(default_factory=Counter[Hashable])


class TurnsReader(MappingReader):
    """Reads files as a mapping file says, whose lines are turns: those of a trajectory are a rollout."""

    sources = (JSON_LINES, JSON_DOCUMENT, PARQUET)

    def __init__(self, text: str, table: Mapping[str, Any]) -> None:
        super().__init__(text, table)
        for key in ("rows", "columns", "group"):
            if key in table:
                raise BoardError(f"{key}: lines are either turns (`trajectory`) or hold rollouts")
        self._trajectory = key_path("trajectory", table["trajectory"])
        self._turn = key_path("turn", table["turn"]) if "turn" in table else ""
        told_apart = ("step", "group_id", "split")
        apart = (self.keys.get(name, name) for name in told_apart)
        self._apart = [path for path in apart if path != self._turn]
        again = (self.keys.get(name, name) for name in ("prompt", "messages", "prompt_ids"))
        self.left_out = {
            **self.left_out,
            **{f"rows.{path}": "what was said before the turn is shown once" for path in again},
        }
        if self._turn:
            self.left_out[f"rows.{self._turn}"] = "the place of a turn in its rollout"

    def source(self, file: Source) -> Source:
        return JoinedRows(file, self._keys_of)

    def _keys_of(self, row: Mapping[str, Any]) -> tuple[Hashable, ...]:
        return () if (key := self._key_of(row)) is None else (key,)

    def _key_of(self, row: Mapping[str, Any]) -> Hashable | None:
        """What tells the trajectory of a row: its id, step, group and split, unless the file is one; None
        without an id.
        """
        if self._trajectory == WHOLE_FILE:
            return WHOLE_FILE
        trajectory = value_at(row, self._trajectory)
        if trajectory is None:
            return None
        return (str(trajectory), *(str(value_at(row, path)) for path in self._apart))

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The trajectories of rows, by their first ones. A turn that comes again after others begins
        another one.
        """
        if not isinstance(line, Together):
            return (line,)
        trajectories: dict[Hashable, list[Mapping[str, Any]]] = {}
        known = _Copies()
        for number, row in enumerate(line.rows):
            key = self._key_of(row)
            turn = value_at(row, self._turn) if self._turn else None
            if key is None or turn is None:
                trajectories.setdefault(number if key is None else (key, 0), []).append(row)
            else:
                copy = self._copy_of(known, key, str(turn), row)
                trajectories.setdefault((key, copy), []).append(row)
        joined = [Together(rows=sorted(own, key=self._order)) for own in trajectories.values()]
        for trajectory in joined:
            trajectory.in_pieces = line.in_pieces
        return joined

    def _copy_of(self, known: _Copies, key: Hashable, turn: str, row: Mapping[str, Any]) -> int:
        """Which of the trajectories of one id a row is of."""
        known.seen[key, turn] += 1
        return known.seen[key, turn] - 1

    def _order(self, row: Mapping[str, Any]) -> float:
        """The number of a turn; rows without it stay in the order of the file."""
        turn = value_at(row, self._turn) if self._turn else None
        try:
            return float(turn) if turn is not None else 0.0
        except (TypeError, ValueError, OverflowError):
            return 0.0

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Event:
        """The rollout of the rows of a trajectory, or what a line says that is of none."""
        if not isinstance(line, Together):
            return super().read(line, at)
        rows = line.rows
        if len(rows) == 1 and self._key_of(rows[0]) is None:
            return super().read(rows[0], at)
        fields = self.merged(rows, at)
        if fields.get("rollout_id") is None:
            is_file = self._trajectory == WHOLE_FILE
            of_row = None if is_file else value_at(rows[0], self._trajectory)
            fields["rollout_id"] = at.path.name.partition(".")[0] if is_file else str(of_row)
        return with_remarks(fields, _IN_PIECES) if line.in_pieces else fields

    def merged(self, rows: Sequence[Mapping[str, Any]], at: LineContext) -> Fields:
        """The rollout of turns in their order."""
        return merged_turns([self.rollout(row, at) for row in rows], LAST_FLAGS)

    def rollout(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The fields of a row, whose number of a turn may be called as something of a rollout."""
        return super().rollout({k: v for k, v in line.items() if k != self._turn}, at)


class MessagesReader(TurnsReader):
    """Reads files as a mapping file says whose lines are messages: a rollout is those of a trajectory."""

    def _has(self, row: Mapping[str, Any], key: str) -> bool:
        if key != "messages":
            return super()._has(row, key)
        return bool(keys_of_message(row)) or all(value is None for value in row.values())

    def _copy_of(self, known: _Copies, key: Hashable, turn: str, row: Mapping[str, Any]) -> int:
        """A turn may have several messages, of which those of one role follow each other."""
        role = str(row.get(next(iter(keys_of_message(row)), "")))
        if known.last.get(key) != turn and known.seen[key, known.number[key], turn, role]:
            known.number[key] += 1
        known.last[key] = turn
        known.seen[key, known.number[key], turn, role] += 1
        return known.number[key]

    def rollout(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """What a message says beside what was said."""
        said = keys_of_message(line)
        rest = {key: value for key, value in line.items() if key not in said}
        # What one message of a conversation says need not stand in all of them.
        paths = (path for path in self.keys.values() if value_at(rest, path) is None)
        fields = super().rollout({**dict.fromkeys(paths), **rest}, at)
        return {key: value for key, value in fields.items() if key != "messages"}

    def merged(self, rows: Sequence[Mapping[str, Any]], at: LineContext) -> Fields:
        """The rollout of messages in their order."""
        messages = [message for row in rows if (message := message_of_row(row)) is not None]
        fields = super().merged(rows, at) | {"messages": messages}
        split_conversation(fields)
        return fields


def mapping_reader(text: str) -> MappingReader:
    """The reader that the text of a mapping file tells of.

    Raises BoardError naming the key and what was expected.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BoardError(f"is not TOML: {error or 'too deep'}; see docs/own_format.md") from None
    for key in table:
        if key not in _TABLES:
            raise BoardError(
                f"{key[:40]!r}: is not a key of a mapping file; expected {', '.join(_TABLES)}"
            )
    if "turn" in table and "trajectory" not in table:
        raise BoardError("turn: says the order of the rows of a `trajectory`, which is missing")
    if "trajectory" in table:
        is_message = value_at(table, "keys.messages") == WHOLE_LINE
        return (MessagesReader if is_message else TurnsReader)(text, table)
    return (MappedRowsReader if "rows" in table else MappingReader)(text, table)
