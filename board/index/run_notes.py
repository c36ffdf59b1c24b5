"""Notes on runs: a short text each, in notes.jsonl beside its index, of which the last line counts."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Final, cast

from board.core.texts.one_line import one_line
from board.errors import ChoiceError
from board.index.discovery.run_info import RunInfo
from board.index.shared_files import append_lines, lines_of, places_for

FILE: Final = "notes.jsonl"
LONGEST: Final = 500
"""Characters."""
_LONGEST_AUTHOR: Final = 60


@dataclass(frozen=True, slots=True)
class Note:
    """What is said of a run, on one line; "" for nothing. author: who wrote it. time: since 1970."""

    text: str = ""
    author: str = ""
    time: float = 0.0


class ChangedNoteError(ChoiceError):
    """Somebody else has changed the note since it was read. now: what it says."""

    def __init__(self, now: Note) -> None:
        super().__init__(f"the note was changed meanwhile: {now.text!r}")
        self.now = now


def read_note(info: RunInfo) -> Note:
    """The note on a run."""
    notes = (_decoded(line, _part(info)) for line in lines_of(places_for(info.path, FILE)))
    known = [note for note in notes if note is not None]
    return sorted(known, key=lambda note: note.time)[-1] if known else Note()


def write_note(info: RunInfo, text: str, author: str, *, over: str) -> Note:
    """Writes the note on a run; "" takes it away. over: what it said when the author saw it.

    Raises ChangedNoteError where it says something else by now, ChoiceError where it is too long or can't
    be written.
    """
    text = tidied(text)
    if len(text) > LONGEST:
        raise ChoiceError(f"a note has at most {LONGEST} characters, and this has {len(text)}")

    def check() -> None:
        now = read_note(info)
        if now.text not in (over, text):
            raise ChangedNoteError(now)

    # Never older than the one before, whatever the clocks of other machines say.
    moment = max(time.time(), read_note(info).time + 1e-3)
    note = Note(text, one_line(author, _LONGEST_AUTHOR), moment)
    line = {"time": moment, "author": note.author, "part": _part(info), "note": text}
    append_lines(places_for(info.path, FILE), json.dumps(line).encode() + b"\n", check=check)
    return note


def tidied(text: str) -> str:
    """A text as a note has it: on one line, without signs that are not seen."""
    return one_line(" ".join(text.split()), len(text) + 1)


def _part(info: RunInfo) -> str:
    """Tells runs of one folder apart."""
    return f"{info.only}\n{info.part}".strip()


def _decoded(line: str, part: str) -> Note | None:
    """The note of a line; None where it is none, or on another run of the folder."""
    try:
        document: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    named = cast("dict[str, Any]", document)
    text, author, moment = named.get("note"), named.get("author"), named.get("time")
    if not isinstance(text, str) or not isinstance(author, str) or named.get("part") != part:
        return None
    if not isinstance(moment, int | float) or not 0 <= moment < float("inf"):
        return None
    return Note(one_line(text, LONGEST), one_line(author, _LONGEST_AUTHOR), float(moment))
