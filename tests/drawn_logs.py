"""Logs of odd conversations, drawn at random, each as several formats write them; and what was drawn."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from written_logs import write_lines

Message = dict[str, Any]
HUGE = 1152921504606846977  # 2**60 + 1, which a float does not hold


@dataclass(frozen=True)
class Drawn:
    """A rollout as it went. given: the prompt, in which there may be answers. generated: from the first
    message of the model to its last one. after: what was said of it then.
    """

    step: int
    group: str
    reward: float | None
    given: list[Message]
    generated: list[Message]
    after: list[Message]
    facts: dict[str, Any]

    @property
    def said(self) -> list[Message]:
        return [*self.given, *self.generated, *self.after]


def say(role: str, content: str, **more: Any) -> Message:
    return {"role": role, "content": content, **more}


def _arguments(draw: random.Random) -> dict[str, Any]:
    values = [None, "x", 3, HUGE, "", {"deep": None, "b": [1]}]
    keys = draw.sample(["item", "query", "limit"], draw.randint(0, 3))
    kinds = {
        "item": [None, "x", ""],
        "query": [None, {"deep": None}, {"b": [1]}],
        "limit": values[2:4],
    }
    return {key: draw.choice(kinds[key]) for key in keys}


def _calls(draw: random.Random, number: int) -> list[Message]:
    """A turn with calls, perhaps of one id, and their results."""
    names = [draw.choice(["search", "price", "calc"]) for _ in range(draw.randint(1, 3))]
    has_one_id = draw.random() < 0.4
    calls = [
        {
            "type": "function",
            "id": f"c{number}" if has_one_id else f"c{number}-{place}",
            "function": {"name": name, "arguments": _arguments(draw)},
        }
        for place, name in enumerate(names)
    ]
    results = [
        say("tool", f"result {number}.{i}", tool_call_id=c["id"]) for i, c in enumerate(calls)
    ]
    return [say("assistant", draw.choice(["", f"I look {number}"]), tool_calls=calls), *results]


def draw_rollouts(seed: int, *, groups: int = 4) -> list[Drawn]:
    """Groups of two to four rollouts of one prompt."""
    draw = random.Random(seed)
    return [one for group in range(groups) for one in _group(draw, group)]


def _group(draw: random.Random, group: int) -> list[Drawn]:
    given = [say("system", "Be terse.")] if draw.random() < 0.5 else []
    for shot in range(draw.choice([0, 0, 1, 2])):
        given += [say("user", f"Example {group}/{shot}?"), say("assistant", f"Answer {shot}!")]
    given.append(say("user", f"Question {group} of {seed_word(draw)}?"))
    rewards = draw.sample([0.0, 0.25, 1.0, 2.0], draw.randint(2, 4))
    return [_rollout(draw, group, given, reward) for reward in rewards]


def seed_word(draw: random.Random) -> str:
    return draw.choice(["five", "größe", "北京", "x\u2028y"])


def _rollout(draw: random.Random, group: int, given: list[Message], reward: float) -> Drawn:
    generated: list[Message] = []
    for number in range(draw.randint(0, 2)):
        generated += _calls(draw, number)
        if draw.random() < 0.3:
            generated.append(say("user", f"go on {number}"))
    generated.append(say("assistant", f"Final {reward} {draw.random():.6f}"))
    after = draw.choice(
        [[], [], [say("user", "thanks")], [say("user", "wrong!"), say("user", "bye")]]
    )
    facts = {
        "task_seed": HUGE + 2 * group,
        "origin": {"file": "a", "line": group},
        "tags": ["p", "q"],
    }
    return Drawn(1 + group % 2, f"g{group}", reward, given, generated, after, facts)


def text_of(messages: Sequence[Message]) -> str:
    """As a chat template writes them."""
    return "".join(
        f"<|im_start|>{m['role']}\n{m['content']}"
        + "".join(json.dumps(call) for call in m.get("tool_calls", ()))
        + "<|im_end|>\n"
        for m in messages
    )


def _facts(one: Drawn) -> dict[str, Any]:
    return {"step": one.step, "group_id": one.group, "reward": one.reward, **one.facts}


def _native(one: Drawn) -> dict[str, Any]:
    texts = {"prompt": text_of(one.given), "response": text_of([*one.generated, *one.after])}
    return {"type": "sample", **_facts(one), **texts, "messages": one.said}


def _native_lists(one: Drawn) -> dict[str, Any]:
    lists = {"prompt": one.given, "response": [*one.generated, *one.after]}
    return {"type": "sample", **_facts(one), **lists}


def _verifiers(one: Drawn) -> dict[str, Any]:
    facts = {k: v for k, v in _facts(one).items() if k != "group_id"} | {"example_id": one.group}
    lists = {"prompt": one.given, "completion": [*one.generated, *one.after]}
    return {**facts, **lists, "task": "t", "timing": {"generation_ms": 1}}


def _trl(one: Drawn) -> dict[str, Any]:
    lists = {"prompt": one.given, "completion": [*one.generated, *one.after]}
    return {**_facts(one), **lists, "advantage": 0.5}


def _generic(one: Drawn) -> dict[str, Any]:
    return {**_facts(one), "messages": one.said}


def _by_step(rollouts: Sequence[Drawn]) -> dict[int, list[Drawn]]:
    steps = sorted({one.step for one in rollouts})
    return {step: [one for one in rollouts if one.step == step] for step in steps}


def _write_lines(make: Callable[[Drawn], dict[str, Any]], name: str) -> Callable[..., None]:
    def write(folder: Path, rollouts: Sequence[Drawn]) -> None:
        for step, those in _by_step(rollouts).items():
            write_lines(folder / name.format(step), map(make, those))

    return write


def _write_table_of(make: Callable[[Drawn], dict[str, Any]], name: str) -> Callable[..., None]:
    def write(folder: Path, rollouts: Sequence[Drawn]) -> None:
        for step, those in _by_step(rollouts).items():
            path = folder / name.format(step)
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist([*map(make, those)]), path)

    return write


FORMATS: Mapping[str, Callable[[Path, Sequence[Drawn]], None]] = {
    "native": _write_lines(_native, "rollouts_{}.jsonl"),
    "native lists": _write_lines(_native_lists, "rollouts_{}.jsonl"),
    "verifiers": _write_lines(_verifiers, "step_{}/train_rollouts.jsonl"),
    "trl": _write_table_of(_trl, "completions/completions_{:05d}.parquet"),
}
UNBORDERED: Mapping[str, Callable[[Path, Sequence[Drawn]], None]] = {
    "generic": _write_lines(_generic, "log_{}.jsonl"),
    "generic table": _write_table_of(_generic, "log_{}.parquet"),
}
"""These do not say where a prompt ends."""
TABLES = frozenset({"trl", "generic table"})
"""Column stores: nobody can tell a null that was written there from one that fills a gap."""


def as_written(value: Any, *, in_table: bool) -> Any:
    """A value of a log as it can be known again: from a table without nulls of its structs."""
    if isinstance(value, dict):
        return {
            key: as_written(inner, in_table=in_table)
            for key, inner in value.items()
            if inner is not None or not in_table
        }
    return (
        [as_written(one, in_table=in_table) for one in value] if isinstance(value, list) else value
    )
