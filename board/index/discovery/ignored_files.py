"""What lies beside logs and tells by its name that it is none: configurations, metrics, weights.

Such files are never opened, and count as no trouble: they are counted by kind, with the names of a
few, so that a folder of a hundred thousand checkpoints is one line.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from board.formats.io.locations import Location, below
from board.formats.io.remote import RemoteLocation
from board.index.discovery.run_info import IgnoredFiles, RunInfo

_NAMED: Final = 3
"""Files of a kind that are told by name; the others are counted."""
_CONFIGURATION: Final = "configuration"
_METRICS: Final = "metrics or a summary"
_STATE: Final = "state of the trainer"
_EVENTS: Final = "TensorBoard events"
_WANDB: Final = "files of Weights & Biases"
_WEIGHTS: Final = "weights or other tensors"
_TOKENIZER: Final = "tokenizer"
_PRINTED: Final = "printed output"
_UNFINISHED: Final = "rollouts that are still being sampled"
_HYDRA: Final = ".hydra"

_OWN: Final = re.compile(r"run-.*\.json|rollout-board\.toml|thresholds\.toml", re.DOTALL)
"""Names of what is read of a run: not passed over."""
_KINDS: Final = (_WANDB, _WEIGHTS, _TOKENIZER, _STATE, _METRICS, _CONFIGURATION)


def _words(*of_kinds: str) -> re.Pattern[str]:
    """Finds the first word of a name that tells its kind: `train_config.json`, not `reconfigured.json`.

    of_kinds: for each of _KINDS its words, as a pattern; empty: none.
    """
    groups = (f"(?P<k{k}>{words})" for k, words in enumerate(of_kinds) if words)
    return re.compile(rf"(?:^|(?<=[-_.]))(?:{'|'.join(groups)})(?=[-_.\d])")


_DOCUMENT: Final = _words(
    "wandb-metadata",
    "index(?=[.]json$)",
    "tokenizer|tokenizer_config|special_tokens_map|added_tokens",
    "(?:train(?:er|ing)|optimizer|scheduler|dataloader)_?state",
    "metrics?|summar(?:y|ies)|results?|scores|stats|eval_plan",
    "conf(?:ig(?:s|uration)?)?|cfg|arg(?:s|uments)|h(?:yper)?param(?:s|eters)|param(?:s|eters)|settings",
)
_TABLE: Final = _words("", "", "", "", "metrics?|summary|results?|scores|stats|progress|log", "")
_STATES: Final = "training_args|optimizer|optim|scheduler|rng_state|scaler"
_TENSORS: Final = _words("", "", "", _STATES, "", "")
_BINARY: Final = _words("", "(?:pytorch_|adapter_)?model", "", _STATES, "", "")
# Suffix -> what to look for in the name, and what the file is where that is not there.
_BY_SUFFIX: Final[Mapping[str, tuple[re.Pattern[str] | None, str]]] = {
    "json": (_DOCUMENT, ""),
    "bin": (_BINARY, ""),
    "wandb": (None, _WANDB),
    **dict.fromkeys(("yaml", "yml", "toml", "ini", "cfg", "gin"), (None, _CONFIGURATION)),
    **dict.fromkeys(("csv", "tsv"), (_TABLE, "")),
    **dict.fromkeys(("safetensors", "pt", "pth", "ckpt", "distcp", "gguf"), (_TENSORS, _WEIGHTS)),
    **dict.fromkeys(("log", "out", "err"), (None, _PRINTED)),
}


# A file for each rollout, taken away when it has ended and is written to the log: of prime-rl (048a6e2,
# monitors/file/traces/live.py) lines of what is new, and a document until there are any.
_LIVE: Final = re.compile(r"(?:^|[\\/])traces[\\/]live$")
_RUNNING: Final = re.compile(rf"{_LIVE.pattern}|(?:^|[\\/])pending$")
_PENDING: Final = "pending"


def kind_of(name: str, folder: str = "") -> str:
    """What a file is by its name and the folder it lies in; empty where they say nothing."""
    if kind := _by_name(name):
        return kind
    where = {"json": _RUNNING, "jsonl": _LIVE}.get(name.lower().rpartition(".")[2])
    return _UNFINISHED if where is not None and where.search(folder) else ""


def is_of_running(folder: str, subfolders: Iterable[str]) -> bool:
    """Whether a folder is prime-rl's of rollouts that still run: its lines are no log yet."""
    return _PENDING in subfolders and _LIVE.search(folder) is not None


@lru_cache(maxsize=1 << 12)
def _by_name(name: str) -> str:
    lower = name.lower()
    if "tfevents" in lower:
        return _EVENTS
    rule = _BY_SUFFIX.get(lower.rpartition(".")[2])
    if rule is None or _OWN.fullmatch(lower):
        return ""
    words, otherwise = rule
    found = None if words is None else words.search(lower)
    if found is None or found.lastgroup is None:
        return otherwise
    return _KINDS[int(found.lastgroup[1:])]


@dataclass(slots=True)
class _Counted:
    """Files of one kind in one folder: how many, and the first of them."""

    count: int = 0
    names: list[str] = field(default_factory=list[str])


class IgnoredFileCounter:
    """Collects what is passed over by its name while a root is searched."""

    def __init__(self, root: Location) -> None:
        self._root = root
        self._found: dict[str, dict[str, _Counted]] = {}

    def add(self, folder: str, name: str) -> None:
        """A file that is no log. folder: as the walk of the root has it; of an object its key's."""
        if kind := kind_of(name, folder):
            self._count(folder, name, kind)

    def add_object(self, location: RemoteLocation) -> None:
        """As `add`, of an object."""
        folder, _, name = below(location, self._root).rpartition("/")
        self.add(folder, name)

    def add_hidden(self, folder: str, subfolders: Iterable[str]) -> None:
        """Folders that are not searched, of which hydra's is known to hold the configuration."""
        if _HYDRA in subfolders:
            self._count(folder, _HYDRA, _CONFIGURATION)

    def _count(self, folder: str, name: str, kind: str) -> None:
        counted = self._found.setdefault(folder, {}).setdefault(kind, _Counted())
        counted.count += 1
        if len(counted.names) < _NAMED:
            counted.names.append(name)

    def all(self) -> tuple[IgnoredFiles, ...]:
        """All that was found, told from the root."""
        return _together((folder, kinds, ".") for folder, kinds in self._folders())

    def assign_to_runs(
        self, runs: Sequence[RunInfo]
    ) -> tuple[list[RunInfo], tuple[IgnoredFiles, ...]]:
        """The runs with what lies in their folders, and the rest.

        What lies above a run is the run's where there is no other below.
        """
        homes = {below(run.path, self._root) for run in runs}
        only = _only_below(homes)
        of_homes: dict[str | None, list[tuple[str, Mapping[str, _Counted], str]]] = {}
        for folder, kinds in self._folders():
            home = next((f for f in _upwards(folder) if f in homes), only.get(folder))
            of_homes.setdefault(home, []).append((folder, kinds, home or "."))
        told = {home: _together(found) for home, found in of_homes.items()}
        given = [replace(r, beside=told.get(below(r.path, self._root), ())) for r in runs]
        return given, told.get(None, ())

    def _folders(self) -> Iterable[tuple[str, Mapping[str, _Counted]]]:
        """By folders below the root, `.` for the root itself."""
        is_local = not isinstance(self._root, RemoteLocation)
        for folder, kinds in sorted(self._found.items()):
            yield (os.path.relpath(folder, str(self._root)) if is_local else folder or "."), kinds


def _together(
    found: Iterable[tuple[str, Mapping[str, _Counted], str]],
) -> tuple[IgnoredFiles, ...]:
    """The kinds of several folders, the most telling first. Each with the folder it is told from."""
    whole: dict[str, _Counted] = {}
    for folder, kinds, home in found:
        for kind, counted in kinds.items():
            of_kind = whole.setdefault(kind, _Counted())
            of_kind.count += counted.count
            for name in counted.names[: _NAMED - len(of_kind.names)]:
                of_kind.names.append(posixpath.relpath(posixpath.join(folder, name), home))
    return tuple(IgnoredFiles(kind, c.count, tuple(c.names)) for kind, c in sorted(whole.items()))


def _only_below(homes: Iterable[str]) -> dict[str, str | None]:
    """By folders above runs the one run's folder that lies below; None where there are several."""
    only: dict[str, str | None] = {}
    for home in homes:
        for above in _upwards(home):
            only[above] = None if above in only else home
    return only


def _upwards(folder: str) -> Iterable[str]:
    """A folder and those above it, up to the root."""
    while folder != ".":
        yield folder
        folder = posixpath.dirname(folder) or "."
    yield folder
