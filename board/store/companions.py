"""What lies beside the logs of a run: run-*.json or metadata.json, and vocab.json."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from board.core.problems import Problem
from board.core.vocabulary import Vocabulary
from board.readers.locations import Location
from board.readers.remote import RemoteError, RemoteLocation
from board.store.discovery import RunInfo
from board.store.fetched import content_of

_MOST_BYTES: Final = 64 << 20
_MOST_SETTINGS: Final = 256
_VOCABULARY: Final = "vocab.json"
_EVALUATION: Final = "metadata.json"
_NAMES: Final = re.compile(r"run-.*\.json|(vocab|metadata)\.json", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Companions:
    """settings: content of run-*.json and metadata.json by file name.

    vocabulary_hash: of vocab.json; empty: none.
    """

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    vocabulary: Vocabulary | None = None
    vocabulary_hash: str = ""
    problems: tuple[Problem, ...] = ()


def read_companions(info: RunInfo) -> Companions:
    """Reads them; what is wrong with them is a problem."""
    problems: list[Problem] = []
    settings: dict[str, Mapping[str, Any]] = {}
    vocabulary, vocabulary_hash = None, ""
    for path in _paths(info, problems):
        try:
            content = content_of(path)
            parsed: object = json.loads(content)
            if not isinstance(parsed, dict):
                raise ValueError("no JSON object")
            document = cast("dict[str, Any]", parsed)
            if path.name == _VOCABULARY:
                vocabulary = Vocabulary.from_json(document)
                vocabulary_hash = hashlib.blake2b(content, digest_size=8).hexdigest()
            else:
                settings[path.name] = document
        except (OSError, ValueError, RecursionError) as error:
            problems.append(_unusable(path, str(error)))
    return Companions(settings, vocabulary, vocabulary_hash, tuple(problems))


def _paths(info: RunInfo, problems: list[Problem]) -> Iterator[Location]:
    found = _objects(info.path, problems) if isinstance(info.path, RemoteLocation) else _local(info)
    alone = (_EVALUATION, _VOCABULARY)
    settings = sorted((path for path in found if path.name not in alone), key=lambda p: p.name)
    if len(settings) > _MOST_SETTINGS:
        reason = f"the folder holds more than {_MOST_SETTINGS} run-*.json; the first are read"
        problems.append(Problem("run-*.json", None, None, reason, "", "partial"))
    wanted = [*settings[:_MOST_SETTINGS], *(path for path in found if path.name in alone)]
    for path in wanted:
        if isinstance(path, Path) and not path.is_file():
            continue
        if isinstance(path, Path) and _leads_outside(path, info.root):
            problems.append(_unusable(path, "it is a link that leads outside the root"))
        elif _size(path) > _MOST_BYTES:
            problems.append(_unusable(path, f"it is larger than {_MOST_BYTES >> 20} MB"))
        else:
            yield path


def _local(info: RunInfo) -> list[Location]:
    folder = Path(str(info.path))
    return [*folder.glob("run-*.json"), folder / _EVALUATION, folder / _VOCABULARY]


def _objects(folder: RemoteLocation, problems: list[Problem]) -> list[Location]:
    try:
        return [*folder.beside(_NAMES)]
    except RemoteError as error:
        problems.append(
            Problem(".", None, None, f"can't be listed: {error.strerror}", "", "partial")
        )
        return []


def _leads_outside(path: Path, root: Location) -> bool:
    return not isinstance(root, Path) or not Path(os.path.realpath(path)).is_relative_to(
        root.resolve()
    )


def _size(path: Location) -> int:
    listed = path.listed if isinstance(path, RemoteLocation) else None
    return (listed or path.stat()).st_size


def _unusable(path: Location, reason: str) -> Problem:
    return Problem(path.name, None, None, f"can't be used: {reason}", "", "partial")
