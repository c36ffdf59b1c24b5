"""Small logs that were read wrongly, each right now in every number of the text beside it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_formats import collection, info_at, records, values_of

from board.analysis.audit import audit_all
from board.analysis.findings import diagnose
from board.cli import main
from board.formats.messages import message_text
from board.query.open_run import Follower, Run
from board.query.trainer.metrics import read_trainer_metrics

CASES = collection().parent / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside the checkout")


@pytest.fixture
def case(tmp_path, request) -> Path:
    """A copy of the case that the test is called by: reading writes beside a log."""
    (found,) = CASES.glob(f"*/{request.param}")
    copied = Path(shutil.copytree(found, tmp_path / "case"))
    for path in copied.rglob("*"):
        path.chmod(0o755)
    return copied


def of_case(name: str) -> Any:
    return pytest.mark.parametrize("case", [name], indirect=True)


def read(folder: Path) -> Run:
    run = Follower().run(info_at(folder))
    assert audit_all(run, lambda done, total: None).problems == ()
    return run


def told(run: Run) -> list[dict[str, Any]]:
    return [*map(values_of, records(run))]


@of_case("01_rllm_telemetry_output_lost")
def test_answers_of_telemetry_are_there(case):
    first, second = told(read(case))
    assert first["prompt"] == "How many legs has a spider?"
    assert first["response"] == "A spider has eight legs."
    assert (first["ground_truth"], second["ground_truth"]) == ("eight", "Jupiter")
    assert (first["reward"], second["reward"]) == (1.0, 0.0)


@pytest.mark.parametrize("name", ["rllb", "generic", "typed"])
@of_case("02_metric_lines_become_rollouts")
def test_lines_of_metrics_are_no_rollouts(case, name):
    run = read(case / name)
    assert dict(run.counts) == dict.fromkeys(run.counts, 4)
    assert run.rollout_count == 12
    assert any("no rollout" in problem.reason for problem in run.problems)


@of_case("04_atropos_decoded_messages_lost")
def test_decoded_texts_are_shown(case):
    assert ["Yes, of course." in one["response"] for one in told(read(case))] == [True, False]


@of_case("05_swe_agent_last_step_lost")
def test_the_last_step_of_an_agent_is_shown(case):
    (rollout,) = records(read(case))
    last = [message for message in rollout.messages if message["role"] == "assistant"][-1]
    assert last["content"] == "The sum is right now, so I hand it in."
    assert "submit" in json.dumps(last["tool_calls"])


@of_case("06_step_and_prompt_without_response")
def test_a_response_of_another_name_is_found(case):
    run = read(case)
    assert run.info.formats != ("rllb",)
    assert all(one["response"] and one["reward"] == 1.0 for one in told(run))


@of_case("08_lm_eval_error_metric_as_reward")
def test_an_error_is_no_reward_and_the_prompt_is_the_chat(case):
    rollouts = told(read(case))
    assert [one.get("reward") for one in rollouts] == [None] * 5
    assert [one["rewards.mae"] for one in rollouts] == [3.0 * n for n in range(5)]
    assert rollouts[1]["prompt"] == "[user]\nEstimate the value of item 1."


@of_case("09_truncated_gzip_is_silent")
def test_a_packed_file_that_is_cut_off_is_lost(case):
    run = Follower().run(info_at(case))
    assert 0 < run.rollout_count < 2000
    assert "lost" in [problem.severity for problem in run.problems]


@of_case("10_ten_thousand_files_crash")
def test_ten_thousand_files_open(case, tmp_path):
    subprocess.run(["sh", str(case / "make.sh"), str(tmp_path / "many")], check=True, cwd=tmp_path)
    run = Follower().run(info_at(tmp_path / "many"))
    assert run.rollout_count == 10_000


@of_case("11_suggested_mapping_gives_nothing")
def test_names_with_a_prefix_or_suffix_are_understood(case):
    grpo, ppo = (told(read(case / name)) for name in ("grpo", "ppo"))
    for rollouts in (grpo, ppo):
        assert all(one["response"] and "reward" in one and "group_id" in one for one in rollouts)
    assert all("response_ids" in one for one in ppo)


@pytest.mark.parametrize("name", ["turns/trajectories.jsonl", "api/interactions.jsonl"])
@of_case("11_suggested_mapping_gives_nothing")
def test_no_mapping_is_suggested_that_gives_no_text(case, name, capsys):
    main(["sniff", str(case / name)])
    assert "prompt -, response -" not in capsys.readouterr().out


@of_case("13_evalplus_of_early_versions")
def test_verdicts_of_early_versions_are_read(case):
    rollouts = told(read(case))
    tasks = [one["group_id"] for one in rollouts]
    assert {task: tasks.count(task) for task in tasks} == dict.fromkeys(tasks, 2)
    assert {one["base_status"] for one in rollouts} == {"failed", "success"}


@of_case("14_nemo_gym_transitions_lose_tokens_and_prompt")
def test_transitions_have_their_prompt_and_tokens(case):
    (rollout,) = told(read(case))
    assert rollout["prompt"] == "[user]\nHow much is three times four?"
    assert rollout["response"] == "It is twelve."
    assert rollout["sampling_logprobs"] == [-0.5, -0.25, -0.125]


@of_case("15_nemo_gym_browser_trajectory_lost")
def test_steps_in_a_browser_are_messages(case):
    (rollout,) = records(read(case))
    assert "two persons please" in json.dumps(rollout.messages)


@of_case("03_two_weight_versions")
def test_versions_of_weights_are_a_column(case):
    run = read(case / "run")
    versions = run.frame(["weight_versions"])["weight_versions"].map(json.loads).map(len)
    assert versions.value_counts().to_dict() == {1: 40, 2: 40}


@of_case("05_sparse_none_rewards")
def test_functions_that_abstain_leave_the_sum_of_the_others(case):
    run = read(case / "run")
    frame = run.frame(["step", "reward", "rewards.math_reward", "rewards.code_reward"])
    parts = frame[["rewards.math_reward", "rewards.code_reward"]]
    np.testing.assert_allclose(frame["reward"], parts.sum(axis=1), rtol=1e-12)
    counts = frame.groupby("step")["rewards.math_reward"].count()
    assert counts.tolist() == [16 if step in (3, 6) else 8 for step in counts.index]


@of_case("09_images_dropped")
def test_images_that_the_trainer_did_not_see_are_a_severe_mismatch(case):
    run = read(case / "run")
    assert (run.rollout_count, len(run.counts)) == (144, 12)
    rows = [*map(json.loads, (case / "run" / "rollouts.jsonl").read_text().splitlines())]
    drops = {"logprobs": [], "sampling_logprobs": []}
    for rollout, row in zip(records(run), rows, strict=True):
        assert message_text(rollout.messages[0]).startswith("[image png 84 B]")
        for name, values in drops.items():
            np.testing.assert_array_equal(rollout.tokens[name].values(), row[name])
            values.append(row[name][5])  # of the colour
    drop = np.subtract(*drops.values()).reshape(12, 12).mean(axis=1)
    assert np.all(drop[:6] < -4)
    assert np.all(np.abs(drop[6:]) < 0.1)
    (severe,) = (one for one in diagnose(run).findings if one.severity != "lead")
    assert (severe.rule, severe.severity) == ("mismatch", "severe")
    assert (severe.first_step, severe.last_step) == (1, 6)
    assert "drift" not in f"{severe.title} {severe.text}".lower()
    assert {one.token for one in severe.evidence} == {5}  # a colour


@of_case("14_resumed_metrics")
def test_steps_of_a_second_start_have_one_value_and_the_first_ones_are_set_aside(case):
    run = read(case / "run")
    assert (run.rollout_count, run.superseded) == (240, 40)
    assert dict(run.counts) == dict.fromkeys(range(1, 31), 8)
    assert run.rows.files.restarted_at == [21]
    lines = [*map(json.loads, (case / "run" / "rollouts.jsonl").read_text().splitlines())]
    expected = {s: [x["timestamp"] for x in lines if x["step"] == s][-8:] for s in run.counts}
    found = run.rollouts.groupby("step")["timestamp"].apply(list).to_dict()
    assert found == expected
    metrics = [*map(json.loads, (case / "run" / "metrics.jsonl").read_text().splitlines())]
    table = read_trainer_metrics(run).table(["trainer/loss"])
    assert dict(table.itertuples(index=False)) == {one["step"]: one["loss"] for one in metrics}


@of_case("10_stepwise_rows")
def test_rows_of_turns_are_rollouts_in_groups_of_four(case):
    run = read(case / "run")
    assert run.rollout_count == 160
    assert run.frame(["reward"])["reward"].mean() == pytest.approx(0.475, abs=1e-12)


@of_case("17_harbor_atif")
def test_a_job_of_harbor_is_three_rollouts_of_one_task(case):
    run = read(case / "job")
    names = ["group_id", "reward", "cause", "seconds", "cost", "input_tokens", "output_tokens"]
    frame = run.frame(names)
    assert frame["group_id"].nunique() == 1
    assert frame["reward"].fillna(-1).tolist() == [1.0, 0.0, -1.0]
    assert frame["cause"].fillna("").tolist() == ["", "policy", "judge"]
    assert frame["seconds"].tolist() == [20.0] * 3
    assert frame["cost"].tolist() == [0.002] * 3
    assert (frame["input_tokens"] + frame["output_tokens"]).tolist() == [305] * 3


@of_case("18_otlp_spans")
def test_spans_of_an_agent_are_one_rollout_with_its_times(case):
    (rollout,) = told(read(case / "run"))
    assert (rollout["step"], rollout["reward"], rollout["output_tokens"]) == (3, 0.0, 49.0)
    assert [rollout[name] for name in ("seconds", "tool_s", "generate_s")] == [30.0, 22.0, 8.0]


def test_every_case_about_reading_has_a_test_here():
    text = Path(__file__).read_text("utf-8")
    named = [folder.name for folder in (CASES / "logs").iterdir()]
    assert [name for name in named if f'"{name}"' not in text] == []
