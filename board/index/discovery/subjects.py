"""Of what the files of one folder are: a model, a checkpoint or a seed, by constant keys and by names.

Files of different ones are different runs, for no mean over them says anything. Files whose names differ
in numbers of steps, ranks or shards, or in dates, are parts of one run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from board.core.model_names import MODEL_KEYS, full_names, without_step
from board.core.records import Record
from board.errors import RecordError
from board.formats import source_of
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import UNDATED
from board.formats.io.locations import Location, pure_path
from board.formats.io.parquet_files import PARQUET
from board.formats.mapping import GENERIC
from board.formats.parse import is_object
from board.formats.sources import JSON_DOCUMENT, Row
from board.formats.turn_rows import is_by_keys
from board.index.discovery.run_info import LogFile, Subject

_CHECKPOINTS: Final = ("checkpoint", "checkpoint_path", "ckpt", "ckpt_path")
_SEEDS: Final = ("seed", "random_seed")
_MODEL: Final = MODEL_KEYS[0]
_TOLD_APART: Final = (MODEL_KEYS, _CHECKPOINTS, _SEEDS)
_STEPS: Final = frozenset(
    ("step", "global_step", "iteration", "train_step", "training_step", "trainer_step", "iter")
)
_INSIDE: Final = ("metadata", "meta", "config", "args", "info")
"""Keys of objects that such keys are in as well."""
NAME: Final = "name"
"""The key of what a file's name says."""
_MOST_NAMES: Final = 16
"""Files under more names than these are called by their rollouts."""
_NUMBERED: Final = frozenset(
    (
        *(
            "step",
            "steps",
            "global",
            "iter",
            "iteration",
            "iterations",
            "epoch",
            "version",
            "update",
        ),
        *("rank", "worker", "gpu", "node", "proc", "process", "dp", "tp", "pp"),
        *("shard", "part", "chunk", "batch", "of", "idx", "index", "rollout", "rollouts"),
        *("copy", "backup", "bak"),
    )
)
"""Words that, alone or with a number, only count the parts of a run."""
_OF_SUBJECTS: Final = frozenset(
    ("seed", "model", "run", "exp", "experiment", "trial", "checkpoint", "ckpt")
)
"""Words before a number that tells subjects apart."""
_SEED_IN_NAME: Final = re.compile(r"(?:^|[^a-z])seed[_-]?([0-9]+)", re.IGNORECASE)
_WORD: Final = re.compile(r"[^a-z0-9.]+")
_WITH_NUMBER: Final = re.compile(r"([a-z]+)([0-9]+)")
_MOMENT: Final = re.compile(r"[0-9]+(?:t[0-9.]+z?)?|[0-9]+[hms]|(?=[a-z]*[0-9])[0-9a-f]{8,}")
_MOST_CHARACTERS: Final = 200
_MOST_RECORDS: Final = 20
"""Of a file that are asked what it is of."""


def subject_of(path: Location, head: Head, reader: Reader) -> Subject | None:
    """What a file is of, by its first records and, of files that no framework named, by its name; None
    where it holds no rollout itself, as files that others are read with.
    """
    seed = tuple(("seed", match[1]) for match in [_SEED_IN_NAME.search(head.path.name)] if match)
    if not is_by_keys(reader) and reader.family != "mapping":
        records = _with_values(path, head).records
        has_values = any(value is not None for record in records for value in record.values())
        subject = _of_rollouts(path, records, reader) if has_values else ()
        return None if subject is None else (*subject, *seed)
    if any("type" in record for record in head.records):  # of a writer that says what a run is
        return ()
    records = _with_values(path, head).records
    has_step = LineContext(head.path, layout=reader.layout).step is not None or any(
        not _STEPS.isdisjoint(record) for record in records
    )
    pairs = _without_steps(_constants(records)) if has_step else [*_constants(records)]
    is_named = reader.title == GENERIC and len(records) > 1
    if is_named and (name := " ".join(_words_of(head.path.name))):
        pairs.append((NAME, name))
    return tuple(pairs) if is_named else (*pairs, *seed)


def _with_values(path: Location, head: Head) -> Head:
    """The beginning of a file with the values of its rows: that of a Parquet file has names of columns
    alone, and its rows are read where one of them may tell it apart.
    """
    names = {*_INSIDE, *(name for names in _TOLD_APART for name in names)}
    if source_of(path) is not PARQUET or names.isdisjoint(head.first):
        return head
    rows = islice(PARQUET.lines(path), _MOST_RECORDS)
    return Head(head.path, [line.record for line in rows if isinstance(line, Row)])


def _of_rollouts(
    path: Location, lines: Sequence[Mapping[str, Any]], reader: Reader
) -> Subject | None:
    """What a file is of, by what a framework's reader says of its first rollouts."""
    records = [*islice(_records(path, lines, reader), _MOST_RECORDS)]
    if not records:
        return None
    pairs = _constants([{**record.ids, **record.extras} for record in records])
    is_dated = any(UNDATED not in record.remarks for record in records)
    return tuple(_without_steps(pairs) if is_dated else pairs)


def _records(
    path: Location, lines: Sequence[Mapping[str, Any]], reader: Reader
) -> Iterator[Record]:
    # A document on this machine may be a part of another one beside it. Nothing else is read for this.
    is_near = isinstance(path, Path) and source_of(path) is JSON_DOCUMENT
    at = LineContext(path if is_near else PurePosixPath(pure_path(path)), layout=reader.layout)
    for line in lines:
        with suppress(RecordError, OSError):
            results = (reader.record(row, at) for row in reader.rows(line, at))
            yield from (result for result in results if isinstance(result, Record))


def _without_steps(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What a file of training is of: the model of a step is that step's."""
    named = [(key, without_step(value)) for key, value in pairs]
    return [(k, re.sub("[0-9]", "", v) if k == _CHECKPOINTS[0] else v) for k, v in named]


def by_subject(files: Sequence[LogFile]) -> dict[str, Sequence[LogFile]]:
    """The files of each subject, by what tells it from the others; under "" where all are of one. A file
    that holds no rollout is with those of its folder, or of the next one above it.
    """
    subjects = _telling({f.path: f.subject for f in files if f.subject is not None})
    if len(set(subjects.values())) < 2:
        return {"": files}
    of_folder: dict[Location, Subject] = {}
    for path, subject in subjects.items():
        for folder in _folders_of(path):
            of_folder.setdefault(folder, subject)
    groups: dict[str, list[LogFile]] = {}
    for file in files:
        near = (of_folder[folder] for folder in _folders_of(file.path) if folder in of_folder)
        subject = subjects.get(file.path) if file.path in subjects else next(near, ())
        told_by = dict.fromkeys(value for _, value in subject or ())
        groups.setdefault(" · ".join(told_by) or "other files", []).append(file)
    return {**groups}


def _telling(subjects: Mapping[Location, Subject]) -> dict[Location, Subject]:
    """What of each file's subject tells it from the others: keys with several values, of which a file
    that has none says nothing; of names those that not all files have.
    """
    values: dict[str, set[str]] = {}
    for key, value in (pair for subject in subjects.values() for pair in subject):
        values.setdefault(key, set()).add(value)
    of_model = full_names(values.get(_MODEL, ()))
    count = {key: len({of_model.get(v, v) for v in known}) for key, known in values.items()}
    if not all(NAME in dict(subject) for subject in subjects.values()):
        count[NAME] = count.get(NAME, 0) + 1
    told_apart = {key for key, n in count.items() if n > 1 and (key != NAME or n <= _MOST_NAMES)}
    return {
        path: tuple((k, of_model.get(v, v)) for k, v in subject if k in told_apart)
        for path, subject in subjects.items()
    }


def _folders_of(path: Location) -> Iterator[Location]:
    """The folders that a file is in, from its own up."""
    while path != path.parent:
        path = path.parent
        yield path


def _constants(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The model, the checkpoint and the seed of which all records have one and the same value."""
    for names in _TOLD_APART if len(records) > 1 else (MODEL_KEYS, _CHECKPOINTS):
        for name in names:  # of one rollout the seed is that of its sampling
            values = {value for record in records for value in _values(record, name)}
            if len(values) == 1:
                yield names[0], values.pop()
                break


def _values(record: Mapping[str, Any], name: str) -> Iterable[str]:
    places = [record, *(record.get(key) for key in _INSIDE)]
    values = (place[name] for place in places if is_object(place) and name in place)
    return [
        str(v) for v in values if isinstance(v, str | int) and 0 < len(str(v)) <= _MOST_CHARACTERS
    ]


def _words_of(name: str) -> Iterator[str]:
    """The words of a file's name, without numbers that count parts, dates, and the suffix."""
    stem = re.sub(r"\.(jsonl|ndjson|json|parquet|gz|zst)\b.*$", "", name.lower())
    before = ""
    for word in filter(None, _WORD.split(stem)):
        numbered = _WITH_NUMBER.fullmatch(word)
        kind = numbered[1] if numbered else word
        is_number = word.isdigit() and before in _OF_SUBJECTS
        if is_number or not (kind in _NUMBERED or _MOMENT.fullmatch(word)):
            yield word
        before = word
