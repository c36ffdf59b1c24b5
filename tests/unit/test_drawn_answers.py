"""Frames, answers to agents and JSON have what was drawn, whoever wrote the log."""

import asyncio
import json
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_logs import FORMATS, TABLES, UNBORDERED, Drawn, as_written, draw_rollouts

import board
from board import cli
from board.mcp_server.server import server_of

pytest.importorskip("mcp")
from mcp import Client

WRITERS = {**FORMATS, **UNBORDERED}


@pytest.fixture(params=[(name, seed) for seed in (5,) for name in WRITERS], ids=str)
def log(request, tmp_path: Path) -> tuple[str, Path, list[Drawn]]:
    name, seed = request.param
    rollouts = draw_rollouts(seed)
    WRITERS[name](tmp_path / "runs" / "run", rollouts)
    return name, tmp_path / "runs" / "run", sorted(rollouts, key=lambda one: one.step)


def by(rollouts: list[Drawn], name: str) -> dict[Any, list[float]]:
    """Rewards by step or group."""
    values: dict[Any, list[float]] = {}
    for one in rollouts:
        assert one.reward is not None
        values.setdefault(getattr(one, name), []).append(one.reward)
    return values


def indices(rollouts: list[Drawn]) -> list[int]:
    counts: dict[int, int] = {}
    return [counts.update({one.step: counts.get(one.step, -1) + 1}) or counts[one.step]
            for one in rollouts]  # fmt: skip


def plain(value: Any) -> Any:
    """A cell of a frame or an answer as JSON has it: objects are texts in some tables."""
    if isinstance(value, Mapping) and "untrusted_text" in value:
        value = value["untrusted_text"]
    return json.loads(value) if isinstance(value, str) and value[:1] in ("{", "[") else value


def test_frames_have_what_was_drawn(log):
    name, folder, rollouts = log
    run = board.open_run(folder)
    rows = run.rollouts()
    assert rows["step"].tolist() == [one.step for one in rollouts]
    assert rows["index"].tolist() == indices(rollouts)
    assert rows["reward"].tolist() == [one.reward for one in rollouts]
    assert rows["group_id"].tolist() == [one.group for one in rollouts]
    assert [int(n) for n in rows["task_seed"]] == [one.facts["task_seed"] for one in rollouts]
    for key in ("origin", "tags"):
        assert [*map(plain, rows[key])] == [one.facts[key] for one in rollouts]
    rewards = by(rollouts, "step")
    assert run.steps["reward_mean"].tolist() == pytest.approx([*map(np.mean, rewards.values())])
    assert run.steps["rollouts"].tolist() == [*map(len, rewards.values())]
    groups, of_groups = run.groups().set_index("group_id"), by(rollouts, "group")
    for key, function in (("mean", np.mean), ("std", np.std), ("min", min), ("max", max)):
        wanted = {group: pytest.approx(function(own)) for group, own in of_groups.items()}
        assert groups[f"reward_{key}"].to_dict() == wanted
    for one, index in [*zip(rollouts, indices(rollouts), strict=True)][::3]:
        whole = run.rollout(one.step, index)
        assert [*whole.messages] == as_written(one.said, in_table=name in TABLES)
        assert whole.facts["reward"] == one.reward
        assert whole.extras["origin"] == one.facts["origin"]
        assert whole.extras["task_seed"] == one.facts["task_seed"]


def test_answers_to_agents_have_what_was_drawn(log):
    _, folder, rollouts = log

    async def talk() -> dict[str, Any]:
        async with Client(server_of(folder.parent)) as client:

            async def ask(tool: str, **arguments: Any) -> Any:
                result = await client.call_tool(tool, {"run": "run", **arguments})
                assert not result.is_error, result.content
                return json.loads(result.content[0].text)

            columns = ["reward", "group_id", "task_seed", "origin", "tags"]
            first = {"step": rollouts[0].step, "index": 0}
            return {
                "rollouts": await ask("rollouts", columns=columns, limit=200),
                "worst": await ask("rollouts", sort="reward", limit=1, columns=["reward"]),
                "steps": await ask("steps", metrics=["reward"]),
                "groups": [await ask("groups", step=step) for step in by(rollouts, "step")],
                "show": await ask("show", **first),
                "sql": await ask("sql", statement="select sum(task_seed)::hugeint s from rollouts"),
            }

    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(asyncio.run, talk()).result()
    rows = said["rollouts"]["rows"]
    assert said["rollouts"]["rows_total"] == len(rollouts)
    for row, one, index in zip(rows, rollouts, indices(rollouts), strict=True):
        assert (row["step"], row["index"], row["reward"]) == (one.step, index, one.reward)
        assert row["group_id"] == one.group
        facts = {key: plain(row[key]) for key in one.facts}
        assert facts == one.facts
    lowest = min(one.reward for one in rollouts if one.reward is not None)
    assert said["worst"]["rows"][0]["reward"] == lowest
    means = {row["step"]: row["reward_mean"] for row in said["steps"]["rows"]}
    wanted = {
        step: pytest.approx(np.mean(own), rel=1e-5) for step, own in by(rollouts, "step").items()
    }
    assert means == wanted
    of_groups = by(rollouts, "group")
    for row in (row for groups in said["groups"] for row in groups["rows"]):
        own = of_groups.pop(row["group_id"])
        assert (row["rollouts"], row["reward_min"], row["reward_max"]) == (
            len(own),
            min(own),
            max(own),
        )
        assert row["reward_std"] == pytest.approx(np.std(own), rel=1e-5)
    assert not of_groups
    assert said["show"]["facts"]["reward"] == rollouts[0].reward
    total = sum(one.facts["task_seed"] for one in rollouts)
    assert int(plain(said["sql"]["rows"][0]["s"])) == total


def test_json_and_csv_have_what_was_drawn(log, capsys):
    name, folder, rollouts = log
    assert cli.main(["rollouts", str(folder), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["task_seed"] for row in rows] == [one.facts["task_seed"] for one in rollouts]
    assert [plain(row["origin"]) for row in rows] == [one.facts["origin"] for one in rollouts]
    assert cli.main(["show", str(folder), "--step", "1", "--index", "0", "--json"]) == 0
    (whole,) = json.loads(capsys.readouterr().out)["rows"]
    first = next(one for one in rollouts if one.step == 1)
    assert whole["messages"] == as_written(first.said, in_table=name in TABLES)
    assert whole["extras"]["task_seed"] == first.facts["task_seed"]
    assert math.isclose(whole["facts"]["reward"], first.reward or 0.0)
