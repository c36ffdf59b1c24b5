"""`rollout-board steps` and `show` give the numbers that pandas gives on other people's files."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from read_formats import collection

from board import cli

Told = Iterator[tuple[int, float | None, list[str]]]
"""Of a line's rollouts the step, the reward, and texts that the response has in this order."""


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert cli.main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    return document.get("rows", document)


def natural(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", path.as_posix())
    return [(int(p), "") if i % 2 else (0, p) for i, p in enumerate(parts)]


def assert_steps(steps: list[dict[str, Any]], frame: pd.DataFrame) -> None:
    by_step = frame.groupby("step")["x"]
    assert [row["step"] for row in steps] == list(by_step.groups)
    assert [row["rollouts"] for row in steps] == by_step.size().tolist()
    assert {type(row["rollouts"]) for row in steps} == {int}
    means = np.array([row["reward_mean"] for row in steps], float)
    np.testing.assert_allclose(means, by_step.mean(), rtol=1e-12)


def said_in(messages: str | list[dict[str, Any]]) -> list[str]:
    return [messages] if isinstance(messages, str) else [m["content"] or "" for m in messages]


def items(row: dict[str, Any]) -> list[str]:
    """The texts of an OpenAI response."""
    result: list[str] = []
    for item in row["response"]["output"]:
        if item["type"] == "message":
            result += [part["text"] for part in item["content"]]
        elif item["type"] == "function_call":
            result.append(f"{item['name']}({item['arguments']})")
        elif item["type"] == "function_call_output":
            result.append(item["output"])
    return result


def traces(row: dict[str, Any]) -> Told:
    """The traces of an episode; one that failed before any is one."""
    step = row["run"]["work"]["step"]
    for trace in row["traces"]:
        scored = [part for part in trace["rewards"].values() if part]
        texts = [node["message"]["content"] or "" for node in trace["nodes"] if node["sampled"]]
        yield step, sum(part["score"] * part["weight"] for part in scored), texts
    if not row["traces"]:
        yield step, None, []


def one(
    step: str | int, reward: str, texts: Callable[[dict[str, Any]], list[str]]
) -> Callable[[dict[str, Any]], Told]:
    """A rollout per line; the step by its key, or the same throughout."""
    return lambda x: iter([(x[step] if isinstance(step, str) else step, x[reward], texts(x))])


REAL = {
    "broken": one(0, "reward", lambda x: said_in(x["completion"])),
    "nemo_gym/calendar.example_rollouts.jsonl": one(0, "reward", items),
    "nemo_gym/workplace_assistant.example_rollouts.jsonl": one(0, "reward", items),
    "prime_rl": traces,
    "rlloggingboard": one("step", "reward", lambda x: [x["response"]]),
    "verifiers/gsm8k": one(0, "reward", lambda x: said_in(x["completion"])),
    "verifiers/math_python": one(0, "reward", lambda x: said_in(x["completion"])),
    "verifiers/mcp_env": one(0, "reward", lambda x: said_in(x["completion"])),
    "verl": one("step", "score", lambda x: [x["output"]]),
    "xtuner": one(0, "reward", lambda x: [x["response"]]),
}
REFUSED = {
    "broken/lfs_pointer.jsonl": "git lfs pull",
    "prime_rl/traces/stream.index.jsonl": "index another file and hold no rollouts",
}
there = pytest.mark.skipif(not collection().is_dir(), reason="no collection of real log files")


def plainly(folder: Path) -> pd.DataFrame:
    """Step, x and texts of each rollout of a folder or a file, its line's numbers beside them; what is no
    JSON is passed by.
    """
    result: list[dict[str, Any]] = []
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*.jsonl"), key=natural)
    for path in paths:
        if path.relative_to(collection()).as_posix() in REFUSED:
            continue
        for text in path.read_bytes().split(b"\n"):
            if not text.startswith(b"{"):
                continue
            row = json.loads(text)
            numbers = {k: v for k, v in row.items() if type(v) in (int, float) and k != "step"}
            for step, reward, texts in REAL[folder.relative_to(collection()).as_posix()](row):
                result.append({**numbers, "step": step, "x": reward, "texts": texts})
    return pd.DataFrame(result).astype({"x": float})


@there
def test_every_real_folder_has_a_case():
    paths = {p.relative_to(collection()).as_posix() for p in collection().rglob("*.jsonl")}
    assert {next((n for n in REAL if f"{path}/".startswith(f"{n}/")), "") for path in paths} == {
        *REAL
    }


@there
@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_steps_that_pandas_finds(name, capsys):
    frame = plainly(collection() / name)
    steps = reported(capsys, "steps", str(collection() / name), "--split", "all")
    assert_steps(steps, frame)
    by_step = frame.groupby("step")
    np.testing.assert_allclose(
        np.array([row["reward_std"] for row in steps], float), by_step["x"].std(), rtol=1e-12
    )
    for column in (set(frame) - {"step", "x"}) & {key.removesuffix("_mean") for key in steps[0]}:
        np.testing.assert_allclose([r[f"{column}_mean"] for r in steps], by_step[column].mean())


@there
@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_rollouts_that_stand_in_them(name, capsys):
    frame = plainly(collection() / name)
    for step in {frame["step"].min(), frame["step"].max()}:
        own = frame[frame["step"] == step].reset_index(drop=True)
        for index in {0, len(own) - 1}:
            place = ("--step", str(step), "--index", str(index))
            (visible,) = reported(capsys, "show", str(collection() / name), *place)
            reward = own["x"][index]
            assert visible["facts"].get("reward") == (None if np.isnan(reward) else reward)
            at = 0
            for text in own["texts"][index]:
                at = visible["texts"]["response"].index(text, at) + len(text)


@there
def test_real_files_are_recognised_or_refused_for_the_right_reason(capsys):
    files = reported(capsys, "sniff", str(collection()))
    reasons = {Path(f["path"]).relative_to(collection()).as_posix(): f["reason"] for f in files}
    assert reasons.keys() == {
        p.relative_to(collection()).as_posix() for p in collection().rglob("*.jsonl")
    }
    assert {name for name, reason in reasons.items() if reason} == {*REFUSED}
    assert all(text in reasons[name] for name, text in REFUSED.items())
