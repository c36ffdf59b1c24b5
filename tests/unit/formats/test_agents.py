"""Logs of agents: SWE-agent, mini-swe-agent, OpenHands, tau-bench, tau2, Atropos, rLLM's telemetry."""

import json

import pytest
from read_formats import DATA, reasons, records, run_at

from board.core.texts.messages import tool_calls
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

NO_STEP = "the log has no step"


def run_of_data(name):
    """A run of the test files of which nothing is lost."""
    run = run_at(DATA / name)
    assert {reason for reason, _ in reasons(run)} <= {NO_STEP}
    return run


def roles(record):
    return [message["role"] for message in record.messages]


def test_swe_agents_history_is_the_conversation_and_info_says_how_it_ended():
    by_id = {record.ids["group_id"]: record for record in records(run_of_data("swe_agent"))}
    for path in (DATA / "swe_agent").glob("*.traj"):
        document = json.loads(path.read_text())
        record = by_id[path.stem]
        history = [message["role"] for message in document["history"]]
        assert roles(record)[: len(history)] == history
        # The step with which the agent hands in may be missing from the history.
        spoken = "".join(str(message.get("content")) for message in record.messages)
        assert document["trajectory"][-1]["response"].strip() in spoken
        assert record.texts["finish_reason"] == document["info"]["exit_status"]
        assert record.extras["api_calls"] == document["info"]["model_stats"]["api_calls"]
        assert "reward" not in record.scores
    assert by_id["6e44b9__sweagenttestrepo-1c2844"].extras["model"] == "gpt-4o"


def test_mini_swe_agents_messages_are_read_without_the_servers_answers():
    runs = map(Follower().run, discover(DATA / "mini_swe_agent").runs)
    by_id = {record.ids["group_id"]: record for run in runs for record in records(run)}
    for path in (DATA / "mini_swe_agent").glob("*.json"):
        document = json.loads(path.read_text())
        record = by_id[path.name.removesuffix(".traj.json")]
        assert roles(record) == [message["role"] for message in document["messages"]]
        assert not any("extra" in message for message in record.messages)
        assert record.extras["model"] == document["info"]["config"]["model"]["model_name"]
        assert record.extras["temperature"] == 0.0
        assert record.texts["prompt"].count("[user]") == 1


def test_openhands_events_of_all_versions_become_messages():
    result = {record.ids.get("group_id"): record for record in records(run_of_data("openhands"))}
    newest, oldest = result["calc__calc-1"], result[None]
    assert roles(newest)[:4] == ["system", "user", "assistant", "tool"]
    calls = [call.name for message in newest.messages for call in tool_calls(message)]
    assert calls == ["terminal", "no_such_tool", "terminal", "finish"]
    assert [m["content"] for m in newest.messages if m.get("is_error")] == [
        "Tool 'no_such_tool' not found. Available: ['terminal', 'finish', 'think']"
    ]
    assert newest.extras["output_tokens"] == 232
    assert oldest.scores["reward"] == 1  # the resolver's success
    assert roles(oldest)[:3] == ["user", "assistant", "tool"]


def test_the_trials_of_a_tau_bench_task_are_a_group():
    path = DATA / "tau_bench/historical_trajectories/gpt-4o-airline.json"
    result = records(run_of_data("tau_bench"))
    for record, line in zip(result, json.loads(path.read_text()), strict=True):
        assert record.ids["group_id"] == str(line["task_id"])
        assert (record.extras["trial"], record.scores["reward"]) == (line["trial"], line["reward"])
        assert roles(record) == [message["role"] for message in line["traj"]]
        assert record.texts["prompt"].endswith(line["traj"][1]["content"])


def test_a_tau2_simulation_in_a_file_of_its_own_is_read_with_the_results_above():
    (record,) = records(run_of_data("tau2"))
    assert record.texts["prompt"].startswith("[system]\n# Retail agent policy")
    assert record.extras["model"] == "openai:gpt-realtime-2"
    assert (record.ids["env"], record.ids["group_id"]) == ("retail", "40")
    assert "reward" not in record.scores


def test_tau2_simulations_of_one_document_begin_after_the_users_first_words(tmp_path):
    # As sierra-research/tau2-bench@a2c0247 src/tau2/data_model/simulation.py has them.
    call = {"id": "c1", "name": "look_up", "arguments": {"user": "a"}, "requestor": "assistant"}
    messages = [
        {"role": "assistant", "content": "Hi!", "tool_calls": None},
        {"role": "user", "content": "I want a refund.", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [call], "raw_data": {"x": 1}},
        {"role": "tool", "id": "c1", "content": "{}", "requestor": "assistant", "error": False},
        {"role": "assistant", "content": "Done.", "tool_calls": None},
    ]
    simulation = {"id": "s1", "task_id": "7", "trial": 0, "termination_reason": "user_stop"}
    simulation |= {"start_time": "t", "messages": messages}
    simulation["reward_info"] = {"reward": 1.0, "reward_breakdown": {"DB": 1.0}}
    agent = {"llm": "some/model", "llm_args": {"temperature": 0.5}}
    info = {"agent_info": agent, "user_info": {}}
    info["environment_info"] = {"domain_name": "airline", "policy": "Be kind."}
    folder = tmp_path / "simulations"
    folder.mkdir()
    document = {"info": info, "tasks": [{"id": "7"}], "simulations": [simulation]}
    (folder / "one.json").write_text(json.dumps(document))
    (record,) = records(run_at(tmp_path))
    assert record.texts["prompt"] == (
        "[system]\nBe kind.\n\n[assistant]\nHi!\n\n[user]\nI want a refund."
    )
    assert roles(record)[-3:] == ["assistant", "tool", "assistant"]
    assert record.scores["reward"] == record.scores["rewards.DB"] == 1
    assert (record.extras["model"], record.extras["temperature"]) == ("some/model", 0.5)


def test_a_mask_of_atropos_says_which_tokens_were_generated():
    lines = (DATA / "atropos/groups/scripted_gsm8k.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in lines]
    result = [r for r in records(run_of_data("atropos/groups")) if r.response_ids is not None]
    expected = [
        (score, tokens, masks)
        for line in lines
        for score, tokens, masks in zip(line["scores"], line["tokens"], line["masks"], strict=True)
    ]
    assert len({record.ids["group_id"] for record in result}) == len(lines)
    assert {record.step for record in result} == {0}
    for record, (score, tokens, masks) in zip(result, expected, strict=True):
        ids, mask = record.response_ids.values(), record.tokens["loss_mask"].values()
        assert record.scores["reward"] == score
        assert ids.tolist() == tokens[len(tokens) - len(ids) :]
        assert mask.sum() == sum(one != -100 for one in masks)
        assert record.texts["response"]


def test_the_conversations_that_atropos_dumps_are_read_with_their_scores():
    (path,) = (DATA / "atropos/data_dumps").glob("*.jsonl")
    line = json.loads(path.read_text())
    result = [r for r in records(run_at(path)) if r.messages]
    assert [r.scores["reward"] for r in result] == [one["score"] for one in line["rollouts"]]
    assert "assistant" in roles(result[0])


def test_a_trajectory_of_rllms_telemetry_is_a_rollout_of_many_lines():
    result = records(run_of_data("rllm_telemetry"))
    assert [record.scores["reward"] for record in result] == [0, 0, 1]
    assert [record.extras["steps"] for record in result] == [2, 2, 4]
    assert {record.extras["model"] for record in result} == {"gpt-4o"}
    assert all(roles(record)[0] == "system" for record in result)


@pytest.mark.parametrize("event", [{"kind": {}}, {"action": {}}, {"observation": []}, 3, None])
def test_events_of_another_shape_cost_no_task(tmp_path, event):
    line = {"instance_id": "a", "history": [{"action": "message", "content": "x"}, event]}
    (tmp_path / "output.jsonl").write_text(json.dumps(line) + "\n")
    assert len(records(run_at(tmp_path))) == 1
