"""Every page shows every run, and says what the run does not hold."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import streamlit as st
from shown import PAGES, OpenApp, assert_sound, cards, choice, go_to, table, texts
from written_logs import write_lines

from board.views._state import VIEWS


@pytest.mark.parametrize("run", ["native", "rllb", "texts"])
def test_each_page_shows_each_run(open_app: OpenApp, logs: Path, run: str) -> None:
    app = open_app(logs, run=run)
    for page in (*PAGES[1:], PAGES[0]):
        assert_sound(app)
        assert not app.error
        assert app.subheader[0].value == f"{run}"
        go_to(app, page)


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        ("native", []),
        ("rllb", ["Entropy, policy", "KL(sampler‖trainer), mismatch", "Truncated"]),
        ("texts", ["Reward", "KL(policy‖ref), k3", "Response length", "Groups without gradient"]),
    ],
)
def test_metrics_a_run_does_not_hold_are_said_to_be_not_recorded(
    open_app: OpenApp, logs: Path, run: str, missing: list[str]
) -> None:
    app = open_app(logs, run=run)
    told = [c.value.replace("\\", "") for c in app.caption if "Not recorded" in c.value]
    assert len(told) == bool(missing)
    assert all(f"{name} (needs" in told[0] for name in missing)


def test_a_metric_without_a_value_at_the_step_is_not_recorded_and_never_zero(
    open_app: OpenApp, tmp_path: Path
) -> None:
    rows = [
        {"step": s, "prompt": "p", "response": "r", "reward": r} for s, r in ((0, 1.0), (1, None))
    ]
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    app = open_app(tmp_path, step="1")
    assert app.metric[0].value == "not recorded"
    assert not app.metric[0].delta
    app = open_app(tmp_path, "rollouts", step="1")
    assert table(app)["reward"].isna().all()
    assert "No reward is recorded at this step" in texts(app)


def test_the_card_tells_the_mean_of_the_chosen_step(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, run="native", step="10")
    # Rewards of step 10: 0.1, 0.2, 0.3, 0.4 on rank 0 and one more each on rank 1.
    assert app.metric[0].label == "Reward"
    assert float(app.metric[0].value) == pytest.approx(0.75)


def test_a_rollout_page_shows_each_text_literally(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, "rollout", run="native", step="10", index="1")
    shown = [code.value for code in app.code]
    assert shown == [
        "You are terse. END What is 2+1?",
        "<think>x<y and y>z</think> (10/0/1)",
        "I do not know.",
        "4",
    ]


def test_an_empty_response_is_shown_as_empty(open_app: OpenApp, tmp_path: Path) -> None:
    row = {
        "step": 0,
        "prompt": "p",
        "response": "",
        "response_tokens": [],
        "logprobs": [],
        "reward": 0.0,
    }
    write_lines(tmp_path / "run" / "a.jsonl", [row])
    app = open_app(tmp_path, "rollout")
    assert_sound(app)
    assert "empty" in [c.value for c in app.caption]


def test_chat_messages_are_shown_as_the_conversation_they_are(
    open_app: OpenApp, tmp_path: Path
) -> None:
    said = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "<think>4"}]
    row = {"step": 0, "prompt": said[:1], "response": said[1:], "reward": 1.0}
    write_lines(tmp_path / "run" / "a.jsonl", [row])
    app = open_app(tmp_path, "rollout")
    assert_sound(app)
    assert [code.value for code in app.code] == ["[user]\n2+2?", "[assistant]\n<think>4"]


def test_a_rollout_of_messages_alone_shows_what_was_said(open_app: OpenApp, tmp_path: Path) -> None:
    said = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "<think>4"}]
    write_lines(tmp_path / "run" / "a.jsonl", [{"step": 0, "messages": said, "reward": 1.0}])
    app = open_app(tmp_path, "rollout")
    assert_sound(app)
    shown = "\n".join(code.value for code in app.code)
    assert "2+2?" in shown
    assert "<think>4" in shown


ODD = {
    "rewards around 1e5": [{"reward": 1e5 + i} for i in range(20)],
    "NaN and Infinity": [{"reward": float("nan"), "logprobs": [float("inf"), -1.0]}],
    "one rollout": [{}],
    "negative steps": [{"step": -5}, {"step": -1}],
    "huge numbers": [{"reward": 1e200, "extra": 10**300}, {"reward": -1e200}],
    "text around a step, prompts of numbers": [{"step": "step_2", "prompt": 4}],
    "no measured number": [{"reward": None, "logprobs": None, "ref_logprobs": None}],
    "each row in its own way": [
        *({}, {"reward": None}, {"token_rewards": [0.5]}, {"ref_logprobs": None}),
        *({"logprobs": [None, -1.0]}, {"ground_truth": "4"}, {"response_tokens": None}),
        *({"reward": "0.5"}, {"reward": "yes"}, {"extra": 1}, {"extra": "x"}),
        *({"extra": [1, {}]}, {"extra": None}),
    ],
}


@pytest.mark.parametrize("case", ODD)
def test_odd_records_break_no_page(open_app: OpenApp, tmp_path: Path, case: str) -> None:
    usual = {
        "step": 0,
        "prompt": "p",
        "response": "It is",
        "response_tokens": ["It", " is"],
        "logprobs": [-1.0, -0.5],
        "ref_logprobs": [-1.0, -0.6],
        "reward": 0.5,
    }
    write_lines(tmp_path / "run" / "a.jsonl", [{**usual, **change} for change in ODD[case]])
    app = open_app(tmp_path)
    for page in (*PAGES[1:], None):
        assert_sound(app)
        assert not app.error
        if page:
            go_to(app, page)


def test_a_list_of_another_length_is_said_and_nothing_is_shifted(
    open_app: OpenApp, tmp_path: Path
) -> None:
    row = {
        "step": 0,
        "response_tokens": ["a", "b", "c"],
        "logprobs": [-1, -1, -1],
        "token_rewards": [7],
    }
    write_lines(tmp_path / "run" / "a.jsonl", [row])
    app = open_app(tmp_path, "rollout")
    assert "token_rewards has 1 entries for 3 tokens" in texts(app).replace("\\", "")


def test_steps_with_gaps_are_offered_in_order_and_no_other(open_app: OpenApp, logs: Path) -> None:
    app = open_app(logs, run="native")
    assert app.selectbox(key="step").options == ["0", "10", "20", "35"]
    assert app.selectbox(key="step").value == 35
    app.button(key="step_chevron_left").click().run()
    assert app.selectbox(key="step").value == 20
    app.button(key="step_first_page").click().run()
    assert app.selectbox(key="step").value == 0
    assert app.button(key="step_chevron_left").disabled


def test_rollouts_written_again_after_a_resume_count_once_and_are_told(
    open_app: OpenApp, logs: Path
) -> None:
    app = open_app(logs, "rollouts", run="native", step="20")
    assert len(table(app)) == 8
    assert "8 rollouts superseded by a resume" in texts(app)
    go_to(app, "health")
    assert "8 rollouts were written again after a resume" in texts(app)
    found = next(frame for frame in app.dataframe if "effect" in frame.value)
    assert found.proto.row_height > 64  # Streamlit wraps no text in lower rows


def test_a_column_named_like_a_mean_is_drawn_as_itself(open_app: OpenApp, tmp_path: Path) -> None:
    rows = [
        {"step": s, "prompt": "p", "response": "r", "reward": 0.0, "reward_mean": 7.0}
        for s in (0, 1)
    ]
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    app = open_app(tmp_path)
    drawn = next(card for card in cards(app) if card["key"] == "reward_mean")
    assert drawn["chart"]["lines"][0]["text"][0].startswith("reward_mean <b>7</b>")


def test_rollouts_that_a_resume_wrote_again_are_shown_when_asked_for(
    open_app: OpenApp, logs: Path
) -> None:
    app = open_app(logs, "health", run="native")
    assert "not ended" not in texts(app)
    before = len(app.dataframe)
    app.toggle(key="old").set_value(True).run()
    assert_sound(app)
    old = app.dataframe[0].value
    assert len(app.dataframe) == before + 1
    assert old["step"].tolist() == [20] * 8
    assert set(old["file"].str.slice(0, 2)) == {"a1"}


def test_steps_that_are_still_written_are_named_with_their_ranks(
    open_app: OpenApp, tmp_path: Path
) -> None:
    about = {"schema": 1, "attempt": "a", "started": 1, "start_step": 0, "world_size": 3}
    for rank in (0, 2):
        rows = [
            {"type": "header", "rank": rank, **about},
            {"type": "sample", "step": 4, "rank": rank, "reward": 1.0},
            *([{"type": "step_end", "step": 4}] if rank == 0 else []),
        ]
        write_lines(tmp_path / "run" / f"r{rank}.jsonl", rows)
    app = open_app(tmp_path, "health")
    assert "not ended yet: step 4 (rank 1, 2)" in texts(app).replace("\\", "")
    assert any("not ended by rank" in frame.value for frame in app.dataframe)


def test_a_click_opens_the_rollout_that_was_clicked_though_the_run_grew_meanwhile(
    open_app: OpenApp, tmp_path: Path
) -> None:
    rows = [{"step": 1, "rank": 1, "reward": float(i), "rollout_id": f"{i}"} for i in range(3)]
    write_lines(tmp_path / "run" / "b.jsonl", rows)
    app = open_app(tmp_path, "rollouts", sort="reward", desc="1")
    key = app.dataframe[0].key
    write_lines(tmp_path / "run" / "b.jsonl", [*rows, {**rows[0], "reward": 9.0}])
    st.cache_resource.clear()  # what the live toggle clears when it sees that a file grew
    app.session_state[key] = {"selection": {"rows": [], "columns": [], "cells": [(0, "reward")]}}
    app.run()
    assert choice(app, "index") == 2


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_text_standing_alone_that_streamlit_would_print(page):
    body = ast.parse((VIEWS / f"{page}.py").read_text()).body[1:]  # the first is the docstring
    assert not [line for line in body if isinstance(line, ast.Expr) and not is_call(line)]


def is_call(line):
    return isinstance(line.value, ast.Call)
