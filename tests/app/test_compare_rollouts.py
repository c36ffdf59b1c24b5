"""Two rollouts side by side: what `vs` in the URL names, and what the menu offers."""

import json
from typing import Any

import pytest
from page_elements import OpenApp, assert_sound, choice, notices
from streamlit.testing.v1 import AppTest
from written_logs import age, write_lines

from board.errors import ChoiceError
from board.views.rollouts import comparison
from board.views.rollouts.comparison import Target


def row(**more: Any) -> dict[str, Any]:
    return {"step": 0, "response": "a b", **more}


@pytest.fixture
def compare(open_rows: OpenApp) -> OpenApp:
    """`compare(row, row, vs="1")`: the first rollout open, beside what `vs` names."""

    def start(*rows: dict[str, Any], vs: str) -> AppTest:
        return open_rows("rollouts", *rows, run="run", step="0", index="0", vs=vs)

    return start


def views(app: AppTest) -> list[dict[str, Any]]:
    """What the components of the page are given beside tables."""
    sent = [one.proto.mixed.json for one in app.get("bidi_component")]
    return [json.loads(text).get("view", {}) for text in sent if text]


def words(app: AppTest) -> dict[str, Any]:
    """What the comparison is given in words; fails where none is drawn."""
    return next(view["words"] for view in views(app) if "leftFacts" in view.get("words", ()))


def offered(app: AppTest, **wanted: Any) -> dict[str, Any]:
    """What the menu lists once it is open."""
    app.session_state["comparison"] = {"picker": {"run": None, "step": None, **wanted}}
    app.run()
    assert_sound(app)
    return next(view["choices"] for view in views(app) if view.get("choices"))


@pytest.mark.parametrize(
    ("vs", "target"),
    [
        ("5", Target("run", 3, 5)),
        ("97:5", Target("run", 97, 5)),
        ("97.5", Target("run", 97, 5)),
        ("a/b/97:5", Target("a/b", 97, 5)),
    ],
)
def test_a_comparison_names_a_rollout_of_the_step_another_step_or_another_run(vs, target):
    assert comparison.parse(vs, "run", 3) == target
    again = comparison.written(target, "run", 3)
    assert comparison.parse(again, "run", 3) == target


@pytest.mark.parametrize("vs", ["x", "1:", ":1", "-1", "run/5", "1:2:3", ""])
def test_a_comparison_that_names_no_rollout_is_refused(vs):
    with pytest.raises(ChoiceError, match="expected ref, truth"):
        comparison.parse(vs, "run", 3)


def test_both_sides_say_reward_length_advantage_and_group(compare):
    own = row(group_id="g", reward=0.5, advantage=-1.0)
    other = row(group_id="g", reward=1.0, advantage=1.5, response="a b c")
    seen = words(compare(own, other, vs="0.1"))
    left = [["reward", "0.5"], ["advantage", "−1"], ["", "3 chars"], ["group", "g"]]
    assert seen["leftFacts"] == [[*fact, ""] for fact in left]
    right = [["reward", "1", "(+0.5)"], ["advantage", "1.5", "(+2.5)"], ["", "5 chars", "(+2)"]]
    assert seen["rightFacts"] == [*right, ["group", "g", ""]]


def test_the_reference_response_and_the_ground_truth_are_compared_as_texts(compare):
    for vs, title in (("ref", "Reference response"), ("truth", "Ground truth")):
        assert words(compare(row(ref_response="a c", ground_truth="41"), vs=vs))["right"] == title


@pytest.mark.parametrize("vs", ["ref", "truth", "9", "7:0", "none/0:0", "run/5", "x"])
def test_what_is_not_there_is_said_and_the_rollout_is_shown_alone(compare, vs):
    app = compare(row(), vs=vs)
    assert any(
        f"reader_vs={vs} names nothing to compare with" in message for message in notices(app)
    )
    assert choice(app, "reader_vs") == ""


def test_a_rollout_of_another_run_is_compared(compare, tmp_path):
    write_lines(tmp_path / "other" / "a.jsonl", [row(step=4), row(step=4, reward=0.25)])
    app = compare(row(), vs="other/4:1")
    assert words(app)["right"] == "other · step 4 · rollout 1"
    assert ["reward", "0.25", ""] in words(app)["rightFacts"]


def test_a_conversation_is_compared_with_its_roles(compare):
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "one"}]
    more = [{"role": "tool", "content": "out"}, {"role": "assistant", "content": "two"}]
    rows = [{"step": 0, "messages": messages} for messages in (turns + more, turns, turns + more)]
    app = compare(*rows, vs="1")
    length = len("[assistant]\none\n\n[tool]\nout\n\n[assistant]\ntwo")
    assert words(app)["leftFacts"][0][1] == f"{length} chars"
    assert [one["length"] for one in offered(app)["rows"]] == ["3 chars", f"{length} chars"]


def test_the_menu_lists_the_same_group_first_then_the_others_by_group_and_reward(compare):
    groups = (("b", 0.0), ("c", 0.0), ("a", 0.0), ("a", 1.0), ("b", 0.5))
    rows = [row(group_id=group, reward=reward, ground_truth="41") for group, reward in groups]
    rows[4]["response"] = "Hi <b>"
    seen = offered(compare(*rows, vs="1"))
    assert [one["index"] for one in seen["rows"]] == [4, 3, 2, 1]
    first = {"vs": "4", "index": 4, "reward": "0.5", "advantage": "", "length": "6 chars"}
    first |= {"group": "b", "sameGroup": True, "samePrompt": False, "text": "Hi <b>"}
    assert seen["rows"][0] == first
    assert [one["vs"] for one in seen["texts"]] == ["truth"]


def test_the_menu_finds_rollouts_behind_the_first_ones(compare, monkeypatch):
    monkeypatch.setattr(comparison, "_MOST_ROWS", 2)
    rows = [row(response=f"Answer {n}", reward=-float(n)) for n in range(6)]
    app = compare(*rows, vs="1")
    seen = offered(app)
    assert ([one["index"] for one in seen["rows"]], seen["count"]) == ([1, 2], 5)
    seen = offered(app, run="run", step=0, words="ANSWER 5")
    assert ([one["index"] for one in seen["rows"]], seen["count"]) == ([5], 1)
    assert offered(app, run="run", step=0, words="nothing")["rows"] == []


def test_the_menu_lists_other_steps_and_other_runs(compare, tmp_path):
    write_lines(tmp_path / "other" / "a.jsonl", [row(step=4), row(step=9, prompt="p")])
    age(tmp_path / "other", 60)
    app = compare(row(prompt="p"), row(), row(step=5), vs="1")
    assert [one["vs"] for one in offered(app, run="run", step=5)["rows"]] == ["5:0"]
    other = offered(app, run="other")
    assert (other["step"], other["rows"][0]["vs"]) == (9, "other/9:0")
    assert other["rows"][0]["samePrompt"]
    assert [one["vs"] for one in offered(app, run="other", step=3)["rows"]] == ["other/4:0"]


@pytest.mark.parametrize("wanted", [{"run": "none"}, {"run": 5, "step": "x"}, {"step": [1]}])
def test_a_question_of_the_menu_for_what_is_not_there_is_answered_with_what_is(compare, wanted):
    seen = offered(compare(row(), row(), vs="1"), **wanted)
    assert (seen["run"], seen["step"], len(seen["rows"])) == ("run", 0, 1)


def test_the_whole_prompt_decides_what_is_of_one_prompt(compare):
    prompt = f"{'You are careful. ' * 30}Add 1 and 2."
    other = prompt.replace("1", "7")
    rows = [row(prompt=other if step == 2 else prompt, step=step) for step in (0, 3, 2, 1)]
    assert offered(compare(*rows, vs="1:0"))["promptSteps"] == [0, 1, 3]
