"""Data sets of odd conversations hold what was written, whoever wrote the log, and nothing besides."""

import json
from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from drawn_logs import FORMATS, TABLES, Drawn, Message, as_written, draw_rollouts
from read_formats import json_lines, run_at

from board.datasets.export import Request, write_dataset

CASES = [(name, seed) for seed in range(2) for name in FORMATS]


@pytest.fixture(params=CASES, ids=str)
def log(request, tmp_path: Path) -> tuple[str, Path, list[Drawn]]:
    name, seed = request.param
    rollouts = draw_rollouts(seed)
    FORMATS[name](tmp_path / "log", rollouts)
    return name, tmp_path / "log", rollouts


def expected(messages: Sequence[Message], name: str) -> list[Message]:
    """Messages with the name of the tool at each result, in the order of its calls."""
    waiting: dict[str, deque[str]] = {}
    result: list[Message] = []
    for message in as_written([*messages], in_table=name in TABLES):
        if message["role"] == "tool":
            message["name"] = waiting[message["tool_call_id"]].popleft()
        if "tool_calls" in message:
            ids = [call["id"] for call in message["tool_calls"]]
            waiting |= {one: deque() for one in ids}
            for call in message["tool_calls"]:
                waiting[call["id"]].append(call["function"]["name"])
        result.append(message)
    return result


def rows_of(log, kind: str, **choices: Any) -> list[dict[str, Any]]:
    _, folder, _ = log
    target = folder.parent / "set.jsonl"
    run = run_at(folder)
    request = Request(kind, target, overwrite=True, **choices)
    write_dataset(run, request, lambda done, total: None)
    return json_lines(target)


def in_order(log) -> list[Drawn]:
    return sorted(log[2], key=lambda one: one.step)


def test_a_conversation_is_what_was_said_up_to_the_last_turn_of_the_model(log):
    rows = rows_of(log, "sft")
    said = [expected([*one.given, *one.generated], log[0]) for one in in_order(log)]
    assert [row["messages"] for row in rows] == said
    assert [row["reward"] for row in rows] == [one.reward for one in in_order(log)]


def test_each_turn_of_the_model_has_all_before_it_as_its_prompt(log):
    wanted = []
    for one in in_order(log):
        said = expected([*one.given, *one.generated], log[0])
        turns = [i for i in range(len(one.given), len(said)) if said[i]["role"] == "assistant"]
        wanted += [(said[:at], said[at : at + 1]) for at in turns]
    rows = rows_of(log, "sft", by_turn=True, leave_out=["nothing"])
    assert [(row["prompt"], row["completion"]) for row in rows] == wanted


def pairs_of(log) -> dict[str, tuple[Drawn, Drawn]]:
    groups: dict[str, list[Drawn]] = {}
    for one in log[2]:
        groups.setdefault(one.group, []).append(one)
    by_reward = {name: sorted(own, key=lambda one: one.reward) for name, own in groups.items()}
    return {name: (own[-1], own[0]) for name, own in by_reward.items()}


def test_a_pair_is_cut_where_the_prompt_ends_and_after_the_last_turn_of_the_model(log):
    rows = {row["group_id"]: row for row in rows_of(log, "dpo")}
    pairs = pairs_of(log)
    assert {*rows} == {*pairs}
    for name, pair in pairs.items():
        given = len(pair[0].given)
        assert rows[name]["prompt"] == expected(pair[0].given, log[0])
        for side, one in zip(("chosen", "rejected"), pair, strict=True):
            assert rows[name][side] == expected([*one.given, *one.generated], log[0])[given:]


def test_a_pair_of_turns_is_of_the_first_ones_that_differ(log):
    rows = {row["group_id"]: row for row in rows_of(log, "dpo", by_turn=True)}
    for name, pair in pairs_of(log).items():
        best, worst = (expected([*one.given, *one.generated], log[0]) for one in pair)
        both = zip(best, worst, strict=False)
        same = [one for one, _ in takewhile(lambda two: two[0] == two[1], both)]
        after = best[len(same) : len(same) + 1], worst[len(same) : len(same) + 1]
        assert rows[name]["prompt"] == same
        assert (rows[name]["chosen"], rows[name]["rejected"]) == after


def test_tables_hold_all_messages_and_values_of_the_log(log, tmp_path):
    name, folder, _ = log
    for kind in ("parquet", "jsonl"):
        target = tmp_path / f"set.{kind}"
        write_dataset(run_at(folder), Request(kind, target), lambda done, total: None)
        rows = json_lines(target) if kind == "jsonl" else pq.read_table(target).to_pylist()
        for row, one in zip(rows, in_order(log), strict=True):
            messages = row["messages"]
            if kind == "parquet":
                messages = [json.loads(message) for message in messages]
            assert messages == as_written(one.said, in_table=name in TABLES)
            facts = {name: row[name] for name in one.facts}
            if kind == "parquet":
                facts = {k: json.loads(v) if isinstance(v, str) else v for k, v in facts.items()}
            assert facts == one.facts
