"""Turns, tool calls and their errors as columns; the filters that lead from a failure to its rollouts."""

from typing import Any

import pytest
from read_formats import DATA, opened, run_at, run_of

from board.core.texts.conversation import conversation_of
from board.query.failures import clusters, filter_of_cluster, filter_of_tool, tool_results

FAILED = "Error: no such page"


def call(name: str, number: int) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    calls = [{"id": f"c{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(text: str, number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


ASK = {"role": "user", "content": "q"}
SAY = {"role": "assistant", "content": "done"}
TALKS: list[list[dict[str, Any]]] = [
    [ASK, call("search", 0), result("ok", 0), call("search", 1), result(FAILED, 1), SAY],
    [ASK, call("web_search", 0), result(FAILED, 0), SAY],
    [ASK, SAY],
    [ASK, call("search", 0)],
]


def talks(folder, **more: object):
    return run_of(folder, [{"step": 1, "messages": talk, "reward": 0.0} | more for talk in TALKS])


def test_columns_count_turns_calls_and_errors_and_a_result_not_recorded_is_no_success(tmp_path):
    run = talks(tmp_path)
    frame = run.of_step(1)
    assert frame["turns"].tolist() == [3, 2, 1, 1]
    assert frame["tool_calls"].tolist() == [2, 1, 0, 1]
    assert frame["tool_errors"].fillna(-1).tolist() == [1, 1, 0, -1]
    assert run.steps["tool_calls_mean"].tolist() == [1.0]
    assert run.where("tool_errors > 0 and turns < 3").rollout_count == 1


def test_a_log_without_messages_or_without_tools_has_no_such_columns(tmp_path):
    texts = run_of(tmp_path / "texts", [{"step": 1, "response": "[tool call] f()", "reward": 1.0}])
    assert not {"turns", "tool_calls", "tool_errors", "failed_tools"} & {*texts.columns}
    talk = run_of(tmp_path / "talk", [{"step": 1, "messages": [ASK, SAY], "reward": 1.0}])
    assert {"turns", "tool_calls"} & {*talk.columns} == {"turns"}


def test_rollouts_read_before_the_first_call_of_a_run_have_0_calls(tmp_path):
    from board.query.open_run import Follower

    path = tmp_path / "run" / "log.jsonl"
    run = run_of(tmp_path, [{"step": 1, "messages": [ASK, SAY], "reward": 1.0}])
    follower = Follower(persist=True)
    assert "tool_calls" not in follower.run(run.info).columns
    import json

    with path.open("a") as file:
        file.write(json.dumps({"step": 2, "messages": TALKS[0], "reward": 1.0}) + "\n")
    grown = follower.run(run_at(tmp_path / "run").info)
    assert grown.steps["tool_calls_mean"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    "folder", ["openhands", "swe_agent", "verifiers/id", "tau_bench/historical_trajectories", "art"]
)
def test_columns_of_real_logs_say_what_the_reader_shows(folder):
    path = DATA / folder
    for one in [path, *sorted(path.glob("*"))] if folder == "art" else [path]:
        try:
            run = run_at(one)
        except ValueError:  # several runs
            continue
        if "turns" not in run.columns:
            continue
        rows = run.rollouts.reset_index(drop=True)
        for place, rollout in enumerate(opened(run)):
            turns = conversation_of(rollout.record.messages, {})
            blocks = [block for turn in turns for block in turn.blocks]
            results = [*(r for t in turns for r in t.results.values())]
            results += [block for block in blocks if block.kind == "result"]
            calls = sum(block.kind in ("call", "result") for block in blocks)
            row = rows.iloc[place]
            if row["turns"] == row["turns"]:
                assert row.get("tool_calls", 0) == calls
                if results:
                    assert row["tool_errors"] == sum(bool(block.error) for block in results)


def test_the_rollouts_of_a_tool_are_those_that_its_count_says(tmp_path):
    run = talks(tmp_path)
    table = tool_results(run)
    assert table is not None
    assert table.set_index("tool")[["calls", "answered", "errors"]].to_dict("index") == {
        "search": {"calls": 3, "answered": 2, "errors": 1},
        "web_search": {"calls": 1, "answered": 1, "errors": 1},
    }
    for row in table.itertuples():
        assert run.where(filter_of_tool(str(row.tool))).rollout_count == row.rollouts


def test_the_rollouts_of_a_failure_are_those_that_its_count_says(tmp_path):
    errors = ['Sandbox "7" died after 3 s', 'Sandbox "8" died after 4 s', "it's \\ gone", "ünknown"]
    run = run_of(
        tmp_path,
        [
            {"step": n, "response": "r", "prompt": "p", "reward": 0.0, "error": error}
            for n, error in enumerate(errors)
        ],
    )
    table = clusters(run).table
    assert sorted(table["rollouts"]) == [1, 1, 2]
    for row in table.itertuples():
        chosen = run.where(filter_of_cluster(str(row.cause), str(row.pattern)))
        assert chosen.rollout_count == row.rollouts
