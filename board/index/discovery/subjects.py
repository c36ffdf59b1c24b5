"""Of what the files of one folder are: a model, a checkpoint or a seed, by constant keys and by names.

Files of different ones are different runs, for no mean over them says anything. Files whose names differ
in numbers of steps, ranks or shards, or in dates, are parts of one run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from board.formats.base import Head, LineContext, Reader
from board.formats.mapping import GENERIC
from board.formats.parse import is_object
from board.formats.turn_rows import is_by_keys
from board.index.discovery.run_info import LogFile, Subject

_MODELS: Final = ("model", "model_name", "model_id", "model_path", "model_name_or_path")
_CHECKPOINTS: Final = ("checkpoint", "checkpoint_path", "ckpt", "ckpt_path")
_SEEDS: Final = ("seed", "random_seed")
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
_WORD: Final = re.compile(r"[^a-z0-9.]+")
_WITH_NUMBER: Final = re.compile(r"([a-z]+)([0-9]+)")
_MOMENT: Final = re.compile(r"[0-9]+(?:t[0-9.]+z?)?|[0-9]+[hms]|(?=[a-z]*[0-9])[0-9a-f]{8,}")
_STEP_IN_VALUE: Final = re.compile(
    r"(step|iter|iteration|epoch|checkpoint|ckpt|version|v)[_-]?[0-9]+", re.IGNORECASE
)
_MOST_CHARACTERS: Final = 200


def subject_of(head: Head, reader: Reader) -> Subject:
    """What a file is of, by its first records and, of files that no framework named, by its name."""
    if not is_by_keys(reader) and reader.family != "mapping":
        return ()
    if any("type" in record for record in head.records):  # of a writer that says what a run is
        return ()
    has_step = LineContext(head.path, layout=reader.layout).step is not None or any(
        not _STEPS.isdisjoint(record) for record in head.records
    )
    pairs = [*_constants(head.records)]
    if has_step:  # the model of a step is that step's
        pairs = [(k, _STEP_IN_VALUE.sub(r"\1", v)) for k, v in pairs]
        pairs = [(k, re.sub("[0-9]", "", v) if k in _CHECKPOINTS else v) for k, v in pairs]
    is_named = reader.title == GENERIC and len(head.records) > 1
    if is_named and (name := " ".join(_words_of(head.path.name))):
        pairs.append((NAME, name))
    return tuple(pairs)


def by_subject(files: Sequence[LogFile]) -> dict[str, Sequence[LogFile]]:
    """The files of each subject, by what tells it from the others; under "" where all are of one."""
    names = {dict(file.subject).get(NAME) for file in files}
    left_out = {NAME} if len(names) > _MOST_NAMES else set[str]()
    subjects = [tuple(pair for pair in file.subject if pair[0] not in left_out) for file in files]
    if len(set(subjects)) < 2:
        return {"": files}
    shared = set(subjects[0]).intersection(*subjects[1:])
    groups: dict[str, list[LogFile]] = {}
    for file, subject in zip(files, subjects, strict=True):
        own = {value: None for pair in subject if pair not in shared for value in pair[1:]}
        groups.setdefault(" · ".join(own) or "other files", []).append(file)
    return {**groups}


def _constants(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Keys of a model, a checkpoint or a seed of which all records have one and the same value."""
    for names in (_MODELS, _CHECKPOINTS, _SEEDS):
        for name in names:
            values = {value for record in records for value in _values(record, name)}
            if len(values) == 1:
                yield name, values.pop()
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
