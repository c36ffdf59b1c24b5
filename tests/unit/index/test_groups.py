from __future__ import annotations

from pathlib import Path

import pytest
from written_logs import native_run, rllb_run

from board.analysis.mismatch import mismatch_by_step
from board.analysis.step_tokens import read_step
from board.errors import ChoiceError
from board.index.discovery.discovered_runs import discover
from board.query.environments import environment_curves
from board.query.groups import run_groups, step_grid
from board.query.open_run import Run, open_run

SAMPLES = Path(__file__).parents[3] / "rollout_samples"


@pytest.fixture(scope="module")
def run() -> Run:
    return open_run(discover(SAMPLES).run("resumed"))


def test_groups_without_gradient_are_those_of_the_table_of_steps(run: Run) -> None:
    found = run_groups(run)
    assert found is not None
    shares = run.steps["zero_std_group_fraction"].tolist()
    assert found.by_step.zero_std.tolist() == pytest.approx(shares)


def test_a_run_follows_the_convention_its_settings_name(run: Run) -> None:
    found = run_groups(run)
    assert found is not None
    fits = [found.fit(int(step)) for step in run.steps["step"]]
    assert {fit.of_run.convention for fit in fits if fit} == {"grpo"}  # TRL's scale_rewards="group"
    assert not any(fit.differs.any() for fit in fits if fit)


def test_a_grid_s_cells_are_indices_of_rollouts(run: Run) -> None:
    found, names = step_grid(run, 12)
    rows = run.of_step(12).set_index("index")
    for name, indices, values in zip(names, found.rows, found.values, strict=True):
        for index, value in zip(indices[indices >= 0], values[indices >= 0], strict=True):
            assert rows.loc[index, "group_id"] == name
            assert rows.loc[index, "reward"] == value
    with pytest.raises(ChoiceError, match="no column 'colour'"):
        step_grid(run, 12, "colour")


def test_logs_without_groups_have_none(tmp_path: Path) -> None:
    (info,) = discover(rllb_run(tmp_path / "run")).runs
    run = open_run(info)
    assert run_groups(run) is None
    assert [*environment_curves(run).names] == []


def test_the_mismatch_of_a_step_is_that_of_its_tokens(tmp_path: Path) -> None:
    (info,) = discover(native_run(tmp_path / "run")).runs
    run = open_run(info)
    first = next(mismatch_by_step(run, run.counts))
    tokens = read_step(run, first.step)
    d = tokens.arrays["logprobs"] - tokens.arrays["sampling_logprobs"]
    assert first.parts is not None
    assert first.parts.total.d_mean == pytest.approx(d[tokens.in_loss].mean())
    assert (first.read, first.total) == (8, 8)
    assert {counts.rule for counts in first.rules} == {"ratio_clip", "dppo", "icepop", "tis"}
