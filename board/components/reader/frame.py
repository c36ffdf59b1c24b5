"""What surrounds the text of a rollout: facts, notes, the details at the side, and its turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

from board.components.token_data import encodable
from board.core.labels.entries import RolloutLabels
from board.core.labels.names import LabelName
from board.core.texts.conversation import TOO_DEEP, Block, ConversationTurn, arguments_text
from board.core.texts.messages import RULE

_ONE_LINE: Final = 400
"""Characters of a call of one argument that is written on one line."""
_HINT: Final = 24


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact above the text: "label **value** after". parts: of the value. help: the tooltip."""

    label: str
    value: str
    after: str = ""
    parts: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """A row of a table at the side; formula may be empty."""

    label: str
    value: str
    formula: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """A section at the side: a text, or rows. ask: in place of both, a choice that brings the text."""

    title: str
    text: str | None = None
    rows: Sequence[Score] = ()
    ask: str = ""
    tall: bool = False


@dataclass(frozen=True, slots=True)
class LabelRow:
    """The labels of a rollout, and those to choose from.

    names: with keys 1 to 9. author: of who has no other name in the browser. labels: of the rollout.
    undoable: authors with an entry in the run. is_sample: whether a sample is being labelled. run, root:
    name and folder by which the browser says what its labels are of. received: ids that the browser gave
    to what it sent last, written or refused: of these the labels have what was written.
    """

    names: Sequence[LabelName]
    author: str
    labels: RolloutLabels
    undoable: Sequence[str] = ()
    is_sample: bool = False
    run: str = ""
    root: str = ""
    received: Sequence[str] = ()

    def data(self) -> dict[str, Any]:
        """What the reader's script takes."""
        authors = self.labels.authors.items()
        spans = [
            {"first": one.first, "last": one.last, "label": one.label, "author": name}
            for name, own in authors
            for one in own.spans
        ]
        return {
            "names": [one._asdict() for one in self.names],
            "author": self.author,
            "authors": {name: {"label": own.label, "note": own.note} for name, own in authors},
            "spans": sorted(spans, key=lambda span: (span["first"], span["last"])),
            "undoable": self.undoable,
            "isSample": self.is_sample,
            "run": self.run,
            "root": self.root,
            "received": self.received,
        }


@dataclass(frozen=True, slots=True)
class Frame:
    """Around the text. place: step and index. turns: shown in place of the tokens, unless None. messages:
    as recorded, as JSON for copying. can_switch: whether both tokens and a text are recorded. labels: see
    `LabelRow`; None: none can be written. answered: ids of changes of the URL that were known.
    """

    title: str = ""
    place: tuple[int, int] | None = None
    facts: Sequence[Fact] = ()
    notes: Sequence[str] = ()
    details: Sequence[Detail] = ()
    turns: Sequence[ConversationTurn] | None = None
    messages: str = ""
    can_switch: bool = False
    labels: LabelRow | None = None
    answered: Sequence[str] = ()

    def data(self) -> dict[str, Any]:
        """What the reader's script takes."""
        place = {"step": self.place[0], "index": self.place[1]} if self.place else None
        view = {
            "title": self.title,
            "place": place,
            "facts": [asdict(fact) for fact in self.facts],
            "notes": self.notes,
            "details": [asdict(one) for one in self.details],
            "turns": None if self.turns is None else [_turn(turn) for turn in self.turns],
            "messages": self.messages,
            "canSwitch": self.can_switch,
            "errorRule": RULE,
            "answered": [*self.answered],
            "labels": None if self.labels is None else self.labels.data(),
        }
        return _encodable(view)


def _encodable(value: Any) -> Any:
    """The value with all its texts as UTF-8 can carry them."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {name: _encodable(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_encodable(one) for one in cast("Sequence[Any]", value)]
    return value


def _turn(turn: ConversationTurn) -> dict[str, Any]:
    return {
        "number": turn.number,
        "role": turn.role,
        "name": turn.name,
        "given": turn.given,
        "seconds": turn.seconds,
        "blocks": [_block(block) for block in turn.blocks],
        "results": {str(rank): _block(block) for rank, block in turn.results.items()},
    }


def _block(block: Block) -> dict[str, Any]:
    is_call = block.kind == "call"
    return {
        "kind": block.kind,
        "text": arguments_text(block.arguments) if is_call else block.text,
        "name": block.name,
        "error": block.error,
        "seconds": block.seconds,
        "open": block.is_open,
        "arguments": [
            {"name": name, "text": text, "json": is_json}
            for name, text, is_json in (_arguments(block.arguments) if is_call else ())
        ],
        "hint": _hint(block.arguments) if is_call else "",
    }


def _arguments(arguments: Any) -> list[tuple[str, str, bool]]:
    """Parts of a call, each a name, a text and whether it is JSON: texts of several lines are parts."""
    if arguments is None or isinstance(arguments, str):
        return [("", arguments or "", False)]
    compact = arguments_text(arguments)
    if compact == TOO_DEEP or not isinstance(arguments, Mapping):
        return [("", compact, True)]
    named = cast("Mapping[str, Any]", arguments)
    long = {
        name: value
        for name, value in named.items()
        if isinstance(value, str) and "\n" in value.strip()
    }
    if len(named) <= 1 and not long and len(compact) <= _ONE_LINE:
        return [("", compact, True)]
    short = {name: value for name, value in named.items() if name not in long}
    indented = json.dumps(short, indent=2, ensure_ascii=False, default=str)
    parts = [("", indented, True)] if short else []
    return [*parts, *((name, text, False) for name, text in long.items())]


def _hint(arguments: Any) -> str:
    """What a call is about in a word or two: the program of a command, the file of a path."""
    if not isinstance(arguments, Mapping):
        return ""
    named = cast("Mapping[str, Any]", arguments)
    texts = (one.strip() for one in named.values() if isinstance(one, str))
    line = next(filter(None, texts), "").split("\n", 1)[0]
    if "/" in line and " " not in line and "://" not in line:
        return line.rstrip("/").rsplit("/", 1)[-1][:_HINT]
    is_command = "command" in named or "cmd" in named
    return (line.split(" ", 1)[0] if is_command else line)[:_HINT]
