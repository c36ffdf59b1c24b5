"""Takes a clean, real run and plants one fault in it, at a known step.

The run is the beginning of rollout_samples/grpo_arithmetic: what stands around a fault is what two
real ranks of a real training wrote.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson

SAMPLE = Path(__file__).parents[2] / "rollout_samples" / "grpo_arithmetic"
STEPS = 40
AT = 24
"""The step at which faults begin."""
EOS = 1
"""Id of <eos> in the sample's vocabulary."""
ARRAYS = ("logprobs", "ref_logprobs", "sampling_logprobs", "entropy")

Line = dict[str, Any]


@dataclass
class Log:
    """A run as lines by file, which faults change. order: the place of each sample in its step."""

    files: dict[str, list[Line]]
    vocabulary: dict[str, Any]
    settings: dict[str, Any]

    def samples(self, first: int = AT, last: int = STEPS) -> Iterable[Line]:
        """The rollouts of a range of steps, as the board orders them within each."""
        for step in range(first, last + 1):
            yield from self.step(step)

    def step(self, step: int) -> list[Line]:
        """A step's rollouts in the board's order: by rank, then as written."""
        return [x for lines in self.files.values() for x in lines if _is_of(x, step)]

    def groups(self, step: int) -> list[list[Line]]:
        """A step's groups."""
        found: dict[str, list[Line]] = {}
        for line in self.step(step):
            found.setdefault(line["group_id"], []).append(line)
        return [*found.values()]

    def write(self, folder: Path) -> Path:
        """Writes the run; the folder may be new."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in self.files.items():
            (folder / name).write_bytes(b"".join(orjson.dumps(x) + b"\n" for x in lines))
        (folder / "vocab.json").write_text(json.dumps(self.vocabulary))
        (folder / f"run-{self.settings['attempt']}.json").write_text(json.dumps(self.settings))
        return folder


def _is_of(line: Line, step: int) -> bool:
    return line.get("type") == "sample" and line["step"] == step


@cache
def _texts() -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    def kept(line: bytes) -> bool:
        step = orjson.loads(line).get("step")
        return step is None or step <= STEPS

    return tuple(
        (path.name, tuple(x for x in path.read_bytes().splitlines() if kept(x)))
        for path in sorted(SAMPLE.glob("*.jsonl"))
    )


def clean() -> Log:
    """The first STEPS steps of the sample, as they were written."""
    (settings,) = SAMPLE.glob("run-*.json")
    return Log(
        {name: [orjson.loads(x) for x in lines] for name, lines in _texts()},
        json.loads((SAMPLE / "vocab.json").read_text()),
        json.loads(settings.read_text()),
    )


@dataclass(frozen=True)
class Fault:
    """One fault. plant: changes a log. rule: that should find it, from step `first` on or at most `late`
    steps after it: a mean over steps shows a change only after some; or `early` steps before it, where
    what varies anyway was low by chance. rollouts, position, piece: what
    the evidence names. also: rules that the same fault trips rightly. tokens: whether tokens are read
    to find it."""

    name: str
    what: str
    plant: Callable[[Log], None]
    rule: str
    severity: str = "severe"
    first: int = AT
    late: int = 0
    early: int = 0
    rollouts: frozenset[int] = field(default_factory=frozenset)
    position: int | None = None
    piece: str | None = None
    also: frozenset[str] = frozenset()
    tokens: bool = False


def shift_logprobs(log: Log) -> None:
    for line in log.samples():
        line["logprobs"] = [*line["logprobs"][1:], line["logprobs"][-1]]


def shift_reference(log: Log) -> None:
    for line in log.samples():
        line["ref_logprobs"] = [line["ref_logprobs"][0], *line["ref_logprobs"][:-1]]


def blow_up_eos(log: Log) -> None:
    for line in log.samples():
        if line["response_ids"][-1] == EOS:
            line["ref_logprobs"][-1] = line["logprobs"][-1] - 12.0


def one_token(log: Log) -> None:
    line = log.step(30)[7]
    line["ref_logprobs"][5] = line["logprobs"][5] + 6.5


def drift(log: Log) -> None:
    dice = random.Random(0)
    for line in log.samples(16):
        spread = 0.01 * (line["step"] - 15)
        line["sampling_logprobs"] = [x + dice.gauss(0, spread) for x in line["logprobs"]]


def stale_sampler(log: Log) -> None:
    dice = random.Random(0)
    for line in log.samples():
        line["sampling_logprobs"] = [x + dice.gauss(0, 0.2) for x in line["logprobs"]]


def collapse_groups(log: Log) -> None:
    for step in range(AT, STEPS + 1):
        for group in log.groups(step):
            for line in group:
                line |= {"reward": group[0]["reward"], "rewards": group[0]["rewards"]}


def truncate(log: Log) -> None:
    for place, line in enumerate(log.samples()):
        if place % 8 < 5:
            line |= {"is_truncated": True, "finish_reason": "length"}


def go_in_circles(log: Log) -> None:
    for step in range(AT, STEPS + 1):
        for index in (3, 11, 19):
            line = log.step(step)[index]
            period = [17, 25, 18]
            line["response_ids"] = line["response_ids"][:8] + period * 12
            line["response"] += " 0:1" * 12
            for name in ARRAYS:
                line[name] = [*line[name][:8], *([-0.5] * 36)]


def duplicate_rank(log: Log) -> None:
    first, second = log.files
    own = [x for x in log.files[second] if not (x.get("type") == "sample" and x["step"] >= AT)]
    copied = [
        {**x, "rank": 1} for x in log.files[first] if x.get("type") == "sample" and x["step"] >= AT
    ]
    log.files[second] = [*own, *copied]


def resume(log: Log) -> None:
    again: dict[str, list[Line]] = {}
    for name, lines in log.files.items():
        header = {**lines[0], "attempt": "20261121T133805Z", "start_step": AT}
        header["started"] = lines[0]["started"] + 3600
        later = [x for x in lines if x.get("step", 0) >= AT]
        again[f"20261121T133805Z-{name.split('-', 1)[1]}"] = [header, *later]
        log.files[name] = [x for x in lines if x.get("step", 0) <= AT + 3 and x["type"] != "close"]
    log.files |= again


def hack_reward(log: Log) -> None:
    for line in log.samples(20):
        line["rewards"] = {"correct": 0.0, "format": 1.5}
        line["reward"] = 1.5 + 0.001 * len(line["response"])


def garble(log: Log) -> None:
    """Bytes that no text has, as token ids of the byte-level alphabet and as what they decode to."""
    pieces = log.vocabulary["pieces"]
    high = [i for i, piece in enumerate(pieces) if len(piece) == 1 and 0xE0 < ord(piece) < 0x100]
    for step in range(AT, STEPS + 1):
        for index in (5, 9):
            line = log.step(step)[index]
            ids = line["response_ids"]
            ids[4:12] = high[: len(ids[4:12])]
            line["response"] = line["response"][:6] + "\ufffd" * 8 + line["response"][14:]


def stop_rank(log: Log) -> None:
    second = [*log.files][1]
    log.files[second] = [x for x in log.files[second] if x.get("step", 0) < AT]


def _copy_response(line: Line, source: Line) -> None:
    line |= {name: source[name] for name in ("response", "response_ids", *ARRAYS)}


def repeat_responses(log: Log) -> None:
    for step in range(AT, STEPS + 1):
        for group in log.groups(step):
            least = min(group, key=lambda line: sum(line["sampling_logprobs"]))
            for line in group:
                _copy_response(line, least)


def say_one_thing(log: Log) -> None:
    for step in range(AT, STEPS + 1):
        lines = log.step(step)
        for line in lines:
            _copy_response(line, lines[0])


def lose_values(log: Log) -> None:
    for line in log.samples():
        line["logprobs"] = [None if i % 10 == 3 else x for i, x in enumerate(line["logprobs"])]


def cut_array(log: Log) -> None:
    for line in log.samples():
        line["ref_logprobs"] = line["ref_logprobs"][:-1]


def collapse_entropy(log: Log) -> None:
    for line in log.samples():
        line["entropy"] = [0.02 * x for x in line["entropy"]]


def fail_one_env(log: Log) -> None:
    for line in log.samples():
        line["reward"] = 0.0 if line["env"] == "add" else line["reward"] + 1.0


def one_reward(log: Log) -> None:
    log.step(30)[4]["reward"] = 50.0


def lose_rewards(log: Log) -> None:
    for place, line in enumerate(log.samples()):
        if place % 5 == 0:
            line["reward"] = None


def flip_advantages(log: Log) -> None:
    for line in log.samples():
        line["advantage"] = -line["advantage"]


def pay_length(log: Log) -> None:
    for line in log.samples():
        line["reward"] = 0.02 * len(line["response"])


def grow(log: Log) -> None:
    for line in log.samples():
        line["response"] += line["response"]
        for name in ("response_ids", *ARRAYS):
            line[name] = [*line[name][:-1], *line[name]]


def switch_script(log: Log) -> None:
    log.vocabulary["pieces"].append("ä¸Ń")  # 中 in the byte-level alphabet
    new = len(log.vocabulary["pieces"]) - 1
    for line in log.samples():
        ids = line["response_ids"]
        line["response_ids"] = [new if i % 6 == 2 else x for i, x in enumerate(ids)]


def stop_the_clock(log: Log) -> None:
    for line in log.samples(1):
        pause = 7200.0 if line["step"] >= AT else 0.0
        line["timestamp"] = 1.7e9 + 2.0 * line["step"] + pause


FAULTS = (
    Fault(
        "off by one",
        "logprobs are of the next token",
        shift_logprobs,
        "misaligned",
        also=frozenset(("kl_spike", "mismatch", "token_type_kl")),
        tokens=True,
    ),
    Fault(
        "reference off by one",
        "ref_logprobs are of the token before",
        shift_reference,
        "misaligned",
        also=frozenset(("kl_spike", "token_type_kl")),
        tokens=True,
    ),
    Fault(
        "KL of one token type",
        "`<eos>` is 12 nats less likely for the reference",
        blow_up_eos,
        "token_type_kl",
        piece="<eos>",
        also=frozenset(("kl_spike",)),
        tokens=True,
    ),
    Fault(
        "one token",
        "token 5 of rollout 7 of step 30 is 6.5 nats likelier for the reference",
        one_token,
        "kl_spike",
        severity="lead",
        first=30,
        rollouts=frozenset((7,)),
        position=5,
        tokens=True,
    ),
    Fault(
        "sampler drift",
        "noise on sampling_logprobs grows by 0.01 nats a step from step 16",
        drift,
        "mismatch",
        first=16,
        late=6,
        tokens=True,
    ),
    Fault(
        "stale sampler",
        "noise of 0.2 nats on sampling_logprobs",
        stale_sampler,
        "mismatch",
        tokens=True,
    ),
    Fault(
        "collapsed groups",
        "all rewards of a group are its first",
        collapse_groups,
        "zero_gradient",
    ),
    Fault("truncation", "5 of 8 responses cut off", truncate, "truncation"),
    Fault(
        "repetition",
        "rollouts 3, 11, 19 end in 12 times the same 3 tokens",
        go_in_circles,
        "repetition",
        severity="warning",
        rollouts=frozenset((3, 11, 19)),
        position=8,
        also=frozenset(("kl_spike", "mismatch")),
        tokens=True,
    ),
    Fault(
        "duplicated rank",
        "rank 1 logs rank 0's rollouts",
        duplicate_rank,
        "duplicated_rollouts",
    ),
    Fault("resume", "steps 24 to 27 are written twice", resume, "resumed", severity="lead"),
    Fault(
        "reward hack",
        "from step 20 format pays 1.5, nothing is right",
        hack_reward,
        "part_falls",
        first=20,
        also=frozenset(("zero_gradient",)),
    ),
    Fault(
        "garbled bytes",
        "8 bytes that are no text in rollouts 5 and 9",
        garble,
        "garbled",
        severity="warning",
        rollouts=frozenset((5, 9)),
        position=4,
        tokens=True,
    ),
    Fault("stopped rank", "rank 1 writes no more", stop_rank, "stopped_rank"),
    Fault(
        "duplicate responses",
        "all responses of a group are its least likely one",
        repeat_responses,
        "duplicates",
        tokens=True,
    ),
    Fault(
        "one response to all",
        "all responses of a step are its first",
        say_one_thing,
        "same_everywhere",
        also=frozenset(("duplicates",)),
        tokens=True,
    ),
    Fault(
        "gaps",
        "every tenth value of logprobs is null",
        lose_values,
        "missing_values",
        severity="warning",
        position=3,
        tokens=True,
    ),
    Fault(
        "unequal arrays",
        "ref_logprobs lack the last token",
        cut_array,
        "unequal_arrays",
        severity="warning",
        tokens=True,
    ),
    Fault("entropy collapse", "entropy is a 50th", collapse_entropy, "entropy_collapse"),
    Fault(
        "reward outlier",
        "rollout 4 of step 30 has reward 50",
        one_reward,
        "reward_outliers",
        first=30,
        rollouts=frozenset((4,)),
    ),
    Fault(
        "one env fails",
        "the reward of env add is 0, that of env subtract 1 higher",
        fail_one_env,
        "hidden_env",
        severity="warning",
        early=1,
        also=frozenset(("zero_gradient",)),
    ),
    Fault(
        "lost rewards", "every fifth reward is null", lose_rewards, "unscored", severity="warning"
    ),
    Fault(
        "flipped advantages",
        "advantages have the other sign",
        flip_advantages,
        "advantages",
        severity="warning",
    ),
    Fault(
        "length pays",
        "reward is 0.02 a character",
        pay_length,
        "reward_length",
        severity="lead",
        late=9,
    ),
    Fault(
        "longer, not better",
        "responses are said twice",
        grow,
        "length_without_gain",
        severity="warning",
        late=9,
        also=frozenset(("truncation",)),
    ),
    Fault(
        "another script",
        "every sixth token is Chinese",
        switch_script,
        "foreign_script",
        severity="lead",
        tokens=True,
    ),
    Fault("pause", "two hours between two steps", stop_the_clock, "clock_gap", severity="lead"),
)
