"""The trainer's metrics of a run: step_end lines of all ranks, files beside the log, shift, agreement."""

import json
import os

import numpy as np
import pytest
from read_formats import sample_run

from board.analysis.findings import Diagnosis, with_trainer
from board.errors import ExpressionError
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower
from board.query.sql.user_sql import select
from board.query.steps import OWN, own_steps
from board.query.trainer.agreement import agreements
from board.query.trainer.metrics import TrainerMetricsReader, read_trainer_metrics


def header(rank: int, attempt: str = "a", start: int = 1) -> dict:
    first = {"type": "header", "schema": 1, "attempt": attempt, "started": float(start)}
    return {**first, "start_step": start, "world_size": 2, "rank": rank}


def sample(step: int, reward: float = 0.5, **more: object) -> dict:
    texts = {"prompt": f"p{step}", "response": f"{step} {reward} {more}"}
    return {"type": "sample", "step": step, "reward": reward, **texts, **more}


def step_end(step: int, records: int = 1, dropped: int = 0, **metrics: float) -> dict:
    ended = {"type": "step_end", "step": step, "records": records, "dropped": dropped}
    return {**ended, "metrics": metrics}


def table_of(trainer, *names: str) -> dict[int, tuple]:
    table = trainer.table([f"trainer/{name}" for name in names])
    return {int(row[0]): tuple(row[1:]) for row in table.itertuples(index=False)}


def test_metrics_of_step_ends_are_the_mean_over_ranks_with_smallest_and_largest(write_log, opened):
    write_log("0.jsonl", header(0), sample(1, rank=0), step_end(1, loss=1.0, lr=0.1))
    write_log("1.jsonl", header(1), sample(1, rank=1), step_end(1, loss=3.0, lr=0.1))
    trainer = read_trainer_metrics(opened())
    assert table_of(trainer, "loss") == {1: (2.0, 1.0, 3.0)}
    assert table_of(trainer, "lr") == {1: (0.1,)}
    assert trainer.written == {1: (2, 0, 0)}
    assert [source.name for source in trainer.sources] == ["step_end lines"]


def test_what_a_resumed_training_wrote_again_is_left_out(write_log, opened):
    first = [line for s in (1, 2, 3) for line in (sample(s), step_end(s, loss=float(s)))]
    write_log("a.jsonl", header(0), *first)
    again = [line for s in (2,) for line in (sample(s, 0.25), step_end(s, loss=20.0))]
    write_log("b.jsonl", header(0, "b", 2), *again)
    assert table_of(read_trainer_metrics(opened()), "loss") == {1: (1.0,), 2: (20.0,)}


def test_step_ends_are_found_between_lines_of_any_kind(write_log, opened):
    rubbish = b'{"type":"sample","step":1,"rew\n'
    lines = [
        step_end(0, loss=9.0),
        sample(1),
        rubbish,
        step_end(1, loss=1.0),
        step_end(2, loss=2.0),
    ]
    write_log("a.jsonl", header(0), *lines, sample(3), step_end(3, loss=3.0))
    trainer = read_trainer_metrics(opened())
    assert table_of(trainer, "loss") == {0: (9.0,), 1: (1.0,), 2: (2.0,), 3: (3.0,)}


def test_step_ends_of_a_log_that_grows_are_read_on(write_log, opened):
    path = write_log("a.jsonl", header(0), sample(1), step_end(1, loss=1.0))
    reader = TrainerMetricsReader()
    reader.read(opened())
    assert table_of(reader.metrics(opened()), "loss") == {1: (1.0,)}
    with path.open("a") as file:
        for line in (sample(2), step_end(2, loss=2.0)):
            file.write(json.dumps(line) + "\n")
    reader.read(opened())
    assert table_of(reader.metrics(opened()), "loss") == {1: (1.0,), 2: (2.0,)}


def test_a_step_end_line_is_read_once_it_has_ended(write_log, opened):
    path = write_log("a.jsonl", header(0), sample(1), step_end(1, loss=1.0), fresh=True)
    reader = TrainerMetricsReader()
    later = json.dumps(sample(2)) + "\n" + json.dumps(step_end(2, loss=2.0))
    for piece, last in ((later[:-10], 1), (later[-10:], 1), ("\n", 2)):
        with path.open("a") as file:
            file.write(piece)
        reader.read(opened())
        known = {step: (float(step),) for step in range(1, last + 1)}
        assert table_of(reader.metrics(opened()), "loss") == known


@pytest.mark.parametrize("is_followed", [True, False], ids=["followed", "an index made again"])
def test_step_ends_of_a_log_that_was_replaced_go_with_it(write_log, tmp_path, is_followed):
    follower = Follower()

    def run():
        (info,) = discover(tmp_path).runs
        return (follower if is_followed else Follower()).run(info)

    write_log("a.jsonl", header(0), sample(1), step_end(1, loss=1.0), step_end(2, loss=1.0))
    write_log("b.jsonl", header(1), sample(1), step_end(1, loss=3.0))
    reader = TrainerMetricsReader()
    reader.read(run())
    new = [line for step in (1, 3, 4) for line in (sample(step, 0.75), step_end(step, loss=5.0))]
    write_log("a.jsonl", header(0), *new)
    reader.read(run())
    losses = {1: (4.0, 3.0, 5.0), 3: (5.0,) * 3, 4: (5.0,) * 3}
    assert table_of(reader.metrics(run()), "loss") == losses


def test_step_ends_are_found_among_megabytes_that_are_no_rollouts(write_log, opened):
    rubbish = b'{"type":"sample","step":1,"rew' + b"x" * (5 << 20) + b"\n"
    lines = [sample(1), rubbish, step_end(1, loss=1.0), rubbish, sample(2), step_end(2, loss=2.0)]
    write_log("a.jsonl", header(0), *lines)
    assert table_of(read_trainer_metrics(opened()), "loss") == {1: (1.0,), 2: (2.0,)}


def test_step_ends_of_a_rank_without_rollouts_are_read(write_log, opened):
    write_log("0.jsonl", header(0), sample(1, rank=0), step_end(1, loss=1.0))
    write_log("1.jsonl", header(1), step_end(1, records=0, loss=3.0))
    trainer = read_trainer_metrics(opened())
    assert table_of(trainer, "loss") == {1: (2.0, 1.0, 3.0)}
    assert trainer.written == {1: (1, 0, 0)}


@pytest.mark.parametrize(
    "name",
    ["grpo_arithmetic", "grpo_calculator", "grpo_calculator_trl", "grpo_reward_hack", "resumed"],
)
def test_the_bundled_runs_show_loss_and_grad_norm_and_agree_with_their_rollouts(name):
    run = sample_run(name)
    trainer = read_trainer_metrics(run)
    for metric in ("trainer/loss", "trainer/grad_norm"):
        assert trainer.curves[metric].steps.tolist() == list(run.counts)
        assert np.isfinite(trainer.curves[metric].values).all()
    compared = agreements(run, trainer)
    assert compared
    assert not [one.summary for one in compared if one.differs.any()]


def test_every_number_of_a_bundled_log_is_read():
    run = sample_run("grpo_arithmetic")
    expected: dict[str, dict[int, list[float]]] = {}
    for file in run.info.files:
        for text in file.path.read_text().splitlines():
            line = json.loads(text)
            if line.get("type") == "step_end":
                for name, value in line.get("metrics", {}).items():
                    expected.setdefault(name, {}).setdefault(line["step"], []).append(value)
    trainer = read_trainer_metrics(run)
    assert {*trainer.curves} == {f"trainer/{name}" for name in expected}
    for name, by_step in expected.items():
        curve = trainer.curves[f"trainer/{name}"]
        assert curve.steps.tolist() == sorted(by_step)
        np.testing.assert_allclose(curve.values, [np.mean(by_step[s]) for s in sorted(by_step)])


def rollouts(steps=range(1, 21)) -> list[dict]:
    return [sample(s, s * s % 7 + i, index=i) for s in steps for i in (0, 1)]


def metric_lines(first: int, steps=range(1, 21), **more: float) -> list[dict]:
    return [
        {"step": s - 1 + first, "reward": s * s % 7 + 0.5, "loss": 1 / s, **more} for s in steps
    ]


def test_a_trainer_that_counts_from_0_is_moved_to_the_steps_of_the_rollouts(write_log, opened):
    write_log("a.jsonl", *rollouts())
    write_log("metrics.jsonl", *metric_lines(0))
    trainer = read_trainer_metrics(opened())
    (source,) = trainer.sources
    assert (source.shift, source.shift_metric) == (1, "reward")
    assert "moved by +1, by reward" in source.summary
    assert trainer.curves["trainer/loss"].steps.tolist() == list(range(1, 21))


def test_a_shift_that_is_given_counts(write_log, opened):
    write_log("a.jsonl", *rollouts())
    write_log("metrics.jsonl", *metric_lines(0))
    trainer = read_trainer_metrics(opened(), shift=-3)
    assert trainer.curves["trainer/loss"].steps[0] == -3


def test_metrics_that_lie_elsewhere_are_read_where_they_are_said_to_be(write_log, opened, tmp_path):
    write_log("a.jsonl", *rollouts())
    elsewhere = tmp_path.parent / f"{tmp_path.name} metrics"
    for name, loss in (("other", 1.0), (tmp_path.name, 2.0)):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "metrics.jsonl").write_text(
            json.dumps({"step": 1, "loss": loss}) + "\n"
        )
    trainer = read_trainer_metrics(opened(), given=elsewhere)
    assert table_of(trainer, "loss") == {1: (2.0,)}
    one = read_trainer_metrics(opened(), given=elsewhere / "other" / "metrics.jsonl")
    assert table_of(one, "loss") == {1: (1.0,)}


def test_equal_names_of_two_files_are_told_apart_by_the_file(write_log, opened, tmp_path):
    write_log("a.jsonl", *rollouts())
    write_log("x/metrics.jsonl", {"step": 1, "loss": 0.5})
    write_log("y/metrics.jsonl", {"step": 1, "loss": 0.25})
    trainer = read_trainer_metrics(opened())
    assert {name: curve.source for name, curve in trainer.curves.items()} == {
        "trainer/loss": "x/metrics.jsonl",
        "trainer/y/metrics.jsonl/loss": "y/metrics.jsonl",
    }


def test_nan_is_a_gap_that_is_counted(write_log, opened):
    write_log("a.jsonl", *rollouts())
    write_log("metrics.jsonl", b'{"step": 1, "loss": NaN}\n{"step": 2, "loss": 0.5}\n')
    trainer = read_trainer_metrics(opened())
    np.testing.assert_array_equal(trainer.curves["trainer/loss"].values, [np.nan, 0.5])
    (problem,) = trainer.problems
    assert (problem.severity, problem.count) == ("note", 1)
    assert "gaps" in problem.reason


def test_another_run_whose_mean_differs_is_a_finding_when_it_persists(write_log, opened):
    write_log("a.jsonl", *rollouts())
    lines = [{**line, "reward": line["reward"] + 1} for line in metric_lines(1)]
    write_log("metrics.jsonl", *lines)
    run = opened()
    compared = agreements(run, read_trainer_metrics(run))
    (finding,) = with_trainer(Diagnosis((), 0, 20, 0), compared).findings
    assert (finding.rule, finding.severity) == ("trainer_differs", "warning")
    assert "differ at 20 of 20 steps" in finding.text
    few = [line if s > 3 else lines[s] for s, line in enumerate(metric_lines(1))]
    os.utime(write_log("metrics.jsonl", *few))
    run = opened()
    compared = agreements(run, read_trainer_metrics(run))
    assert with_trainer(Diagnosis((), 0, 20, 0), compared).findings == ()


def test_missing_rollouts_are_counted_by_what_the_exporter_wrote(write_log, opened):
    lines = [
        line
        for s in range(1, 11)
        for line in (sample(s, s % 3), step_end(s, 1, 1, reward=s % 3 + 0.5))
    ]
    write_log("a.jsonl", header(0), *lines)
    run = opened()
    (one,) = agreements(run, read_trainer_metrics(run))
    assert one.words(0) == "trainer 1.5, rollouts 1 over 1 of 2 recorded: 1 is missing"


def test_a_trainer_that_logs_every_few_steps_is_compared_with_the_mean_of_these(write_log, opened):
    rewards = {s: (s % 3) / 4 for s in range(1, 31)}
    write_log("a.jsonl", *(sample(s, reward) for s, reward in rewards.items()))
    logged = {s: float(np.mean([rewards[s - back] for back in range(5)])) for s in range(5, 31, 5)}
    write_log("metrics.jsonl", *({"step": s, "reward": mean} for s, mean in logged.items()))
    run = opened()
    (one,) = agreements(run, read_trainer_metrics(run))
    assert (one.steps.tolist(), one.counts.tolist()) == ([*logged], [5] * 6)
    assert one.weighting == "rollouts, of the steps since the last point"
    assert not one.differs.any()


@pytest.mark.parametrize("is_sampled", [False, True])
def test_a_part_of_the_rollouts_may_have_another_mean(write_log, opened, is_sampled):
    left_out = {"sampled_out": 3} if is_sampled else {}
    lines = [
        line
        for s in range(1, 11)
        for line in (sample(s, s % 3), {**step_end(s, 1, 0, reward=s % 3 + 0.5), **left_out})
    ]
    write_log("a.jsonl", header(0), *lines)
    run = opened()
    compared = agreements(run, read_trainer_metrics(run))
    assert compared[0].differs.all()
    found = with_trainer(Diagnosis((), 0, 10, 0), compared).findings
    assert [finding.rule for finding in found] == ([] if is_sampled else ["trainer_differs"])


def test_rollouts_of_an_evaluation_are_not_taken_for_missing_ones(write_log, opened):
    lines = [
        line
        for s in range(1, 11)
        for line in (sample(s), sample(s, split="eval"), step_end(s, 3, reward=1.0))
    ]
    write_log("a.jsonl", header(0), *lines)
    run = opened()
    (one,) = agreements(run, read_trainer_metrics(run))
    assert "missing" not in one.words(0)


def test_another_version_has_other_steps_or_another_spread(write_log, opened):
    write_log("a.jsonl", *rollouts(range(1, 4)))
    write_log("metrics.jsonl", {"step": 1, "loss": 2.0})
    run, reader = opened(), TrainerMetricsReader()
    reader.read(run)
    versions = {reader.metrics(run, shift).version for shift in (0, 1, 1)}
    assert len(versions) == 2


def test_means_over_tokens_are_weighted_by_the_tokens_in_the_loss(write_log, opened):
    def rollout(step: int, entropy: list[float], mask: list[int]) -> dict:
        ids = list(range(len(entropy)))
        arrays = {"response_ids": ids, "entropy": entropy, "loss_mask": mask}
        return sample(step, 0.5, **arrays)

    lines = []
    for step in range(1, 11):
        lines += [
            rollout(step, [step, step, 9.0], [1, 1, 0]),
            rollout(step, [4.0], [1]),
            step_end(step, 2, entropy=(2 * step + 4) / 3, **{"completions/mean_length": 1.5}),
        ]
    write_log("a.jsonl", header(0), *lines)
    run = opened()
    length, entropy = agreements(run, read_trainer_metrics(run))
    assert (entropy.weighting, entropy.differs.any()) == ("tokens", np.False_)
    assert (length.weighting, length.differs.any()) == ("rollouts, tokens in the loss", np.False_)


def test_own_curves_may_use_the_trainers_metrics(write_log, opened):
    write_log("a.jsonl", *rollouts(range(1, 4)))
    write_log("metrics.jsonl", {"step": 1, "loss": 2.0}, b'{"step": 2, "loss": NaN}\n')
    run = opened()
    curves = read_trainer_metrics(run).curves
    of_steps = {name: (curve.steps, curve.values) for name, curve in curves.items()}
    table = own_steps(run, 'reward * col("trainer/loss")', of_steps)
    means = table[f"{OWN}_mean"].tolist()
    assert means[0] == 3.0
    assert np.isnan(means[1:]).all()
    with pytest.raises(ExpressionError):
        own_steps(run, 'col("trainer/nothing")', of_steps)


def test_sql_has_a_row_for_each_point(write_log, opened):
    write_log("a.jsonl", *rollouts())
    write_log("metrics.jsonl", b'{"step": 1, "loss": NaN, "lr": 0.1}\n')
    run = opened()
    trainer = read_trainer_metrics(run)
    rows = select(run, "from metrics order by name", trainer=trainer).to_pylist()
    common = {"step": 1, "source": "metrics.jsonl"}
    assert rows == [
        {**common, "name": "trainer/loss", "value": None},
        {**common, "name": "trainer/lr", "value": 0.1},
    ]
    assert select(run, "select count(*) as n from metrics").to_pylist() == [{"n": 0}]
