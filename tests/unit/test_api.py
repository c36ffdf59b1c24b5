"""`board.open_run`: frames that agree with the command line and the log; what is missing is no number."""

import contextlib
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_logs import native_run, native_sample, write_lines

import board
from board import cli
from board.api import OpenRun
from board.errors import ChoiceError, ExpressionError, NotFoundError


@pytest.fixture(scope="module")
def run() -> OpenRun:
    return board.open_run("grpo_reward_hack")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> OpenRun:
    return board.open_run(native_run(tmp_path_factory.mktemp("native") / "run"))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict]:
    assert cli.main([*arguments, "--json"]) in (0, 1)
    document = json.loads(capsys.readouterr().out)
    return document.get("rows", document)


def test_frames_have_the_numbers_of_the_command_line(capsys):
    resumed = board.open_run("resumed")
    steps = pd.DataFrame(printed(capsys, "steps", "resumed"))
    columns = ["step", "rollouts", "reward_mean", "reward_se", "k3_mean"]
    pd.testing.assert_frame_equal(resumed.steps[columns], steps[columns], check_dtype=False)
    rows = printed(
        *(capsys, "rollouts", "resumed", "--where", "reward > 0.5", "--sort", "k3_max"),
        *("--desc", "--limit", "5"),
    )
    own = resumed.rollouts("reward > 0.5", sort="k3_max", descending=True, limit=5)
    assert own["index"].tolist() == [row["index"] for row in rows]
    assert own["k3_max"].tolist() == [row["k3_max"] for row in rows]
    assert own["file"].tolist() == [row["file"] for row in rows]
    logged = pd.DataFrame(printed(capsys, "metrics", "resumed"))
    assert resumed.metrics()["trainer/loss"].tolist() == logged["trainer/loss"].tolist()


def test_findings_are_those_of_the_command_line_with_tokens_read(run, capsys):
    findings = printed(capsys, "findings", "grpo_reward_hack")
    own = run.findings()
    assert own["rule"].tolist() == [one["rule"] for one in findings]
    assert own["evidence"].tolist() == [one["evidence"] for one in findings]
    assert [*own.columns] == [*findings[0]]
    assert any(own["evidence"])


def test_tokens_of_a_rollout_stand_beside_their_metrics(native):
    rollout = native.rollout(20, 3)
    logged = native_sample(20, 0, 3)
    assert rollout.texts["response"] == logged["response"]
    assert rollout.facts["reward"] == pytest.approx(logged["reward"])
    tokens = rollout.tokens
    assert tokens["token"].tolist() == [*range(8)]
    assert tokens["piece"].tolist()[:2] == ["I", " think"]
    np.testing.assert_allclose(tokens["logprobs"], logged["logprobs"])
    d = np.array(logged["logprobs"]) - np.array(logged["ref_logprobs"])
    np.testing.assert_allclose(tokens["k3"], np.exp(-d) - 1 + d)
    assert tokens["entropy"].iloc[2] == pytest.approx(0.4)


def test_what_the_log_does_not_hold_is_missing_and_not_zero(tmp_path):
    rows = [
        {"step": 1, "prompt": "p", "response": "a", "reward": 1.0, "logprobs": [-1.0, None]},
        {"step": 1, "prompt": "p", "response": "b", "reward": None},
    ]
    run = board.open_run(write_lines(tmp_path / "run" / "log.jsonl", rows).parent)
    assert run.rollouts()["reward"].isna().tolist() == [False, True]
    assert run.steps["reward_mean"].tolist() == [1.0]
    assert run.steps["reward_n"].tolist() == [1]
    assert np.isnan(run.rollout(1, 0).tokens["logprobs"].iloc[1])
    assert "reward" not in run.rollout(1, 1).facts
    assert len(run.rollout(1, 1).tokens) == 0
    assert run.failures()["cause"].tolist() == ["unscored"]
    assert len(run.groups()) == len(run.metrics()) == 0
    assert "k3_mean" not in run.steps


def test_an_array_of_another_length_is_left_out_and_named(tmp_path):
    row = {"step": 1, "response": "ab", "response_tokens": ["a", "b"]}
    row |= {"logprobs": [-1.0, -2.0], "entropy": [0.5]}
    run = board.open_run(write_lines(tmp_path / "run" / "log.jsonl", [row]).parent)
    rollout = run.rollout(1, 0)
    assert "entropy" not in rollout.tokens
    assert any("entropy has 1 values for 2 tokens" in remark for remark in rollout.remarks)


def test_means_are_of_training_unless_another_split_is_chosen(tmp_path):
    rows = [
        {"step": 1, "split": split, "group_id": "g", "prompt": "p", "response": "r", "reward": r}
        for split, r in (("train", 0.0), ("train", 1.0), ("eval", 9.0))
    ]
    run = board.open_run(write_lines(tmp_path / "run" / "log.jsonl", rows).parent)
    assert run.steps["reward_mean"].tolist() == [0.5]
    assert run.where(split="eval").steps["reward_mean"].tolist() == [9.0]
    assert run.where("reward > 0", split="all").steps["reward_mean"].tolist() == [5.0]
    assert run.where("reward > 0").groups()["reward_mean"].tolist() == [1.0]
    assert len(run.rollouts()) == len(run.sql("select * from rollouts")) == 3
    with pytest.raises(ChoiceError, match="no split 'test'"):
        run.where(split="test")


def test_groups_and_prompts_agree_with_the_rollouts(run):
    rollouts = run.rollouts(whole_texts=True)
    groups, by_group = run.groups(30), rollouts[rollouts["step"] == 30].groupby("group_id")
    assert groups["group_id"].tolist() == [*by_group.groups]
    np.testing.assert_allclose(groups["reward_mean"], by_group["reward"].mean())
    np.testing.assert_allclose(groups["reward_std"], by_group["reward"].std(ddof=0), atol=1e-12)
    prompts = run.prompts().set_index("prompt")
    expected = rollouts.groupby("prompt")
    assert prompts["rollouts"].to_dict() == expected.size().to_dict()
    assert prompts["steps"].to_dict() == expected["step"].nunique().to_dict()
    failures = run.failures()
    truncated = rollouts[rollouts["cause"] == "truncated"].groupby("step").size()
    assert failures.set_index("step")["rollouts"].to_dict() == truncated.to_dict()
    assert (failures["share"] == failures["rollouts"] / 32).all()


def test_whole_texts_are_whole_and_columns_are_those_that_were_asked_for(tmp_path):
    row = {"step": 1, "prompt": "p", "response": "word " * 5000, "ground_truth": "4"}
    run = board.open_run(write_lines(tmp_path / "run" / "log.jsonl", [row]).parent)
    columns = ["response", "ground_truth"]
    assert len(run.rollouts(columns=["response"])["response"][0]) < 5000
    whole = run.rollouts(columns=columns, whole_texts=True)
    assert [*whole] == columns
    assert whole.iloc[0].tolist() == [row["response"], "4"]


def test_a_mistake_names_what_there_is(native, tmp_path):
    with pytest.raises(ExpressionError, match="did you mean reward"):
        native.rollouts("rewrd > 1")
    with pytest.raises(ChoiceError, match="did you mean reward"):
        native.rollouts(columns=["rewrd"])
    with pytest.raises(ChoiceError, match="no environment 'maths'"):
        native.where(envs=["maths"])
    with pytest.raises(NotFoundError, match="rollouts 0 to 7"):
        native.rollout(0, 99)
    with pytest.raises(NotFoundError):
        board.list_runs(tmp_path / "none")


def test_runs_are_listed_with_what_opens_them():
    samples = Path(board.__file__).parents[1] / "rollout_samples"
    listed = board.list_runs(samples).set_index("run")
    assert board.open_run(listed.loc["resumed", "path"]).name == "resumed"
    assert (listed["bytes"] > 0).all()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda run: run.rollouts(limit=-1), "limit=-1 is too small; give 0 or more"),
        (lambda run: run.rollouts(limit=2.5), "give a whole number"),
        (lambda run: run.rollouts(limit=2**70), "is too large"),
        (lambda run: run.rollouts(columns=[]), "columns=[] names no column"),
        (lambda run: run.where(envs=None), "envs has None"),
        (lambda run: run.rollouts(columns="reward"), "columns=['reward']"),
        (lambda run: run.rollouts(columns=[1]), "give a list of names"),
        (lambda run: run.rollouts(5), "where=5 is of the type int; give a text"),
        (lambda run: run.rollouts(sort=["reward"]), "give a text such as 'reward'"),
        (lambda run: run.where(steps=5), "steps=(5, 5)"),
        (lambda run: run.where(steps=(5,)), "give the first and the last step"),
        (lambda run: run.where(steps=(20, 0)), "give (0, 20)"),
        (lambda run: run.where(envs="math"), "envs=['math']"),
        (lambda run: run.where(split=1), "split=1"),
        (lambda run: run.rollout("40", 3), "step='40' is of the type str; give a whole number"),
        (lambda run: run.rollout(0, 1.0), "index=1.0"),
        (lambda run: run.groups("x"), "give a whole number"),
        (lambda run: run.groups(77), "step 77 is not in run"),
        (lambda run: run.failures(by="steps"), "did you mean step?"),
        (lambda run: run.sql(7), "give a text"),
        (lambda run: run.sql("select '\ud800'"), "half a character"),
        (lambda run: run.sql("select 1", timeout=1e30), "give seconds"),
        (lambda run: run.sql("select 1", timeout=0), "give seconds"),
        (lambda run: board.open_run(7), "give a path"),
        (lambda run: board.list_runs(None), "give a path"),
        (lambda run: board.list_runs("\ud800"), "half a character"),
        (lambda run: board.open_run("resumed", np.arange(2)), "give a text"),
        (lambda run: board.open_run("resumed", right_from="x"), "give a finite number"),
    ],
)
def test_every_wrong_argument_is_a_board_error_that_says_what_to_give(native, ask, words):
    with pytest.raises(board.errors.BoardError, match=re.escape(words)):
        ask(native)


def test_the_last_line_of_a_notebook_is_a_line(native):
    rollout = native.rollout(20, 3)
    for shown in (native, native.where("reward > 0", split="all"), rollout):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 250
        assert len(shown._repr_html_()) < 5000
    assert "<think>" not in native.rollout(20, 3)._repr_html_()
    assert "reward" in repr(rollout)


def test_types_do_not_depend_on_which_rows_and_columns_are_chosen(tmp_path):
    rows = [
        {"step": step, "response": "r", "seed": seed, "reward": 1.0, "turns_left": None}
        for step, seed in ((1, 3), (1, 2**60 + 1), (2, 5), (2, None))
    ]
    run = board.open_run(write_lines(tmp_path / "run" / "log.jsonl", rows).parent)
    types = run.rollouts().dtypes
    for where in ("", "step == 1", "step == 2", "reward > 9"):
        chosen = run.rollouts(where)
        assert chosen.dtypes.to_dict() == types.to_dict(), where
        for name in chosen:
            assert run.rollouts(where, columns=[name]).dtypes[name] == types[name]
    assert run.rollouts()["seed"].dropna().tolist() == [3, 2**60 + 1, 5]


ANYTHING = st.one_of(
    *(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=6),
        st.binary(max_size=2),
    ),
    st.lists(st.none() | st.integers() | st.text(max_size=3), max_size=3),
    st.tuples(st.integers(), st.integers()),
    st.just(np.arange(2)),
    st.just({"a": 1}),
)
NEEDED = {"step": 20, "index": 0, "statement": "select 1"}
ASKED = [
    (name, parameter)
    for name, method in vars(OpenRun).items()
    if inspect.isfunction(method) and not name.startswith("_") and name != "findings"
    for parameter in [*inspect.signature(method).parameters][1:]
]


@given(asked=st.sampled_from(ASKED), value=ANYTHING)
def test_whatever_is_given_is_answered_or_refused_by_a_board_error(native, asked, value):
    name, parameter = asked
    method = getattr(native, name)
    needed = {key: NEEDED[key] for key in inspect.signature(method).parameters if key in NEEDED}
    with contextlib.suppress(board.errors.BoardError):
        method(**needed | {parameter: value})
