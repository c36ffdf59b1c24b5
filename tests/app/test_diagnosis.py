"""Spike, Findings and Log health: what they say, and where their clicks lead."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from faults.plant import shift_logprobs
from faults.scene import clean
from page_elements import assert_sound, query, texts
from streamlit.testing.v1 import AppTest
from written_logs import native_run

from board.analysis.findings import Diagnosis, diagnose
from board.errors import UnreadableError
from board.views.shared import cache, known_findings

SAMPLES = Path(__file__).parents[2] / "rollout_samples"


def words(app: AppTest) -> str:
    """What stands on the page, without the signs that escape Markdown."""
    return texts(app).replace("\\", "")


def links(app: AppTest) -> dict[str, str]:
    """Label -> page and query of each link, of equal labels the first."""
    return {
        link.proto.label.replace("\\", ""): f"{link.proto.page}?{link.proto.query_string}"
        for link in reversed(app.get("page_link"))
    }


def test_a_spike_is_told_in_one_sentence_and_tokens_and_types_are_ranked(open_app):
    app = open_app(SAMPLES, "step", run="grpo_arithmetic", step="97", step_metric="k3_mean")
    assert "## One token contributes 77 %" in words(app)
    tokens, types, rollouts = (element.value for element in app.dataframe)
    assert tokens[["rollout", "token", "piece"]].iloc[0].tolist() == [13, 6, "2"]
    assert tokens["share"].is_monotonic_decreasing
    assert types["piece"].iloc[0] == "2"
    assert types["share"].sum() == pytest.approx(100, abs=1)  # rounded
    assert types["tokens"].sum() == 691
    assert rollouts["index"].iloc[0] == 13
    assert rollouts["share"].sum() == pytest.approx(100, abs=2)
    rows = links(app)["All rollouts of step 97"]
    assert "step=97" in rows


def badge_of(app: AppTest) -> str:
    return next(label for label in links(app) if label.startswith(("Findings:", "Findings (")))


def counted_badge_of(app: AppTest) -> str:
    """The badge when the counting behind the page has ended."""
    for _ in range(100):
        if "counting" not in badge_of(app.run()):
            break
        time.sleep(0.1)
    assert_sound(app)
    return badge_of(app)


@pytest.fixture
def counting_later(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs count as large, and none has been counted before or is afterwards."""
    monkeypatch.setattr(known_findings, "_COUNT_AT_ONCE_ROLLOUTS", 0)
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.mark.usefixtures("counting_later")
def test_the_page_of_a_large_run_does_not_wait_for_its_findings_to_be_counted(
    open_app, monkeypatch
):
    may_count = threading.Event()

    def late(*arguments: Any, **named: Any) -> Diagnosis:
        may_count.wait(60)
        return diagnose(*arguments, **named)

    monkeypatch.setattr(cache, "diagnose", late)
    app = open_app(SAMPLES, run="resumed")
    assert badge_of(app) == "Findings: counting …"
    assert badge_of(app.run()) == "Findings: counting …"
    may_count.set()
    counted = counted_badge_of(app)
    st.cache_resource.clear()
    monkeypatch.setattr(known_findings, "_COUNT_AT_ONCE_ROLLOUTS", 100_000)
    assert counted == badge_of(open_app(SAMPLES, run="resumed"))


@pytest.mark.usefixtures("counting_later")
def test_findings_that_can_t_be_counted_are_said_so_where_they_are_linked(open_app, monkeypatch):
    def broken(*_: Any, **__: Any) -> Diagnosis:
        raise UnreadableError("the index was changed meanwhile; reload")

    monkeypatch.setattr(cache, "diagnose", broken)
    app = open_app(SAMPLES, run="resumed")
    assert "open them to see why" in counted_badge_of(app)


def test_one_type_of_token_is_listed_alone(open_app):
    link = {"run": "grpo_arithmetic", "step": "97", "step_metric": "k3_mean"}
    app = open_app(SAMPLES, "step", **link, step_only="kind:word")
    assert set(app.dataframe[0].value["kind"]) == {"word"}
    next(b for b in app.button if b.label == "All tokens").click().run()
    assert "step_only" not in query(app)
    assert "digits" in set(app.dataframe[0].value["kind"])


def test_a_metric_of_rollouts_ranks_rollouts_and_says_why_no_tokens(open_app, logs):
    app = open_app(logs, "step", run="native", step="10", step_metric="reward")
    assert "recorded per rollout" in words(app)
    (rollouts,) = (element.value for element in app.dataframe)
    assert rollouts["index"].iloc[0] == 7
    app = open_app(logs, "step", run="native", step="10", step_metric="reward", step_order="lowest")
    assert app.dataframe[0].value["index"].iloc[0] == 0


def test_findings_are_listed_worst_first_with_their_places(open_app):
    app = open_app(SAMPLES, "findings", run="grpo_reward_hack")
    shown = words(app)
    assert shown.index("Responses are cut off") < shown.index("Sampler and trainer disagree")
    assert "1 of 32 (3.1 %) rollouts read of step" in shown
    assert "92.5 % of rollouts · threshold 25 % of rollouts" in shown
    assert "leads to follow" in shown.lower()
    assert "index=18" in links(app)["step 98, rollout 18"]
    assert "sort=is_truncated&desc=1" in links(app)["Rollouts, step 98"]
    assert "groups_id=s98g2" in links(app)["Groups, step 98"]
    assert "mismatch_measure=multiplicative" in links(app)["Mismatch, step 54"]
    assert "3,200 rollouts of" in shown
    copied = app.code[0].value
    assert copied.count("· rule ") - copied.count("· rule change") == 6
    app = open_app(SAMPLES, "findings", run="grpo_reward_hack", findings_severity="severe")
    assert "Sampler and trainer disagree" not in "\n".join(m.value for m in app.markdown)


def test_a_muted_finding_leaves_the_list_until_it_is_brought_back(open_app, monkeypatch, tmp_path):
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path))
    app = open_app(SAMPLES, "findings", run="grpo_reward_hack")
    title = "Sampler and trainer disagree"
    mute = next(b for b in app.button if b.key.startswith("mute_") and title in b.key)
    mute.click().run()
    cards = [m.value for m in app.markdown]
    assert not any(f"**{title}**" in text for text in cards)
    assert any(title in text for text in cards)
    next(b for b in app.button if b.key.startswith("unmute_")).click().run()
    assert any(f"**{title}**" in m.value for m in app.markdown)
    app.button("findings_all_seen").click().run()
    assert app.button("findings_all_seen").disabled


def test_a_run_without_findings_says_how_much_was_looked_at(open_app, logs):
    app = open_app(logs, "findings", run="rllb")
    shown = words(app)
    assert "Nothing stood out" in shown
    assert "rules checked the run" in shown
    assert "are not recorded" in shown
    rules = app.dataframe[0].value.set_index("rule")["state"]
    assert rules["entropy_collapse"] == "not recorded: entropy"


def test_thresholds_in_the_runs_folder_are_used_and_a_wrong_one_is_told(open_app, tmp_path):
    folder = native_run(tmp_path / "run")
    (folder / "thresholds.toml").write_text("[resumed]\nenabled = false\n")
    app = open_app(tmp_path, "findings")
    assert "The run was resumed" not in words(app)
    assert "Switched off: resumed" in words(app)
    (folder / "thresholds.toml").write_text("[resumd]\nenabled = false\n")
    app = open_app(tmp_path, "findings")
    assert "did you mean resumed" in words(app)
    assert "The run was resumed" in words(app)


def test_arrays_that_are_off_by_one_are_shouted_first(open_app, tmp_path):
    log = clean()
    shift_logprobs(log)
    log.write(tmp_path / "run")
    app = open_app(tmp_path, "findings", findings_part="health")
    assert len(app.error) == 2
    assert "OFF BY +1. logprobs[i] fits sampling_logprobs[i+1]" in words(app)
    pairs = app.dataframe[0].value
    assert pairs["best shift"].tolist() == ["+1", "+1", "0"]


def test_what_a_log_has_nothing_to_test_of_is_not_recorded(open_app, logs):
    app = open_app(logs, "findings", findings_part="health", run="texts")
    message = [text.value for text in app.text]
    assert "not recorded: no token arrays" in message
    assert "not recorded: timestamp" in message
    assert "not recorded: rollout_id" in message
    app = open_app(logs, "findings", findings_part="health", run="native")
    assert any("Steps 20 to 20 were written again" in text.value for text in app.text)
