"""A clean, real run as lines that faults change, and where in it a fault is planted."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson

SAMPLES = Path(__file__).parents[2] / "rollout_samples"
SAMPLE = SAMPLES / "grpo_arithmetic"
AT = 24
"""The step at which faults begin, unless a scene says otherwise."""
ARRAYS = (
    *("logprobs", "old_logprobs", "ref_logprobs", "sampling_logprobs", "entropy", "values"),
    *("token_rewards", "advantages", "returns", "is_masked", "is_masked_high", "is_masked_low"),
)

Line = dict[str, Any]
Place = tuple[int, int]
"""Step and index of a rollout."""


@dataclass(frozen=True)
class Scene:
    """What a fault is planted in. run: a folder of the native format; first, last: its steps that are
    kept; at: the step at which the fault begins; seed: of what is drawn; size: of the fault, times the
    size at which thresholds were chosen.
    """

    run: Path = SAMPLE
    first: int = 1
    last: int = 40
    at: int = AT
    seed: int = 0
    size: float = 1.0


TUNED = Scene()
"""What the thresholds were chosen on."""
LATER = Scene(first=90, last=129, at=108, seed=1)
"""The same run much later, after which no threshold was chosen; another step and seed."""


@dataclass
class Log:
    """A run as lines by file. files: with header, samples and ends of steps, in the board's order."""

    scene: Scene
    files: dict[str, list[Line]]
    vocabulary: dict[str, Any]
    settings: dict[str, dict[str, Any]]
    dice: random.Random = field(default_factory=random.Random)

    @property
    def steps(self) -> range:
        """Those of the fault."""
        return range(self.scene.at, self.scene.last + 1)

    def samples(self, first: int | None = None) -> Iterator[Line]:
        """The rollouts from a step on (by default the fault's), as the board orders them in each."""
        for _, line in self.places(first):
            yield line

    def places(self, first: int | None = None) -> Iterator[tuple[Place, Line]]:
        """The same with step and index of each."""
        for step in range(self.scene.at if first is None else first, self.scene.last + 1):
            for index, line in enumerate(self.step(step)):
                yield (step, index), line

    def step(self, step: int) -> list[Line]:
        """A step's rollouts in the board's order: by rank, then as written."""
        return [x for lines in self.files.values() for x in lines if _is_of(x, step)]

    def groups(self, step: int) -> list[list[Line]]:
        """A step's groups."""
        result: dict[str, list[Line]] = {}
        for line in self.step(step):
            result.setdefault(line["group_id"], []).append(line)
        return [*result.values()]

    def everyone(self, first: int | None = None) -> frozenset[Place]:
        """Every rollout from a step on."""
        return frozenset(place for place, _ in self.places(first))

    def id_of(self, piece: str) -> int:
        """The id of a token by its text."""
        return self.vocabulary["pieces"].index(piece)

    def write(self, folder: Path) -> Path:
        """Writes the run; the folder may be new."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in self.files.items():
            (folder / name).write_bytes(b"".join(orjson.dumps(x) + b"\n" for x in lines))
        (folder / "vocab.json").write_text(json.dumps(self.vocabulary))
        for name, settings in self.settings.items():
            (folder / name).write_text(json.dumps(settings))
        return folder


@dataclass(frozen=True)
class Planted:
    """Where a fault lies. step: the first step at which it is beyond the rule's threshold; what begins
    at once is so from its first step on. rollouts: that it changed. tokens: rollout and position of the
    tokens it changed, where it changed some and not all. pieces: their texts, where they are of a type.
    """

    step: int
    rollouts: frozenset[Place]
    tokens: frozenset[tuple[int, int, int]] = frozenset()
    pieces: frozenset[str] = frozenset()


def _is_of(line: Line, step: int) -> bool:
    return line.get("type") == "sample" and line["step"] == step


@cache
def _texts(run: Path, first: int, last: int) -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    def remaining(line: bytes) -> bool:
        step = orjson.loads(line).get("step")
        return step is None or first <= step <= last

    return tuple(
        (path.name, tuple(x for x in path.read_bytes().splitlines() if remaining(x)))
        for path in sorted(run.glob("*.jsonl"))
    )


def clean(scene: Scene = TUNED) -> Log:
    """The steps of a scene, as they were written."""
    texts = _texts(scene.run, scene.first, scene.last)
    return Log(
        scene,
        {name: [orjson.loads(x) for x in lines] for name, lines in texts},
        json.loads((scene.run / "vocab.json").read_text()),
        {p.name: json.loads(p.read_text()) for p in sorted(scene.run.glob("run-*.json"))},
        random.Random(scene.seed),
    )


def arrays_of(line: Line) -> Iterable[str]:
    """The token arrays that a rollout has as such, and not as one number for all tokens."""
    return [name for name in ARRAYS if isinstance(line.get(name), list)]
