"""OpenTelemetry traces: a rollout for each agent, whichever lines its spans stand in, with its times."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import DATA, records, run_at, values_of

from board.query.open_run import Run

FILE = DATA / "otlp" / "traces.jsonl"


def told(run: Run) -> list[dict[str, Any]]:
    return [*map(values_of, records(run))]


def value(plain: Any) -> dict[str, Any]:
    """A value as OTLP writes it."""
    if isinstance(plain, bool):
        return {"boolValue": plain}
    if isinstance(plain, int):
        return {"intValue": str(plain)}
    if isinstance(plain, float):
        return {"doubleValue": plain}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [value(one) for one in plain]}}
    if isinstance(plain, dict):
        return {"kvlistValue": {"values": attributes(plain)}}
    return {"stringValue": plain}


def attributes(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(one)} for key, one in plain.items()]


def span(
    trace: str, name: str, parent: str, start: float, end: float, **plain: Any
) -> dict[str, Any]:
    times = {
        f"{k}TimeUnixNano": str(10**18 + int(t * 1e9)) for k, t in (("start", start), ("end", end))
    }
    own = attributes({key.replace("__", "."): one for key, one in plain.items()})
    return {
        "traceId": trace,
        "spanId": name,
        "parentSpanId": parent,
        "name": name,
        **times,
        "attributes": own,
    }


def batch(spans: list[dict[str, Any]]) -> str:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def write(path: Path, batches: list[list[dict[str, Any]]]) -> Path:
    path.write_text("".join(f"{batch(spans)}\n" for spans in batches))
    return path.parent


def agent(trace: str, begin: float = 0.0, **plain: Any) -> list[dict[str, Any]]:
    """A rollout: a call of a model of 6 s, one of a tool of 22 s, and another of 2 s."""
    at = lambda start, end: (begin + start, begin + end)  # noqa: E731
    root = {"gen_ai__operation__name": "invoke_agent", **plain}
    chat = {"gen_ai__operation__name": "chat"}
    tool = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "bash"}
    return [
        span(trace, f"{trace}-a", "", *at(0, 30), **root),
        span(trace, f"{trace}-b", f"{trace}-a", *at(0, 6), **chat, gen_ai__usage__output_tokens=40),
        span(trace, f"{trace}-c", f"{trace}-a", *at(6, 28), **tool, error__type="timeout"),
        span(
            trace, f"{trace}-d", f"{trace}-a", *at(28, 30), **chat, gen_ai__usage__output_tokens=9
        ),
    ]


def test_rollouts_of_spans_that_a_writer_mixed_are_those_that_were_traced():
    rollouts = told(run_at(FILE.parent))
    assert [(r["step"], r["rollout_id"], r["group_id"], r["reward"]) for r in rollouts] == [
        (3, "rollout-1", "task-1", 1.0),
        (3, "rollout-2", "task-2", 0.0),
        (4, "rollout-3", "task-3", 1.0),
    ]
    frame = run_at(FILE.parent).frame(
        ["seconds", "generate_s", "tool_s", "input_tokens", "output_tokens"]
    )
    assert frame["seconds"].tolist() == [3.75, 13.25, 3.75]
    assert frame["generate_s"].tolist() == [2.75] * 3
    assert frame["tool_s"].tolist() == [0.5, 10.0, 0.5]
    assert frame["input_tokens"].tolist() == [85.0] * 3
    assert frame["output_tokens"].tolist() == [16.0] * 3


def test_a_conversation_is_told_once_with_the_seconds_and_the_error_of_its_tool():
    record = records(run_at(FILE.parent))[1]
    said = [(one["role"], one.get("content")) for one in record.messages]
    assert said == [
        ("system", "Answer with one number."),
        ("user", "How much is 19 * 21?"),
        ("assistant", None),
        ("tool", "the calculator did not answer in time"),
        ("assistant", "I can not tell."),
    ]
    assert record.messages[3]["duration_s"] == 10.0
    assert record.messages[3]["error"] == "timeout: timed out after 10 s"


def test_spans_without_texts_are_a_rollout_with_its_times(tmp_path):
    folder = write(tmp_path / "traces.jsonl", [agent("t1", rl__step=3.0, rl__reward=0.0)])
    (rollout,) = told(run_at(folder))
    assert (rollout["step"], rollout["reward"]) == (3, 0.0)
    assert [rollout[name] for name in ("seconds", "generate_s", "tool_s")] == [30.0, 8.0, 22.0]
    assert rollout["output_tokens"] == 49.0
    assert run_at(folder).frame(["tool_errors"])["tool_errors"].tolist() == [1]


@given(st.integers(1, 5), st.integers(1, 7), st.randoms(use_true_random=False))
def test_however_spans_are_batched_the_rollouts_are_the_same(tmp_path_factory, count, size, order):
    folder = tmp_path_factory.mktemp("batched")
    traced = [
        one for n in range(count) for one in agent(f"t{n}", n * 3.5, rl__step=n % 2, rl__reward=n)
    ]
    order.shuffle(traced)
    batches = [traced[i : i + size] for i in range(0, len(traced), size)]
    found = told(run_at(write(folder / "traces.jsonl", batches)))
    names = ("step", "rollout_id", "reward", "seconds", "generate_s", "tool_s", "output_tokens")
    expected = [(n % 2, f"t{n}", float(n), 30.0, 8.0, 22.0, 49.0) for n in range(count)]
    assert sorted(tuple(rollout[name] for name in names) for rollout in found) == sorted(expected)


def test_a_trace_of_several_agents_is_one_rollout_unless_each_has_a_conversation(tmp_path):
    above = [span("t", "root", "", 0, 60)]
    below = [{**one, "traceId": "t"} for n in (0, 1) for one in agent(f"x{n}", 30.0 * n)]
    below = [{**one, "parentSpanId": one["parentSpanId"] or "root"} for one in below]
    (rollout,) = told(run_at(write(tmp_path / "traces.jsonl", [above + below])))
    assert (rollout["seconds"], rollout["tool_s"], rollout["output_tokens"]) == (60.0, 44.0, 98.0)
    for n, place in ((0, 0), (1, 4)):
        below[place]["attributes"] += attributes({"gen_ai.conversation.id": f"c{n}"})
    several = tmp_path / "several"
    several.mkdir()
    found = told(run_at(write(several / "traces.jsonl", [above + below])))
    assert [one["rollout_id"] for one in found] == ["c0", "c1"]
    assert [one["seconds"] for one in found] == [30.0, 30.0]


def test_a_call_that_two_libraries_traced_counts_once(tmp_path):
    spans = agent("t")
    inner = span(
        "t", "inner", "t-b", 1, 5, gen_ai__operation__name="chat", gen_ai__usage__output_tokens=40
    )
    (rollout,) = told(run_at(write(tmp_path / "traces.jsonl", [[*spans, inner]])))
    assert (rollout["generate_s"], rollout["output_tokens"]) == (8.0, 49.0)


CONVENTIONS = {
    "OpenInference": {
        "openinference__span__kind": "LLM",
        "llm__input_messages__0__message__role": "user",
        "llm__input_messages__0__message__content": "What is the sum of these?",
        "llm__output_messages__0__message__role": "assistant",
        "llm__output_messages__0__message__content": "It is forty-two.",
        "llm__token_count__completion": 5,
    },
    "OpenLLMetry": {
        "gen_ai__operation__name": "chat",
        "gen_ai__prompt__0__role": "user",
        "gen_ai__prompt__0__content": "What is the sum of these?",
        "gen_ai__completion__0__role": "assistant",
        "gen_ai__completion__0__content": "It is forty-two.",
        "gen_ai__usage__output_tokens": 5,
    },
    "values within each other": {
        "gen_ai__operation__name": "chat",
        "gen_ai__input__messages": [
            {"role": "user", "parts": [{"type": "text", "content": "What is the sum of these?"}]}
        ],
        "gen_ai__output__messages": [
            {"role": "assistant", "parts": [{"type": "text", "content": "It is forty-two."}]}
        ],
        "gen_ai__usage__output_tokens": 5,
    },
}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_texts_are_read_by_the_names_of_each_convention(tmp_path, convention):
    spans = [span("t", "call", "", 0, 2, **CONVENTIONS[convention])]
    (rollout,) = told(run_at(write(tmp_path / "traces.jsonl", [spans])))
    assert "What is the sum of these?" in rollout["prompt"]
    assert "It is forty-two." in rollout["response"]
    assert rollout["output_tokens"] == 5.0


def test_texts_of_events_are_read(tmp_path):
    one = span("t", "call", "", 0, 2, gen_ai__operation__name="chat")
    one["events"] = [
        {"name": "gen_ai.user.message", "attributes": attributes({"content": "What is the sum?"})},
        {
            "name": "gen_ai.choice",
            "attributes": attributes({"message": json.dumps({"content": "It is forty-two."})}),
        },
    ]
    (rollout,) = told(run_at(write(tmp_path / "traces.jsonl", [[one]])))
    assert "What is the sum?" in rollout["prompt"]
    assert "It is forty-two." in rollout["response"]


def test_spans_that_have_not_ended_have_no_seconds(tmp_path):
    spans = agent("t")
    for one in spans:
        del one["endTimeUnixNano"]
    (rollout,) = told(run_at(write(tmp_path / "traces.jsonl", [spans])))
    assert [rollout.get(name) for name in ("seconds", "generate_s", "tool_s")] == [None] * 3


@pytest.mark.parametrize("seed", range(20))
def test_rubbish_among_spans_costs_no_more_than_its_line(tmp_path, seed):
    order = random.Random(seed)
    rubbish = [None, 3, "x", [], {}, [{}], {"attributes": 3}, {"resourceSpans": [{}]}]
    broken = agent("t")[0]
    broken[order.choice([*broken])] = order.choice(rubbish)
    lines = [
        batch(agent("good")),
        json.dumps({"resourceSpans": order.choice(rubbish)}),
        batch([broken]),
    ]
    order.shuffle(lines)
    (tmp_path / "traces.jsonl").write_text("\n".join(lines) + "\n")
    assert "good" in [one["rollout_id"] for one in told(run_at(tmp_path))]
