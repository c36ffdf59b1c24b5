"""Lines of labels.jsonl, and what they leave of each rollout.

The file is append-only: a label that is changed, cleared or undone is another line.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple, cast

Kind = Literal["label", "note", "span", "sample", "undo"]
_KINDS: Final = frozenset(("label", "note", "span", "sample", "undo"))
LONGEST_NOTE: Final = 10_000
"""Characters."""
_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("id", "author", "run", "key", "kind", "value", "stratum", "undoes"), str),
    **dict.fromkeys(("step", "index", "copy", "population", "first", "last"), int),
}


class RolloutKey(NamedTuple):
    """A rollout, by its step and a hash of what it says, as query.labels makes it; copy: its number among
    those of its step with the same hash.
    """

    step: int
    key: str
    copy: int = 0


def labelling_order(strata: Mapping[RolloutKey, str]) -> list[RolloutKey]:
    """The rollouts of a sample in the order in which they are labelled. strata: the stratum of each.

    It is the order of a hash, which knows nothing of step, reward or label: the same each time, and for
    samples that older versions drew. It goes through the strata in rounds, a rollout of each, in an order
    that does not depend on how many of a stratum were drawn: any beginning of a sample is a sample, too.
    """
    by_hash = sorted(strata, key=lambda key: _hash(*key))
    seen: Counter[str] = Counter()
    turns: dict[RolloutKey, tuple[int, bytes]] = {}
    for key in by_hash:
        stratum = strata[key]
        turns[key] = seen[stratum], _hash(*by_hash[0], stratum, seen[stratum])
        seen[stratum] += 1
    return sorted(by_hash, key=turns.__getitem__)


def _hash(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace")).digest()


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a label file.

    id: of the line. time: seconds since 1970. run: its folder's name, where the file is of several runs.
    index: within the step when it was written, for people. value: the label, the note, or the name of
    the sample; "" clears. first, last: tokens of a span, both included; -1: none. stratum, population:
    of a sample, the part of the run that the rollout was drawn from, and how many rollouts that has.
    undoes: id of the line that counts no more.
    """

    id: str
    time: float
    author: str
    kind: Kind
    run: str = ""
    step: int = 0
    index: int = 0
    key: str = ""
    copy: int = 0
    value: str = ""
    first: int = -1
    last: int = -1
    stratum: str = ""
    population: int = 0
    undoes: str = ""

    @property
    def rollout(self) -> RolloutKey:
        """The rollout that it is about."""
        return RolloutKey(self.step, self.key, self.copy)


_DEFAULTS: Final = {one.name: one.default for one in fields(Entry)}


_ALWAYS: Final = ("step", "index")


def encode(entry: Entry) -> str:
    """An entry as one line, without the fields that have their default; step and index are in each."""
    filled = {
        name: value
        for name, value in asdict(entry).items()
        if value != _DEFAULTS[name] or name in _ALWAYS
    }
    return json.dumps(filled, ensure_ascii=True) + "\n"


def decode(line: str) -> Entry | None:
    """The entry of a line; None where it is none, as a line that was cut by a full disk."""
    try:
        document: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    named = {n: v for n, v in cast("dict[str, Any]", document).items() if n in _DEFAULTS}
    time, kind = named.get("time"), named.get("kind")
    is_time = isinstance(time, int | float) and not isinstance(time, bool)
    if not is_time or kind not in _KINDS or not {"id", "author"} <= named.keys():
        return None
    if any(type(value) is not _TYPES[n] for n, value in named.items() if n in _TYPES):
        return None
    return Entry(**named)


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens first to last, both included, with a label. id: of its entry."""

    first: int
    last: int
    label: str
    id: str


@dataclass(frozen=True, slots=True)
class AuthorLabels:
    """What one author says of a rollout. time: of the last change of the label."""

    label: str = ""
    note: str = ""
    spans: tuple[Span, ...] = ()
    time: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.label or self.note or self.spans)


class Drawn(NamedTuple):
    """How a rollout came into a sample: from a stratum of so many rollouts."""

    stratum: str
    population: int


@dataclass(frozen=True, slots=True)
class RolloutLabels:
    """What is said of a rollout: by author, and the samples that it was drawn into, by name."""

    authors: Mapping[str, AuthorLabels] = field(default_factory=dict[str, AuthorLabels])
    samples: Mapping[str, Drawn] = field(default_factory=dict[str, Drawn])

    @property
    def latest(self) -> tuple[str, str]:
        """The label that was given last, and its author; both "" where there is none."""
        given = [(own.time, own.label, name) for name, own in self.authors.items() if own.label]
        return max(given)[1:] if given else ("", "")

    def label_of(self, author: str) -> str:
        """The label that an author gave, "" for none. author: "" is whoever gave the last one."""
        if not author:
            return self.latest[0]
        return self.authors[author].label if author in self.authors else ""

    @property
    def spans(self) -> tuple[Span, ...]:
        """The labelled spans of all authors, in the order of tokens."""
        every = (span for own in self.authors.values() for span in own.spans)
        return tuple(sorted(every, key=lambda span: (span.first, span.last)))

    @property
    def notes(self) -> dict[str, str]:
        """The notes by author."""
        return {name: own.note for name, own in self.authors.items() if own.note}


def labels_of(entries: Iterable[Entry]) -> dict[RolloutKey, RolloutLabels]:
    """What the entries leave of each rollout: per author the last label and note that nobody undid."""
    several = sorted(entries, key=lambda entry: entry.time)
    undone = {one.undoes for one in several if one.kind == "undo"}
    labels: dict[RolloutKey, RolloutLabels] = {}
    for entry in several:
        if entry.id in undone or entry.kind == "undo":
            continue
        before = labels.get(entry.rollout, RolloutLabels())
        labels[entry.rollout] = _with_entry(before, entry)
    return {key: own for key, own in labels.items() if own.samples or any(own.authors.values())}


def _with_entry(before: RolloutLabels, entry: Entry) -> RolloutLabels:
    if entry.kind == "sample":
        drawn = Drawn(entry.stratum, entry.population)
        return replace(before, samples={**before.samples, entry.value: drawn})
    own = before.authors.get(entry.author, AuthorLabels())
    if entry.kind == "label":
        own = replace(own, label=entry.value, time=entry.time)
    elif entry.kind == "note":
        own = replace(own, note=entry.value)
    else:
        others = [s for s in own.spans if (s.first, s.last) != (entry.first, entry.last)]
        if entry.value:
            others.append(Span(entry.first, entry.last, entry.value, entry.id))
        own = replace(own, spans=tuple(others))
    return replace(before, authors={**before.authors, entry.author: own})


def last_of(entries: Iterable[Entry], author: str) -> Entry | None:
    """The last label, note or span of an author that was not undone; None where there is none."""
    several = [*entries]
    undone = {one.undoes for one in several if one.kind == "undo"}
    own = (
        one
        for one in several
        if one.author == author and one.kind in ("label", "note", "span") and one.id not in undone
    )
    return max(own, key=lambda one: one.time, default=None)
