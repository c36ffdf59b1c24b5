"""Runs with next to nothing in them: what a page says of what can't be told is never good news."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import OpenApp, assert_sound, cards, texts
from written_logs import write_lines


@pytest.fixture
def lone(tmp_path: Path) -> Path:
    """A root with one run of one rollout, of the first step: policy and reference are still equal."""
    row = {"step": 1, "rank": 0, "group_id": "a", "reward": 0.2, "advantage": -0.2, "prompt": "p"}
    tokens = {"response_tokens": ["a", "b"], "logprobs": [-0.5, -1.5], "ref_logprobs": [-0.5, -1.5]}
    write_lines(tmp_path / "lone" / "a.jsonl", [row | tokens])
    return tmp_path


def test_an_advantage_that_nothing_can_be_compared_with_is_not_called_right(
    open_app: OpenApp, lone: Path
) -> None:
    app = open_app(lone, "step", part="groups")
    assert_sound(app)
    assert not app.success
    assert not app.warning
    assert "No group has two scored rollouts" in texts(app)


def test_what_no_group_of_one_rollout_can_have_is_no_empty_chart(
    open_app: OpenApp, lone: Path
) -> None:
    app = open_app(lone)
    assert_sound(app)
    assert "Zero-std groups" not in [card["title"] for card in cards(app)]
    assert "needs group_id and reward of two rollouts a group" in texts(app).replace("\\", "")


def test_tokens_whose_values_are_all_zero_are_not_said_to_have_none(
    open_app: OpenApp, lone: Path
) -> None:
    app = open_app(lone, "step", of="k3_mean")
    assert_sound(app)
    (told,) = [str(info.value).replace("\\", "") for info in app.info]
    assert told.startswith("KL(policy‖ref), k3 is 0 at every token of step 1")
