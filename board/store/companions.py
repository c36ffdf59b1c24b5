"""What lies beside the logs of a run: run-*.json or metadata.json, and vocab.json."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from board.core.problems import Problem
from board.core.vocabulary import Vocabulary
from board.store.discovery import RunInfo

_MOST_BYTES: Final = 64 << 20
_MOST_SETTINGS: Final = 256


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
            content = path.read_bytes()
            parsed: object = json.loads(content)
            if not isinstance(parsed, dict):
                raise ValueError("no JSON object")
            document = cast("dict[str, Any]", parsed)
            if path.name == "vocab.json":
                vocabulary = Vocabulary.from_json(document)
                vocabulary_hash = hashlib.blake2b(content, digest_size=8).hexdigest()
            else:
                settings[path.name] = document
        except (OSError, ValueError, RecursionError) as error:
            problems.append(_unusable(path, str(error)))
    return Companions(settings, vocabulary, vocabulary_hash, tuple(problems))


def _paths(info: RunInfo, problems: list[Problem]) -> Iterator[Path]:
    settings = sorted(info.path.glob("run-*.json"))
    if len(settings) > _MOST_SETTINGS:
        reason = f"the folder holds more than {_MOST_SETTINGS} run-*.json; the first are read"
        problems.append(Problem("run-*.json", None, None, reason, "", "partial"))
    others = (info.path / "metadata.json", info.path / "vocab.json")
    for path in [*settings[:_MOST_SETTINGS], *others]:
        if not path.is_file():
            continue
        if not Path(os.path.realpath(path)).is_relative_to(info.root.resolve()):
            problems.append(_unusable(path, "it is a link that leads outside the root"))
        elif path.stat().st_size > _MOST_BYTES:
            problems.append(_unusable(path, f"it is larger than {_MOST_BYTES >> 20} MB"))
        else:
            yield path


def _unusable(path: Path, reason: str) -> Problem:
    return Problem(path.name, None, None, f"can't be used: {reason}", "", "partial")
