"""What lies beside the logs of a run: run-*.json or metadata.json, vocab.json, and causes.toml."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from board.core.problems import Problem
from board.core.tokens.vocabulary import Vocabulary
from board.errors import ChoiceError
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteError, RemoteLocation
from board.index.discovery.cause_patterns import FILE as PATTERNS
from board.index.discovery.cause_patterns import CausePatterns, packaged_patterns, parse_patterns
from board.index.discovery.discovered_runs import RunInfo
from board.index.discovery.mappings import LARGEST_BYTES, content_of, leads_outside

_MOST_SETTINGS: Final = 256
_VOCABULARY: Final = "vocab.json"
_VOCABULARY_HINT: Final = (
    'tokens are shown as ids; {"pieces": [piece of id 0, ...]} and {id: piece} can be used, see '
    "docs/exporter_files.md; it is read again when it changes"
)
_EVALUATION: Final = "metadata.json"
_NAMES: Final = re.compile(r"run-.*\.json|(vocab|metadata)\.json|causes\.toml", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SidecarFiles:
    """settings: content of run-*.json and metadata.json by file name.

    vocabulary_hash: of vocab.json; empty: none that can be used. vocabulary_error: why it can't be
    used; empty where it can, or where there is none. causes: of causes.toml, before those of the package.
    """

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    vocabulary: Vocabulary | None = None
    vocabulary_hash: str = ""
    vocabulary_error: str = ""
    problems: tuple[Problem, ...] = ()
    causes: CausePatterns = field(default_factory=packaged_patterns)


def state_of(info: RunInfo) -> tuple[tuple[str, int, int], ...]:
    """Name, time of the last change and size of each; of a run in a store nothing: asking takes long."""
    return () if isinstance(info.path, RemoteLocation) else files_state(_local(info))


def files_state(paths: Iterable[Path]) -> tuple[tuple[str, int, int], ...]:
    """Name, time of the last change and size of each file that there is."""
    states: list[tuple[str, int, int]] = []
    for path in paths:
        with suppress(OSError):
            stat = path.stat()
            states.append((path.name, stat.st_mtime_ns, stat.st_size))
    return tuple(states)


def read_sidecar_files(info: RunInfo) -> SidecarFiles:
    """Reads them; what is wrong with them is a problem."""
    problems: list[Problem] = []
    settings: dict[str, Mapping[str, Any]] = {}
    vocabulary, vocabulary_hash, causes = None, "", packaged_patterns()
    for path in _paths(info, problems):
        try:
            content = content_of(path)
            if path.name == PATTERNS:
                causes = parse_patterns(content.decode("utf-8")).before(causes)
                continue
            parsed: object = json.loads(content)
            if not isinstance(parsed, dict):
                raise ValueError("no JSON object")
            document = cast("dict[str, Any]", parsed)
            if path.name == _VOCABULARY:
                vocabulary = Vocabulary.from_json(document)
                vocabulary_hash = hashlib.blake2b(content, digest_size=8).hexdigest()
            else:
                settings[path.name] = document
        except (OSError, ValueError, RecursionError, ChoiceError) as error:
            problems.append(_unusable(path, str(error)))
    error = next((p.reason for p in problems if p.path == _VOCABULARY), "")
    return SidecarFiles(settings, vocabulary, vocabulary_hash, error, tuple(problems), causes)


def _paths(info: RunInfo, problems: list[Problem]) -> Iterator[Location]:
    paths = _objects(info.path, problems) if isinstance(info.path, RemoteLocation) else _local(info)
    alone = (_EVALUATION, _VOCABULARY, PATTERNS)
    settings = sorted((path for path in paths if path.name not in alone), key=lambda p: p.name)
    if len(settings) > _MOST_SETTINGS:
        reason = f"the folder holds more than {_MOST_SETTINGS} run-*.json; the first are read"
        problems.append(Problem("run-*.json", None, None, reason, "", "partial"))
    wanted = [*settings[:_MOST_SETTINGS], *(path for path in paths if path.name in alone)]
    for path in wanted:
        if isinstance(path, Path) and not path.is_file():
            continue
        if isinstance(path, Path) and leads_outside(path, info.root):
            problems.append(_unusable(path, "it is a link that leads outside the root"))
        elif _size(path) > LARGEST_BYTES:
            problems.append(_unusable(path, f"it is larger than {LARGEST_BYTES >> 20} MB"))
        else:
            yield path


def _local(info: RunInfo) -> list[Path]:
    folder = Path(str(info.path))
    names = (_EVALUATION, _VOCABULARY, PATTERNS)
    return [*folder.glob("run-*.json"), *(folder / name for name in names)]


def _objects(folder: RemoteLocation, problems: list[Problem]) -> list[Location]:
    try:
        return [*folder.children_named(_NAMES)]
    except RemoteError as error:
        problems.append(
            Problem(".", None, None, f"can't be listed: {error.strerror}", "", "partial")
        )
        return []


def _size(path: Location) -> int:
    listed = path.listed if isinstance(path, RemoteLocation) else None
    return (listed or path.stat()).st_size


def _unusable(path: Location, reason: str) -> Problem:
    hint = _VOCABULARY_HINT if path.name == _VOCABULARY else ""
    return Problem(path.name, None, None, f"can't be used: {reason}", hint, "partial")
