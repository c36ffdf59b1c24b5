from __future__ import annotations

import json
from pathlib import Path

import pytest
from faults.plant import go_in_circles, shift_logprobs
from faults.scene import AT, clean
from written_logs import rllb_run, texts_only_run, write_lines

from board import cli
from board.analysis.findings import Budget, diagnose
from board.analysis.own_thresholds import read_thresholds
from board.errors import UnreadableError
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run


def opened(folder: Path) -> Run:
    (info,) = discover(folder).runs
    return open_run(info)


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = clean()
    shift_logprobs(log)
    return log.write(tmp_path_factory.mktemp("faults") / "run")


def test_a_small_budget_still_tells_the_first_step_exactly(shifted: Path) -> None:
    found = diagnose(opened(shifted), budget=Budget(rollouts=16, bytes=200_000))
    assert found.steps_read < found.steps
    assert [f.first_step for f in found.findings if f.rule == "misaligned"] == [AT]


def test_progress_never_goes_beyond_what_is_to_read(shifted: Path) -> None:
    seen: list[tuple[int, int]] = []
    diagnose(opened(shifted), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0
    assert all(done <= total for done, total in seen)


def test_without_tokens_no_rule_speaks_of_them(shifted: Path) -> None:
    found = diagnose(opened(shifted), tokens=False)
    assert found.rollouts_read == 0
    assert {f.rule for f in found.findings} == {"kl_spike"}


@pytest.mark.parametrize("write", [rllb_run, texts_only_run])
def test_logs_without_most_fields_have_no_findings(write: object, tmp_path: Path) -> None:
    assert diagnose(opened(write(tmp_path / "run"))).findings == ()  # type: ignore[operator]


def test_a_trajectory_cut_into_samples_is_no_duplicate(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "rollout_id": "a", "prompt": "p", "response": f"turn {i}", "reward": 1.0}
        for i in range(3)
    ]
    run = opened(write_lines(tmp_path / "run" / "a.jsonl", rows).parent)
    assert not [f for f in diagnose(run).findings if f.rule == "duplicated_rollouts"]


def test_the_same_id_in_training_and_evaluation_is_no_duplicate(tmp_path: Path) -> None:
    rows = [
        {
            "step": 1,
            "rollout_id": "a",
            "split": split,
            "prompt": "p",
            "response": "r",
            "reward": 1.0,
        }
        for split in ("train", "eval", "eval")
    ]
    run = opened(write_lines(tmp_path / "run" / "a.jsonl", rows).parent)
    (found,) = (f for f in diagnose(run).findings if f.rule == "duplicated_rollouts")
    assert [e.index for e in found.evidence] == [2]


def test_the_command_exits_by_severity_and_prints_one_document(
    shifted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["findings", str(shifted), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["severe"] == sum(f["severity"] == "severe" for f in document["findings"])
    first = next(f for f in document["findings"] if f["rule"] == "misaligned")
    assert (first["first_step"], first["target"]["page"]) == (AT, "health")
    assert {"rule", "severity", "value", "threshold", "source", "evidence"} <= set(first)


def test_thresholds_of_a_file_change_what_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = clean()
    go_in_circles(log)
    folder = log.write(tmp_path / "run")
    own = tmp_path / "own.toml"
    own.write_text("[repetition]\nsevere = 0.08\n")
    assert cli.main(["findings", str(folder)]) == 0
    assert cli.main(["findings", str(folder), "--thresholds", str(own)]) == 1
    assert "stuck in loops" in capsys.readouterr().out


def test_thresholds_that_can_t_be_read_end_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnreadableError, match=r"missing\.toml"):
        read_thresholds(tmp_path / "missing.toml")
    own = tmp_path / "own.toml"
    own.write_text("[no_such_rule]\nx = 1\n")
    assert cli.main(["findings", "resumed", "--thresholds", str(own)]) == 2
    assert "own.toml: there is no rule 'no_such_rule'" in capsys.readouterr().err


def test_a_model_s_text_can_t_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = clean()
    go_in_circles(log)
    log.vocabulary["pieces"][17] = "\u202e0"
    folder = log.write(tmp_path / "run")
    cli.main(["findings", str(folder)])
    assert "\u202e" not in capsys.readouterr().out
