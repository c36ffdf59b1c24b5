"""Trajectories in ATIF and Harbor's trials: every trial is one rollout, whatever files tell it."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from read_formats import DATA, opened, records, run_at, values_of

from board.analysis.audit import audit_all

JOB = DATA / "harbor" / "2026-11-01__09-59-50"
TRIALS = ("sort__b3", "sort__b4", "sum__a1", "sum__a2")


@pytest.fixture
def job(tmp_path) -> Path:
    return Path(shutil.copytree(JOB, tmp_path / "job"))


def test_each_trial_is_one_rollout_of_its_task_with_the_verifiers_reward():
    rollouts = [*map(values_of, records(run_at(JOB)))]
    assert [one["rollout_id"] for one in rollouts] == [*TRIALS]
    results = [json.loads((JOB / trial / "result.json").read_text()) for trial in TRIALS]
    assert [one["group_id"] for one in rollouts] == [one["task_name"] for one in results]
    verdicts = [one["verifier_result"] or {"rewards": {"reward": None}} for one in results]
    assert [one.get("reward") for one in rollouts] == [v["rewards"]["reward"] for v in verdicts]
    causes = run_at(JOB).frame(["cause"])["cause"].fillna("none").tolist()
    assert causes == ["judge", "sandbox", "none", "policy"]


def test_seconds_tokens_and_cost_are_those_of_the_trial():
    frame = run_at(JOB).frame(["rollout_id", "seconds", "env_s", "agent_s", "reward_s", "cost"])
    assert frame["seconds"].tolist() == [40.0] * 4
    assert frame["env_s"].tolist() == [8.0] * 4
    assert frame["agent_s"].isna().tolist() == [False, True, False, False]
    assert frame["reward_s"].dropna().tolist() == [18.0] * 3
    assert frame["cost"].dropna().tolist() == [0.003] * 3


def test_tokens_of_all_calls_are_one_sequence_where_each_goes_on_from_the_one_before():
    rollout = values_of(opened(run_at(JOB))[2].record)
    assert rollout["prompt_ids"] == [11, 12, 13, 14, 15, 16]
    assert rollout["response_ids"] == [21, 22, 23, 31, 32, 41, 42]
    assert rollout["loss_mask"] == [1, 1, 1, 0, 0, 1, 1]


def test_tokens_of_calls_whose_history_changed_are_those_that_were_sampled_and_it_is_said():
    rollout = values_of(opened(run_at(JOB))[3].record)
    assert rollout["response_ids"] == [21, 22, 23, 41, 42]
    said = [problem.reason for problem in run_at(JOB).problems]
    assert "prompts are not shown: the history changed between model calls" in said


def test_what_a_trajectory_refers_to_is_told_where_it_refers_to_it():
    said = [str(message["content"]) for message in opened(run_at(JOB))[3].record.messages]
    places = [
        next(i for i, text in enumerate(said) if part in text)
        for part in (
            "You work in a shell.",
            "1 failed, 3 passed",
            "The conversation was summarized.",
            "Summarize what was done so far.",
            "One test fails;",
            "Sum was off by one;",
        )
    ]
    assert places == sorted(places)
    assert len({*said}) == len(said), "a copied step is told again"
    said = [str(message["content"]) for message in opened(run_at(JOB))[2].record.messages]
    after = said.index("The helper has answered.")
    assert said[after + 1 : after + 3] == [
        "Look up how sums are tested.",
        "They are compared with math.fsum.",
    ]


def test_a_file_that_is_referred_to_and_is_not_there_is_named(job):
    (job / "sum__a2" / "agent" / "trajectory.cont-1.json").unlink()
    said = [problem.reason for problem in run_at(job).problems]
    assert "a file that the trajectory refers to can't be read" in said


@pytest.mark.parametrize("content", ["", "{", "[]", '{"verifier_result": 3}'])
def test_a_result_that_can_not_be_used_leaves_a_rollout_without_a_reward(job, content):
    (job / "sum__a1" / "result.json").write_text(content)
    told = [*map(values_of, records(run_at(job)))]
    (rollout,) = [one for one in told if one["rollout_id"] in ("t-1", "sum__a1")]
    assert rollout.get("reward") is None
    assert "Sum was off by one" in rollout["response"]


def test_a_reference_never_leads_out_of_the_folder(job):
    path = job / "sum__a2" / "agent" / "trajectory.json"
    document = json.loads(path.read_text())
    document["continued_trajectory_ref"] = "../../sum__a1/agent/trajectory.json"
    path.write_text(json.dumps(document))
    told = [r for r in map(values_of, records(run_at(job))) if r["rollout_id"] == "sum__a2"]
    assert told
    assert not any("helper" in rollout["response"] for rollout in told)


TEXTS = st.text(st.characters(codec="utf-8"), min_size=12, max_size=40)
STEPS = st.builds(
    dict,
    source=st.sampled_from(["user", "agent", "system"]),
    message=TEXTS,
    observation=st.none()
    | st.builds(dict, results=st.lists(st.builds(dict, content=TEXTS), max_size=3)),
    extra=st.none() | st.builds(dict, note=TEXTS),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=1, max_size=6), below=st.lists(STEPS, max_size=3))
def test_every_text_of_any_trajectory_is_shown(tmp_path_factory, steps, below):
    folder = tmp_path_factory.mktemp("atif")
    numbered = [{"step_id": n, **step} for n, step in enumerate(steps, 1)]
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "a"}, "steps": numbered}
    if below:
        inner = [{"step_id": n, **step, "extra": None} for n, step in enumerate(below, 1)]
        agent = {"trajectory_id": "b", "agent": {"name": "b"}, "steps": inner}
        document["subagent_trajectories"] = [{"schema_version": "ATIF-v1.7", **agent}]
    (folder / "trajectory.json").write_text(json.dumps(document))
    run = run_at(folder)
    assert run.rollout_count == 1
    assert audit_all(run, lambda done, total: None).problems == ()
