from __future__ import annotations

from pathlib import Path

from written_logs import rllb_run

from board.analysis.own_thresholds import default_thresholds, own_thresholds
from board.analysis.token_sample import ROLLOUTS, STEPS, sampled_digests
from board.index.discovery.discovered_runs import RunInfo, discover
from board.query.open_run import open_run

SAMPLES = Path(__file__).parents[3] / "rollout_samples"


def a_run(folder: Path) -> RunInfo:
    (info,) = discover(rllb_run(folder / "run")).runs
    return info


def test_without_a_file_the_thresholds_are_the_packages(tmp_path: Path) -> None:
    found = own_thresholds(a_run(tmp_path))
    assert (found.thresholds, found.path, found.error) == (default_thresholds(), None, "")


def test_a_file_in_the_runs_folder_changes_what_it_names(tmp_path: Path) -> None:
    info = a_run(tmp_path)
    (info.path / "thresholds.toml").write_text("[truncation]\nwarning = 0.1\n")
    found = own_thresholds(info)
    assert found.thresholds["truncation"] == {**default_thresholds()["truncation"], "warning": 0.1}


def test_a_named_file_goes_before_the_one_in_the_folder(tmp_path: Path) -> None:
    info = a_run(tmp_path)
    (info.path / "thresholds.toml").write_text("[truncation]\nwarning = 0.1\n")
    named = tmp_path / "mine.toml"
    named.write_text("[truncation]\nwarning = 0.2\n")
    assert own_thresholds(info, named).thresholds["truncation"]["warning"] == 0.2


def test_a_wrong_file_is_told_and_changes_nothing(tmp_path: Path) -> None:
    info = a_run(tmp_path)
    (info.path / "thresholds.toml").write_text("[truncated]\nwarning = 0.1\n")
    found = own_thresholds(info)
    assert "truncated" in found.error
    assert found.thresholds == default_thresholds()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    info = a_run(tmp_path)
    (tmp_path / "elsewhere").write_text("secret")
    (info.path / "thresholds.toml").symlink_to(tmp_path / "elsewhere")
    assert own_thresholds(info).path is None


def test_a_sample_is_of_few_steps_and_has_the_one_that_is_asked_for() -> None:
    run = open_run(discover(SAMPLES).run("resumed"))
    seen: list[tuple[int, int]] = []
    found = sampled_digests(run, 7, lambda done, total: seen.append((done, total)))
    steps = [digest.step for digest in found]
    assert 7 in steps
    assert len(steps) <= STEPS + 1
    assert all(digest.read <= ROLLOUTS for digest in found)
    assert seen[-1][0] == seen[-1][1] > 0
    assert all(done <= total for done, total in seen)
