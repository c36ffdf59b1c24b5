"""Every fault, with the rule that is to find it. A fault changes a clean run from a step on, and says
what it changed where that is not every rollout from there on.
"""

import math
from statistics import mean

from faults import plant_failures  # noqa: F401  # lists its own
from faults.fault import FAULTS, Fault, fault
from faults.scene import Line, Log, Place, Planted, arrays_of

__all__ = ["FAULTS", "Fault"]


def _drawn(log: Log, count: int, least: int = 0) -> list[int]:
    """Indices of some rollouts that have so many tokens at every step of the fault."""
    steps = [log.step(step) for step in log.steps]
    fits = [
        index
        for index in range(min(map(len, steps)))
        if all(len(lines[index]["response_ids"]) >= least for lines in steps)
    ]
    return sorted(log.dice.sample(fits, count))


@fault("off by one", "misaligned", also=("kl_spike", "mismatch"))
def shift_logprobs(log: Log) -> None:
    """logprobs are of the next token."""
    for line in log.samples():
        line["logprobs"] = [*line["logprobs"][1:], line["logprobs"][-1]]


@fault("reference off by one", "misaligned", also=("kl_spike",))
def shift_reference(log: Log) -> None:
    """ref_logprobs are of the token before."""
    for line in log.samples():
        line["ref_logprobs"] = [line["ref_logprobs"][0], *line["ref_logprobs"][:-1]]


@fault("one rank off by one", "misaligned", also=("mismatch",), ranks=2)
def shift_one_rank(log: Log) -> Planted:
    """sampling_logprobs of rank 1 are of the token before."""
    rollouts = set[Place]()
    for place, line in log.places():
        if line["rank"] == 1:
            own = line["sampling_logprobs"]
            line["sampling_logprobs"] = [own[0], *own[:-1]]
            rollouts.add(place)
    return Planted(log.scene.at, frozenset(rollouts))


@fault("KL of one token type", "kl_spike", tokens=True)
def blow_up_eos(log: Log) -> Planted:
    """`<eos>` is 12 nats less likely for the reference."""
    eos, tokens = log.id_of("<eos>"), set[tuple[int, int, int]]()
    for (step, index), line in log.places():
        if line["response_ids"][-1] == eos:
            line["ref_logprobs"][-1] = line["logprobs"][-1] - 12.0 * log.scene.size
            tokens.add((step, index, len(line["response_ids"]) - 1))
    rollouts = frozenset(token[:2] for token in tokens)
    return Planted(log.scene.at, rollouts, frozenset(tokens), frozenset(("<eos>",)))


@fault("one token", "kl_spike", severity="lead", tokens=True)
def one_token(log: Log) -> Planted:
    """Token 5 of a rollout is 6.5 nats likelier for the reference."""
    step = log.scene.at + 6
    index = log.dice.choice([i for i, x in enumerate(log.step(step)) if len(x["logprobs"]) > 5])
    line = log.step(step)[index]
    line["ref_logprobs"][5] = line["logprobs"][5] + 6.5 + math.log(log.scene.size)
    return Planted(step, frozenset(((step, index),)), frozenset(((step, index, 5),)))


@fault("policy leaves", "kl_spike")
def leave_reference(log: Log) -> None:
    """All tokens are less likely for the reference, by noise of 1.5 nats."""
    # Noise, as moves of the policy in all directions make it.
    distribution = 1.5 * math.sqrt(log.scene.size)
    for line in log.samples():
        line["ref_logprobs"] = [x - abs(log.dice.gauss(0, distribution)) for x in line["logprobs"]]


def _noise(log: Log, first: int, a_step: float, grows: bool) -> dict[int, float]:
    """Makes sampling_logprobs noisy; by step the mean of exp|d| over the noise as it was drawn."""
    result: dict[int, list[float]] = {}
    for line in log.samples(first):
        distribution = a_step * (line["step"] - first + 1 if grows else 1)
        trainer = _before_updates(line)
        noise = [log.dice.gauss(0, distribution) for _ in trainer]
        line["sampling_logprobs"] = [x + d for x, d in zip(trainer, noise, strict=True)]
        result.setdefault(line["step"], []).extend(math.exp(abs(d)) for d in noise)
    return {step: mean(values) for step, values in result.items()}


def _before_updates(line: Line) -> list[float]:
    """The trainer's log-probabilities with the weights that sampled."""
    return line.get("old_logprobs", line["logprobs"])


@fault("sampler drift", "mismatch", is_gradual=True)
def drift(log: Log) -> Planted:
    """Noise on sampling_logprobs grows by 0.01 nats a step, from 8 steps before."""
    first = log.scene.at - 8
    sizes = _noise(log, first, 0.01 * log.scene.size, grows=True)
    step = next(step for step, value in sizes.items() if value > 1.05)
    return Planted(step, log.everyone(first))


@fault("stale sampler", "mismatch")
def stale_sampler(log: Log) -> None:
    """Noise of 0.2 nats on sampling_logprobs."""
    _noise(log, log.scene.at, 0.2 * log.scene.size, grows=False)


@fault("collapsed groups", "zero_std_groups")
def collapse_groups(log: Log) -> None:
    """All rewards of a group are its first."""
    for step in log.steps:
        for group in log.groups(step):
            for line in group:
                line |= {"reward": group[0]["reward"], "rewards": group[0]["rewards"]}


@fault("truncation", "truncation")
def truncate(log: Log) -> Planted:
    """5 of 8 responses cut off."""
    rollouts = set[Place]()
    for (step, index), line in log.places():
        if index % 8 < 5 * log.scene.size:
            line |= {"is_truncated": True, "finish_reason": "length"}
            rollouts.add((step, index))
    return Planted(log.scene.at, frozenset(rollouts))


@fault("repetition", "repetition", severity="warning", also=("kl_spike", "mismatch"))
def go_in_circles(log: Log) -> Planted:
    """Three rollouts end in 12 times the same 3 tokens."""
    chosen, tokens = _drawn(log, round(3 * log.scene.size), 8), set[tuple[int, int, int]]()
    for step in log.steps:
        for index in chosen:
            line = log.step(step)[index]
            line["response_ids"] = line["response_ids"][:8] + [17, 25, 18] * 12
            line["response"] += " 0:1" * 12
            for name in arrays_of(line):
                line[name] = [*line[name][:8], *([-0.5] * 36)]
            tokens.add((step, index, 8))
    return Planted(log.scene.at, frozenset(t[:2] for t in tokens), frozenset(tokens))


@fault("duplicated rank", "duplicated_rollouts", ranks=2)
def duplicate_rank(log: Log) -> Planted:
    """Rank 1 logs rank 0's rollouts."""
    first, second = log.files
    at = log.scene.at
    own = [x for x in log.files[second] if not (x.get("type") == "sample" and x["step"] >= at)]
    copied = [
        {**x, "rank": 1} for x in log.files[first] if x.get("type") == "sample" and x["step"] >= at
    ]
    log.files[second] = [*own, *copied]
    return Planted(at, frozenset(place for place, line in log.places() if line["rank"] == 1))


@fault("missing rollouts", "trainer_differs", severity="warning")
def lose_rollouts(log: Log) -> Planted:
    """A quarter of the rollouts, those of lowest reward, are not in the log."""
    for step in log.steps:
        lines = sorted(log.step(step), key=lambda line: line["reward"])
        lost = {id(line) for line in lines[: round(len(lines) / 4 * log.scene.size)]}
        for name, own in log.files.items():
            log.files[name] = [line for line in own if id(line) not in lost]
    return Planted(log.scene.at, frozenset())


@fault("resume", "resumed", severity="lead")
def resume(log: Log) -> Planted:
    """Four steps are written twice."""
    at, again = log.scene.at, dict[str, list[Line]]()
    for name, lines in log.files.items():
        header = {**lines[0], "attempt": "20271121T133805Z", "start_step": at}
        header["started"] = lines[0]["started"] + 3600
        later = [x for x in lines if x.get("step", 0) >= at]
        again[f"20271121T133805Z-{name.split('-', 1)[1]}"] = [header, *later]
        log.files[name] = [x for x in lines if x.get("step", 0) <= at + 3 and x["type"] != "close"]
    rollouts = frozenset(place for place in log.everyone() if place[0] <= at + 3)
    log.files |= again
    return Planted(at, rollouts)


@fault("restart that appends", "resumed", severity="lead")
def append_again(log: Log) -> Planted:
    """Four steps and the beginning of a fifth are written twice into the same files."""
    at = log.scene.at
    for name, lines in log.files.items():
        first = [x for x in lines if x.get("step", 0) <= at + 3 and x["type"] != "close"]
        begun = [x for x in lines if x.get("step", 0) == at + 4 and x["type"] == "sample"]
        again = [x for x in lines if x.get("step", 0) >= at or x["type"] == "close"]
        log.files[name] = [*first, *begun[:3], *again]
    return Planted(at, frozenset(place for place in log.everyone() if place[0] <= at + 4))


@fault("reward hack", "part_falls", also=("zero_std_groups",))
def hack_reward(log: Log) -> Planted:
    """Format pays 1.5, nothing is right, from 4 steps before."""
    first = log.scene.at - 4
    for line in log.samples(first):
        line["rewards"] = {"correct": 0.0, "format": 1.5 * log.scene.size}
        line["reward"] = 1.5 * log.scene.size + 0.001 * len(line["response"])
    return Planted(first, log.everyone(first))


@fault("parts that do not add up", "contradiction", severity="warning")
def count_format_twice(log: Log) -> Planted:
    """The part format is logged at twice its value, and the reward as before."""
    changed = set[Place]()
    for place, line in log.places():
        if line["rewards"].get("format"):
            line["rewards"]["format"] *= 2
            changed.add(place)
    return Planted(log.scene.at, frozenset(changed))


@fault("garbled bytes", "garbled", severity="warning")
def garble(log: Log) -> Planted:
    """8 bytes that are no text in two rollouts."""
    # Bytes that no text has, as token ids of the byte-level alphabet and as what they decode to.
    pieces, tokens = log.vocabulary["pieces"], set[tuple[int, int, int]]()
    high = [i for i, piece in enumerate(pieces) if len(piece) == 1 and 0xE0 < ord(piece) < 0x100]
    chosen = _drawn(log, round(2 * log.scene.size), 8)
    for step in log.steps:
        for index in chosen:
            line = log.step(step)[index]
            ids = line["response_ids"]
            ids[4:12] = high[: len(ids[4:12])]
            line["response"] = line["response"][:6] + "\ufffd" * 8 + line["response"][14:]
            tokens |= {(step, index, position) for position in range(4, min(12, len(ids)))}
    return Planted(log.scene.at, frozenset(t[:2] for t in tokens), frozenset(tokens))


@fault("stopped rank", "stopped_rank", ranks=2)
def stop_rank(log: Log) -> Planted:
    """Rank 1 writes no more."""
    before = log.scene.at - 1
    rows = enumerate(log.step(before))
    written = frozenset((before, index) for index, line in rows if line["rank"] == 1)
    second = [*log.files][1]
    log.files[second] = [x for x in log.files[second] if x.get("step", 0) < log.scene.at]
    return Planted(log.scene.at, written)


def _copy_response(line: Line, source: Line) -> None:
    names = ("response", "response_ids", *arrays_of(source))
    line |= {name: source[name] for name in names}


@fault("duplicate responses", "duplicates")
def repeat_responses(log: Log) -> None:
    """All responses of a group are its least likely one."""
    for step in log.steps:
        for group in log.groups(step):
            least = min(group, key=lambda line: sum(line["sampling_logprobs"]))
            for line in group:
                _copy_response(line, least)


@fault("one response to all", "same_everywhere", also=("duplicates",))
def say_one_thing(log: Log) -> None:
    """All responses of a step are its first."""
    for step in log.steps:
        lines = log.step(step)
        for line in lines:
            _copy_response(line, lines[0])


@fault("gaps", "missing_values", severity="warning")
def lose_values(log: Log) -> Planted:
    """Every tenth value of logprobs is null."""
    tokens = set[tuple[int, int, int]]()
    for (step, index), line in log.places():
        lost = {i for i in range(len(line["logprobs"])) if i % 10 == 3}
        line["logprobs"] = [None if i in lost else x for i, x in enumerate(line["logprobs"])]
        tokens |= {(step, index, i) for i in lost}
    return Planted(log.scene.at, frozenset(t[:2] for t in tokens), frozenset(tokens))


@fault("arrays end", "missing_values", severity="warning")
def end_arrays(log: Log) -> None:
    """logprobs and entropy are null."""
    for line in log.samples():
        for name in ("logprobs", "entropy"):
            line[name] = [None] * len(line["response_ids"])


@fault("unequal arrays", "unequal_arrays", severity="warning")
def cut_array(log: Log) -> Planted:
    """ref_logprobs of every fourth rollout lack the last token."""
    rollouts = set[Place]()
    for (step, index), line in log.places():
        if index % 4 == 2:
            line["ref_logprobs"] = line["ref_logprobs"][:-1]
            rollouts.add((step, index))
    return Planted(log.scene.at, frozenset(rollouts))


@fault("entropy collapse", "entropy_collapse")
def collapse_entropy(log: Log) -> None:
    """Entropy is a 50th."""
    for line in log.samples():
        line["entropy"] = [0.02 / log.scene.size * x for x in line["entropy"]]


@fault("one env fails", "change", severity="lead", also=("zero_std_groups",))
def fail_one_env(log: Log) -> Planted:
    """The reward of env add is 0, that of env subtract 1 higher."""
    for line in log.samples():
        line["reward"] = 0.0 if line["env"] == "add" else line["reward"] + log.scene.size
    return Planted(log.scene.at, frozenset(place for place, _ in log.places()))


@fault("reward outlier", "reward_outliers", severity="lead")
def one_reward(log: Log) -> Planted:
    """One rollout has reward 50."""
    step = log.scene.at + 6
    index = log.dice.randrange(len(log.step(step)))
    log.step(step)[index]["reward"] = 50.0 * log.scene.size
    return Planted(step, frozenset(((step, index),)))


@fault("lost rewards", "unscored", severity="warning")
def lose_rewards(log: Log) -> Planted:
    """Every fifth reward is null."""
    rollouts = frozenset(place for place in log.everyone() if place[1] % 5 == 0)
    for place, line in log.places():
        if place in rollouts:
            line["reward"] = None
    return Planted(log.scene.at, rollouts)


@fault("flipped advantages", "advantages", severity="warning", needs="advantage")
def flip_advantages(log: Log) -> Planted:
    """Advantages have the other sign."""
    # In groups of equal rewards advantages are 0 and stay it: the first step is that of another one.
    rollouts = frozenset(place for place, line in log.places() if line["advantage"])
    for line in log.samples():
        line["advantage"] = -line["advantage"]
    return Planted(min(step for step, _ in rollouts), rollouts)


@fault("length pays", "reward_length", severity="lead")
def pay_length(log: Log) -> None:
    """Reward is 0.02 a character."""
    for line in log.samples():
        line["reward"] = 0.02 * log.scene.size * len(line["response"])


@fault("longer, not better", "change", severity="lead", also=("truncation",))
def grow(log: Log) -> None:
    """Responses are said twice."""
    for line in log.samples():
        names = ("response_ids", *arrays_of(line))
        line["response"] += line["response"]
        for name in names:
            line[name] = [*line[name][:-1], *line[name]]


@fault("pause", "clock_gap", severity="lead")
def stop_the_clock(log: Log) -> None:
    """Two hours between two steps."""
    for line in log.samples(log.scene.first):
        pause = 7200.0 * log.scene.size if line["step"] >= log.scene.at else 0.0
        line["timestamp"] = 1.7e9 + 2.0 * line["step"] + pause
