"""What each reader says of a rollout that failed, and that it says nothing of one that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from read_formats import DATA, REAL_RUNS, real_run, records

from board.core.failures.causes import CAUSES, MOST_CHARACTERS, UNDECIDED
from board.core.records import ReadOptions, Record
from board.errors import RecordError
from board.formats import reader_named
from board.formats.base import Head, LineContext, Reader
from board.formats.columns import gather, usual_columns
from board.formats.failures import error_text
from board.formats.generic import generic_mapping
from board.formats.mapping_files import mapping_reader
from board.index.discovery.discovered_runs import discover

NOTHING = None
PATHS = {
    "nemo_rl": "train_data_step1.jsonl",
    "miles_trajectory": "trajectory/3.jsonl",
    "art": "trajectories/train/1.jsonl",
    "xtuner": "train_rollout_1.jsonl",
}
"""Of formats whose steps are those of paths."""
CHAT = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def reader_of(name: str, line: dict):
    if name != "generic":
        return reader_named(name)
    mapping = generic_mapping(Head(Path("log.jsonl"), [line]))
    assert mapping is not None
    return mapping_reader(mapping)


def place_of(name: str, reader: Reader) -> LineContext:
    return LineContext(Path(PATHS.get(name, "log.jsonl")), None, reader.layout)


def records_of(name: str, *lines: dict) -> list[Record]:
    reader = reader_of(name, lines[0])
    at = place_of(name, reader)
    result = [reader.record(row, at) for line in lines for row in reader.rows(line, at)]
    return [record for record in result if isinstance(record, Record)]


def merged(base: dict, changes: dict) -> dict:
    """The base with changes at every depth."""
    both = {
        k: v
        for k, v in changes.items()
        if v and isinstance(v, dict) and isinstance(base.get(k), dict)
    }
    return base | changes | {key: merged(base[key], value) for key, value in both.items()}


GYM_ID = "task-7-{}"
TRACE: dict[str, Any] = {
    "id": "t",
    "task": {"data": {"prompt": "q"}},
    "nodes": [
        {"parent": None, "message": CHAT[0]},
        {"parent": 0, "message": CHAT[1], "sampled": True},
    ],
    "rewards": {"right": {"score": 0.0}},
    "calls": [{"finish_reason": "stop"}],
    "stop_condition": "no_tools_called",
}
BASES: dict[str, dict[str, Any]] = {
    "native": {"type": "sample", "step": 1, "prompt": "q", "response": "a", "reward": 0},
    "generic": {"step": 1, "prompt": "q", "response": "a", "reward": 0},
    "verifiers": {
        "example_id": 1,
        "prompt": "q",
        "completion": "a",
        "reward": 0.0,
        "timing": {},
        "stop_condition": "no_tools_called",
        "is_completed": True,
        "is_truncated": False,
    },
    "episodes": TRACE,
    "nemo_gym": {
        "responses_create_params": {"input": CHAT[:1]},
        "response": {"output": [{"type": "message", "role": "assistant", "content": "a"}]},
        "reward": 0.0,
        "_ng_task_index": 7,
    },
    "nemo_rl": {
        "idx": 0,
        "content": [["q", "a"]],
        "rewards": [0.0],
        "token_ids": [[1, 2, 3]],
        "input_lengths": [3],
        "token_loss_mask": [[0, 0, 1]],
        "sample_loss_mask": [1],
    },
    "slime": {
        "rollout_id": 3,
        "samples": [
            {"index": 0, "prompt": "q", "response": "a", "reward": 0.0, "status": "completed"}
        ],
    },
    "miles_trajectory": {
        "sample_index": 0,
        "group_index": 0,
        "messages": CHAT,
        "reward": 0.0,
        "step": 3,
        "status": "completed",
    },
    "relax": {
        "rollout_id": 3,
        "sample_index": 0,
        "prompt": "q",
        "response": "a",
        "reward": 0.0,
        "status": "completed",
    },
    "art": {
        "reward": 0.0,
        "messages_and_choices": [CHAT[0], {"finish_reason": "stop", "message": CHAT[1]}],
    },
    "skyrl": {
        "input_prompt": "q",
        "output_response": "wrong",
        "score": 0.0,
        "stop_reason": "stop",
    },
    "rllm": {
        "training_step": 1,
        "episode_id": "e",
        "task": "q",
        "termination_reason": "env_done",
        "trajectories": [{"name": "solver", "reward": 0.0, "steps": [{"chat_completions": CHAT}]}],
    },
    "swe_agent": {
        "trajectory": [],
        "history": CHAT,
        "info": {"exit_status": "submitted", "model_stats": {"api_calls": 3}},
    },
    "mini_swe_agent": {
        "trajectory_format": "mini-swe-agent-1",
        "messages": CHAT,
        "info": {"exit_status": "Submitted", "model_stats": {"api_calls": 3}},
    },
    "tau_bench": {
        "task_id": 1,
        "trial": 0,
        "reward": 0.0,
        "traj": CHAT,
        "info": {"reward_info": {}},
    },
    "tau2": {
        "task_id": "1",
        "trial": 0,
        "start_time": "now",
        "termination_reason": "user_stop",
        "messages": CHAT,
        "reward_info": {"reward": 0.0},
    },
    "inspect": {
        "epoch": 1,
        "id": 1,
        "messages": CHAT,
        "header": {},
        "scores": {"match": {"value": "I"}},
        "output": {"choices": [{"stop_reason": "stop"}]},
    },
    "xtuner": {
        "prompt": "q",
        "response": "a",
        "reward": 0.0,
        "reward_payload": {"score": 0.0},
        "status": "completed",
        "finish_reason": "stop",
        "step": 1,
    },
    "roll": {
        "global_step": [1],
        "messages": [json.dumps(CHAT)],
        "scores": [0.0],
        "trajectory_data": [{"failure_info": {"failure_mode": "none", "stop_reason": "FINISH"}}],
    },
    "tinker": {
        "group_idx": 0,
        "traj_idx": 0,
        "iteration": 1,
        "total_reward": 0.0,
        "split": "train",
        "steps": [{"ac_len": 3, "ob_len": 4, "metrics": {"stop/completed": 1.0}}],
    },
    "open_instruct": {
        "step": 1,
        "prompt_tokens": [1],
        "response_tokens": [2, 3],
        "sample_idx": 0,
        "prompt_idx": 0,
        "reward": 0.0,
        "finish_reason": "stop",
        "request_info": {"tool_errors": ""},
    },
    "openhands": {
        "instance_id": "i",
        "history": [],
        "test_result": {"resolved": False},
        "error": None,
    },
}


def stopped(reason: str) -> dict:
    return {"steps": [{"ac_len": 1, "ob_len": 1, "metrics": {f"stop/{reason}": 1.0}}]}


def sample(**values: Any) -> dict:
    return {"samples": [BASES["slime"]["samples"][0] | values]}


def failed(mode: str, stop: str = "FINISH", *messages: str) -> dict:
    info = {"failure_mode": mode, "stop_reason": stop, "error_messages": list(messages)}
    return {"trajectory_data": [json.dumps({"failure_info": info})]}


def placeholder(word: str, text: str) -> dict:
    parts = [{"type": "output_text", "text": text}]
    message = {"type": "message", "role": "assistant", "content": parts}
    return {"response": {"id": GYM_ID.format(word), "output": [message]}}


def art_choice(reason: str) -> dict:
    return {"messages_and_choices": [CHAT[0], {"finish_reason": reason, "message": CHAT[1]}]}


def error(kind: str, **more: Any) -> dict:
    return {"errors": [{"type": kind, "message": "m", **more}]}


def tool_answer(kind: str, *after: str) -> dict:
    answer = {"role": "tool", "content": "", "error": {"type": kind, "message": "m"}}
    said = [{"role": "assistant", "content": text} for text in after]
    return {"messages": [*CHAT, answer, *said]}


def called(errors: str, success: bool) -> dict:
    return {"request_info": {"tool_errors": errors, "tool_call_stats": [{"success": success}]}}


def says(cause: str, **fields: Any) -> tuple[dict, str]:
    """Fields that say a cause by themselves; None says nothing."""
    words = {True: "true"}
    evidence = (f"{k}={words.get(v, v)}" for k, v in fields.items() if v is not None)
    return fields, f"{cause}: {', '.join(evidence)}"


TRACEBACK = "Traceback (most recent call last):\n  at x\nlitellm.RateLimitError: slow down\n"
HARNESS = [CHAT[0], {"role": "assistant", "content": "Exit due to context window"}]
API_ERROR = "Exit due to unknown error: litellm.RateLimitError: slow down"

CASES: dict[str, list[tuple[dict[str, Any], str | None]]] = {
    "native": [
        ({"finish_reason": "stop", "error_message": "ExpatError"}, NOTHING),
        ({"error": 0.25, "status": "wrong", "finish_reason": "my_env_is_over"}, NOTHING),
        ({"error": "", "cause": "gravity"}, NOTHING),
        ({"failure": "server: of a user"}, NOTHING),
        ({"cause": "judge", "error": "x"}, "judge: cause=judge"),
        says("?", error="RateLimitError: no"),
        says("aborted", status="aborted"),
        says("?", status="failed"),
        says("judge", finish_reason="Verifier_Timeout"),
    ],
    "generic": [
        ({"finish_reason": "stop", "error_rate": 1, "errors": "e"}, NOTHING),
        ({"stop_reason": "timeout"}, "timeout: finish_reason=timeout"),
        ({"error": {"type": "E", "message": "m"}}, "?: error=E: m"),
        ({"failure": "of a user"}, NOTHING),
    ],
    "verifiers": [
        ({"stop_condition": "score_is_zero"}, NOTHING),
        says("timeout", stop_condition="timeout_reached"),
        says("truncated", stop_condition="max_turns_reached"),
        says("?", stop_condition="has_error"),
        ({"is_completed": False, "stop_condition": None}, "aborted: is_completed=false"),
        (
            {"stop_condition": "has_error", "error": {"error_chain_repr": "SandboxError('s')"}},
            "?: stop_condition=has_error, error=SandboxError('s')",
        ),
        says("server", error="InfraError('x')", stop_condition=None),
        says("?", error="InfraError('x') -> TunnelError('y')", stop_condition=None),
        says("policy", error="ToolParseError('{')", stop_condition=None),
        says("policy", error="EmptyModelResponseError()", stop_condition=None),
        (
            {"error": "EmptyModelResponseError()", "stop_condition": None, "completion": []},
            "?: error=EmptyModelResponseError()",
        ),
        says("judge", error="RuntimeError('Judge model timeout after 9')", stop_condition=None),
    ],
    "episodes": [
        ({"stop_condition": "empty_action"}, NOTHING),
        says("?", stop_condition="error"),
        (error("SandboxError"), "sandbox: error=SandboxError: m"),
        (error("ProviderError"), "server: error=ProviderError: m"),
        (
            error("ProviderError", status_code=429),
            "server: error=ProviderError: m, status_code=429",
        ),
        (
            error("ProviderError", status_code=400),
            "unknown: error=ProviderError: m, status_code=400",
        ),
        (error("EpisodeFailed"), "aborted: error=EpisodeFailed: m"),
        (error("TaskError") | {"rewards": {}}, "judge: error=TaskError: m"),
        (error("TaskError") | {"rewards": {}, "calls": []}, "sandbox: error=TaskError: m"),
        (error("TaskError"), "?: error=TaskError: m"),
        (
            error("HarnessError", message="it timed out"),
            "timeout: error=HarnessError: it timed out",
        ),
        (error("HarnessError"), "?: error=HarnessError: m"),
        (error("ValueError"), "?: error=ValueError: m"),
    ],
    "nemo_gym": [
        ({"mask_sample": True}, NOTHING),
        ({"failure_reason": "judge_evaluation_failed"}, NOTHING),
        ({"failure_reason": "execution_error", "mask_sample": True}, NOTHING),
        ({"agent_error_kind": "other", "agent_timed_out": False}, NOTHING),
        ({"status": "failed: no", "error_message": "ExpatError"}, NOTHING),
        ({"invalid_judge_response": True, "reward": 0.6}, NOTHING),
        ({"response": {"incomplete_details": {"reason": "content_filter"}}}, NOTHING),
        says("judge", invalid_judge_response=True),
        says("server", _ng_failure_class="kill_shaped"),
        says("?", _ng_failure_class="new"),
        says("judge", _ng_failure_class="environment_server_failed", _ng_failure_stage="verify"),
        ({"agent_timed_out": True, "mask_sample": True}, "timeout: agent_timed_out=true"),
        ({"error_kind": "sandbox", "agent_timed_out": True}, "sandbox: error_kind=sandbox"),
        says("truncated", agent_error_kind="max_iteration"),
        says("policy", agent_error_kind="stuck_in_loop"),
        (
            {"failure_labels": ["agent_failure", "user_failure"]},
            "server: failure_labels=user_failure",
        ),
        says("judge", failure_reason="gold_execution_error"),
        says("?", failure_reason="reset: ConnectError", mask_sample=True),
        says("judge", judge_error="503"),
        (
            {"response": {"status": "failed", "error": {"code": "server_error", "message": "m"}}},
            "server: response.error=server_error: m",
        ),
        ({"response": {"status": "in_progress"}}, "aborted: response.status=in_progress"),
        (placeholder("timeout", "Timed out: 9 s"), "timeout: response=Timed out: 9 s"),
        (placeholder("abc", "Failed: to see it"), NOTHING),
    ],
    "nemo_rl": [
        ({"sample_loss_mask": [0]}, NOTHING),
        ({"token_loss_mask": [[0, 0, 0]]}, NOTHING),
        (
            {"token_loss_mask": [[0, 0, 0]], "content": [["q", ""]]},
            "server: response=no token, no text",
        ),
    ],
    "slime": [
        (sample(metadata={"exit_status": "Submitted"}, remove_sample=True), NOTHING),
        (sample(status="truncated"), NOTHING),
        (sample(status="aborted"), "aborted: status=aborted"),
        (sample(status="pending"), "unscored: status=pending"),
        (sample(status="failed"), "?: status=failed"),
        (
            sample(status="aborted", metadata={"abort_reason": "unevaluatable:no tests"}),
            "judge: abort_reason=unevaluatable:no tests, status=aborted",
        ),
        (
            sample(status="aborted", metadata={"abort_reason": "exception:ConnectError"}),
            "?: abort_reason=exception:ConnectError, status=aborted",
        ),
        (
            sample(metadata={"exit_status": "TimeLimitExceeded"}),
            "timeout: exit_status=TimeLimitExceeded, status=completed",
        ),
    ],
    "miles_trajectory": [
        says("aborted", status="aborted"),
    ],
    "relax": [
        says("?", status="failed"),
    ],
    "art": [
        (art_choice("content_filter"), NOTHING),
        (art_choice("failed"), "?: finish_reason=failed"),
        (art_choice("cancelled"), "aborted: finish_reason=cancelled"),
    ],
    "skyrl": [
        ({"stop_reason": "stuck_in_a_loop"}, NOTHING),
        ({"stop_reason": "length"}, NOTHING),
        says("aborted", stop_reason="abort"),
        says("sandbox", stop_reason="error_runtime"),
        says("?", stop_reason="error"),
        (
            {"stop_reason": "error", "output_response": "!"},
            "server: stop_reason=error, response=empty, as of all its prompt's",
        ),
    ],
    "rllm": [
        ({"termination_reason": "max_turns_exceeded"}, NOTHING),
        says("unknown", termination_reason="unknown"),
        says("sandbox", termination_reason="sandbox_error"),
        (
            {
                "termination_reason": "error",
                "metadata": {"error": {"error_message": "m", "error_type": "ConnectError"}},
            },
            "?: termination_reason=error, error_type=ConnectError, error=m",
        ),
    ],
    "swe_agent": [
        ({"info": {"exit_status": "submitted (exit_format)"}}, NOTHING),
        ({"info": {"exit_status": "submitted (exit_cost)"}}, NOTHING),
        ({"info": {"model_stats": {"api_calls": 0}}}, NOTHING),
        (
            {
                "history": HARNESS,
                "info": {
                    "exit_status": "autosubmission (exit_context)",
                    "model_stats": {"api_calls": 0},
                },
            },
            "server: no model call, api_calls=0, exit_status=autosubmission (exit_context)",
        ),
        (
            {
                "history": [*CHAT, {"role": "assistant", "content": API_ERROR}],
                "info": {"exit_status": "submitted (exit_error)"},
            },
            f"?: exit_status=submitted (exit_error), response={API_ERROR}",
        ),
        ({"info": {"exit_status": "exit_api"}}, "server: exit_status=exit_api"),
        (
            {"info": {"exit_status": "Environment died unexpectedly. Exited (autosubmitted)"}},
            "sandbox: exit_status=Environment died unexpectedly. Exited (autosubmitted)",
        ),
        ({"info": {"exit_status": ""}}, "unknown: exit_status=(empty)"),
    ],
    "mini_swe_agent": [
        ({"info": {"exit_status": "RepeatedFormatError"}}, NOTHING),
        ({"info": {"exit_status": "LimitsExceeded"}}, NOTHING),
        ({"info": {"exit_status": "TimeExceeded"}}, "timeout: exit_status=TimeExceeded"),
        ({"info": {"exit_status": "Timeout"}}, "server: exit_status=Timeout"),
        (
            {"info": {"exit_status": "RateLimitError", "exception_str": "slow down"}},
            "?: exit_status=RateLimitError, exception_str=slow down",
        ),
        (
            {"messages": CHAT[:1], "info": {"exit_status": "", "model_stats": {"api_calls": 0}}},
            "server: no model call, api_calls=0",
        ),
    ],
    "tau_bench": [
        (
            {
                "info": {
                    "error": "slow down",
                    "traceback": TRACEBACK,
                }
            },
            "?: error=slow down, traceback=litellm.RateLimitError: slow down",
        ),
    ],
    "tau2": [
        ({"termination_reason": "too_many_errors"}, NOTHING),
        ({"termination_reason": "agent_error"}, NOTHING),
        says("server", termination_reason="infrastructure_error"),
    ],
    "inspect": [
        (tool_answer("permission"), NOTHING),
        (tool_answer("sandbox_unavailable", "one", "two"), NOTHING),
        (
            tool_answer("sandbox_unavailable", "one"),
            "sandbox: tool message error.type=sandbox_unavailable",
        ),
        ({"limit": {"type": "token"}}, "truncated: limit=token"),
        ({"limit": {"type": "operator"}}, "aborted: limit=operator"),
        ({"error": {"message": "Cancelled('x')"}}, "aborted: error=Cancelled('x')"),
        ({"error": {"message": "ValueError('x')"}}, "?: error=ValueError('x')"),
    ],
    "xtuner": [
        ({"status": "filtered"}, NOTHING),
        ({"status": "expired"}, "aborted: status=expired, finish_reason=stop"),
        ({"status": "failed"}, "?: status=failed, finish_reason=stop"),
        ({"finish_reason": "error"}, "?: status=completed, finish_reason=error"),
        (
            {"status": "failed", "response": ""},
            "server: status=failed, finish_reason=stop, response=empty",
        ),
        says(
            "sandbox", error_msg="sandbox:main.acquire/acquire: E", status=None, finish_reason=None
        ),
        says("judge", error_msg="judger/timeout: E", status=None, finish_reason=None),
        says("?", error_msg="infer/entry_failed: E", status=None, finish_reason=None),
    ],
    "roll": [
        (failed("tool_execution_failed", "FINISH", "Tool execution failed: E"), NOTHING),
        (failed("", "MAX_STEPS"), NOTHING),
        (failed("parse_error"), "judge: failure_mode=parse_error, stop_reason=FINISH"),
        (
            failed("tool_call_parse_failed"),
            "policy: failure_mode=tool_call_parse_failed, stop_reason=FINISH",
        ),
        (
            failed("none", "LLM_GENERATE_FAILED", "m"),
            "server: failure_mode=none, stop_reason=LLM_GENERATE_FAILED, error_messages=m",
        ),
    ],
    "tinker": [
        (stopped("parse_error"), NOTHING),
        (stopped("max_turns"), NOTHING),
        (stopped("rollout_timeout"), "timeout: stop=rollout_timeout"),
    ],
    "open_instruct": [
        (called("Timeout after 9 seconds", False), NOTHING),
        (called("Connection error: x", True), NOTHING),
        (called("Connection error: xHTTP error: 404 no", False), NOTHING),
        (
            called("HTTP error: 404 noConnection error: x", False),
            "tool_error: tool_errors=Connection error: x",
        ),
        says("aborted", finish_reason="abort"),
    ],
    "openhands": [
        says("policy", error="AgentStuckInLoopError: x"),
        says("truncated", error="RuntimeError: maximum iteration"),
        says("?", error="ValueError: x"),
    ],
}


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        pytest.param(name, changes, expected, id=f"{name}-{i}")
        for name, own in CASES.items()
        for i, (changes, expected) in enumerate([({}, NOTHING), *own])
    ],
)
def test_a_failure_is_recorded_with_what_says_so_and_an_honest_wrong_answer_is_none(
    name, changes, expected
):
    (record,) = records_of(name, merged(BASES[name], changes))
    assert record.texts.get("failure") == expected


def test_every_format_that_records_failures_has_cases():
    assert CASES.keys() == BASES.keys()


@pytest.mark.parametrize("name", ["native", "generic", "verifiers", "skyrl", "xtuner", "tau2"])
def test_columns_of_many_rollouts_hold_the_failures_of_their_records(name):
    lines = [merged(BASES[name], changes) for changes, _ in [({}, NOTHING), *CASES[name]]]
    reader = reader_of(name, lines[-1] if name == "generic" else lines[0])
    at = place_of(name, reader)
    rows = [row for line in lines for row in reader.rows(line, at)]
    fields = [reader.read(row, at) for row in rows]
    columns = usual_columns(gather(fields), len(rows), ReadOptions())
    expected = [reader.record(rows[place], at).texts.get("failure") for place in columns.rows]
    assert columns.texts["failure"] == expected
    assert len(set(expected)) > 1


def test_rollouts_of_which_none_failed_have_no_column_of_failures():
    columns = usual_columns(gather([BASES["native"]] * 2), 2, ReadOptions())
    assert "failure" not in columns.texts


@pytest.mark.parametrize(
    "reason",
    [
        "max_turns",
        "max_steps",
        "MAX_LENGTH",
        "LimitsExceeded",
        "context_length",
        "exit_cost",
        "context_overflow",
    ],
)
def test_a_budget_that_ran_out_is_a_truncation(reason):
    (record,) = records_of("native", BASES["native"] | {"finish_reason": reason})
    assert record.scores["is_truncated"] == 1
    assert "failure" not in record.texts


@pytest.mark.parametrize(
    ("name", "changes", "cut"),
    [
        ("rllm", {"termination_reason": "max_prompt_length_exceeded"}, 1),
        ("rllm", {"termination_reason": "env_done"}, 0),
        ("swe_agent", {"info": {"exit_status": "submitted (exit_context)"}}, 1),
        ("swe_agent", {"info": {"exit_status": "submitted (exit_format)"}}, 0),
        ("tau2", {"termination_reason": "max_steps"}, 1),
        ("roll", failed("none", "MAX_STEPS"), 1),
        ("tinker", stopped("context_overflow"), 1),
        ("native", {"finish_reason": "max_score_reached"}, 0),
    ],
)
def test_each_formats_words_for_a_limit_say_whether_a_rollout_was_cut(name, changes, cut):
    (record,) = records_of(name, merged(BASES[name], changes))
    assert record.scores["is_truncated"] == cut


def test_evidence_is_one_line_of_bounded_length():
    (record,) = records_of("native", BASES["native"] | {"error": "a\nb" + "x" * 1000})
    assert record.texts["failure"].startswith("?: error=a bxxx")
    assert len(record.texts["failure"]) == MOST_CHARACTERS


def test_only_what_says_something_is_an_error():
    nothing = (None, "", " None ", "false", 0, 0.5, False, [], {}, {"loss": 0.1}, ["x"])
    assert {error_text(value) for value in nothing} == {None}
    assert error_text(True) == "true"
    assert error_text("Traceback (most recent call last):\n  x\nE: m\n") == "E: m"


def test_an_episode_without_a_trace_says_why():
    episode = {"id": "e", "task": {"data": {"prompt": "q"}}, "traces": []}
    (unsaid,) = records_of("episodes", episode)
    (said,) = records_of("episodes", episode | error("EmptyEpisode"))
    assert unsaid.texts["failure"] == "unknown: traces=none"
    assert said.texts["failure"] == "server: error=EmptyEpisode: m"


FAILED = {
    "inspect": ["?: error=ValueError('solver failed on purpose')"],
    "inspect/older": ["?: error=ValueError('solver failed on purpose')"],
    "nemo_gym": ["judge: _ng_failure_class=judge_failed, _ng_failure_judge_error=no verdict"] * 2,
    "prime_rl/rows": ["truncated: stop_condition=max_turns_reached"],
    "prime_rl/stream": ["sandbox: error=SandboxError: did not start"],
    "relax/rollout_result": ["aborted: status=aborted"] * 3,
    "verifiers/example_id": [
        "?: stop_condition=has_error, error=ValueError('broken pipe of the tool')",
        "truncated: stop_condition=max_turns_reached",
    ],
    "verifiers/traces": [
        "?: error=ToolError: no such tool",
        "sandbox: error=SandboxError: did not start",
    ],
    "harbor": [
        "judge: exception_info=VerifierTimeoutError: Verifier execution timed out after 18 seconds",
        "sandbox: exception_info=EnvironmentStartTimeoutError: Environment start timed out after "
        "600 seconds",
    ],
    "xtuner/exp": ["?: error_msg=judge timed out, status=completed, finish_reason=stop"] * 3,
    "xtuner/spread": ["?: error_msg=the sandbox died, finish_reason=error"],
}


@pytest.mark.parametrize("folder", FAILED)
def test_the_failures_of_real_files_are_recorded(folder):
    infos = [info for info in REAL_RUNS if info.path.is_relative_to(DATA / folder)]
    own = [info for info in infos if info.path == DATA / folder] or infos
    failures = [record.texts.get("failure") for info in own for record in records(real_run(info))]
    assert sorted(filter(None, failures)) == sorted(FAILED[folder])


CLEAN = [
    info
    for info in REAL_RUNS
    if info.path.is_relative_to(DATA)
    and not any(info.path.is_relative_to(DATA / folder) for folder in FAILED)
]


@pytest.mark.parametrize("info", CLEAN, ids=lambda info: info.path.relative_to(DATA).as_posix())
def test_logs_in_which_nothing_failed_record_no_failure(info):
    assert [r.texts["failure"] for r in records(real_run(info)) if "failure" in r.texts] == []


def test_an_inspect_log_that_failed_before_its_first_sample_holds_no_rollout(tmp_path):
    log = {"version": 2, "status": "error", "eval": {"task": "t"}, "plan": {}, "stats": {}}
    assert records_of("inspect", log) == []
    with pytest.raises(RecordError):  # that is no log of Inspect, and is lost with a word
        records_of("inspect", {"step": 1})
    (tmp_path / "2024-08-29T15-11-08_t_x.json").write_text(json.dumps(log))
    result = discover(tmp_path)
    assert (len(result.runs), len(result.left_out)) == (0, 1)


def test_causes_of_a_log_are_our_own_words():
    for cause in CAUSES:
        (record,) = records_of("native", BASES["native"] | {"cause": cause.upper()})
        assert record.texts["failure"] == f"{cause}: cause={cause.upper()}"
    assert UNDECIDED not in CAUSES
