import json
import random
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from faults.plant import go_in_circles, shift_logprobs
from faults.scene import AT, TUNED, clean
from read_formats import info_at, run_at, run_of, sample_run
from written_logs import rllb_run, texts_only_run

from board import cli
from board.analysis import findings as findings_module
from board.analysis.findings import (
    Budget,
    default_thresholds,
    diagnose,
    own_thresholds,
    read_thresholds,
)
from board.analysis.token_sample import ROLLOUTS, STEPS, sampled_digests
from board.errors import UnreadableError
from board.index.discovery.discovered_runs import RunInfo
from board.query import groups
from board.query.open_run import Run

SHORT = replace(TUNED, first=AT - 8, last=AT + 4)


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    log = clean()
    shift_logprobs(log)
    return run_at(log.write(tmp_path_factory.mktemp("faults") / "run"))


def test_a_small_budget_still_tells_the_first_step_exactly(shifted):
    result = diagnose(shifted, budget=Budget(rollouts=16, bytes=200_000))
    assert result.steps_read < result.steps
    assert [f.first_step for f in result.findings if f.rule == "misaligned"] == [AT]


def test_progress_never_goes_beyond_what_is_to_read(shifted):
    seen: list[tuple[int, int]] = []
    diagnose(shifted, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0
    assert all(done <= total for done, total in seen)


def test_without_tokens_no_rule_speaks_of_them(shifted):
    result = diagnose(shifted, tokens=False)
    assert result.rollouts_read == 0
    assert {f.rule for f in result.findings} == {"kl_spike", "change"}


@pytest.mark.parametrize("write", [rllb_run, texts_only_run])
def test_logs_without_most_fields_have_no_findings(write, tmp_path):
    assert diagnose(run_at(write(tmp_path / "run"))).findings == ()


@pytest.mark.parametrize(
    ("column", "values", "duplicates"),
    [
        ("response", ("turn 0", "turn 1", "turn 2"), []),  # a trajectory cut into samples
        ("split", ("train", "eval", "eval"), [2]),  # the same id in training and in evaluation
    ],
)
def test_rows_of_one_id_are_duplicates_only_where_all_of_them_is_the_same(
    tmp_path, column, values, duplicates
):
    row = {"step": 1, "rollout_id": "a", "prompt": "p", "response": "r", "reward": 1.0}
    rows = [row | {column: value} for value in values]
    run = run_of(tmp_path, rows)
    result = [f for f in diagnose(run).findings if f.rule == "duplicated_rollouts"]
    assert [e.index for f in result for e in f.evidence] == duplicates


def test_the_command_exits_by_severity_and_prints_one_document(shifted, capsys):
    assert cli.main(["findings", str(shifted.info.path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["severe"] == sum(f["severity"] == "severe" for f in document["rows"])
    first = next(f for f in document["rows"] if f["rule"] == "misaligned")
    assert (first["first_step"], first["target"]["page"]) == (AT, "health")
    assert {"rule", "severity", "value", "threshold", "source", "evidence"} <= set(first)


def test_thresholds_of_a_file_change_what_is_found(tmp_path, capsys):
    log = clean(SHORT)
    go_in_circles(log)
    folder = log.write(tmp_path / "run")
    own = tmp_path / "own.toml"
    own.write_text("[repetition]\nsevere = 0.08\n")
    assert cli.main(["findings", str(folder)]) == 0
    assert cli.main(["findings", str(folder), "--thresholds", str(own)]) == 1
    assert "stuck in loops" in capsys.readouterr().out


def test_thresholds_that_can_t_be_read_end_the_command(tmp_path, capsys):
    with pytest.raises(UnreadableError, match=r"missing\.toml"):
        read_thresholds(tmp_path / "missing.toml")
    own = tmp_path / "own.toml"
    own.write_text("[no_such_rule]\nx = 1\n")
    assert cli.main(["findings", "resumed", "--thresholds", str(own)]) == 2
    assert "own.toml: there is no rule 'no_such_rule'" in capsys.readouterr().err


def test_a_model_s_text_can_t_steer_the_terminal(tmp_path, capsys):
    log = clean(SHORT)
    go_in_circles(log)
    log.vocabulary["pieces"][17] = "\u202e0"
    folder = log.write(tmp_path / "run")
    cli.main(["findings", str(folder)])
    assert "\u202e" not in capsys.readouterr().out


def a_run(folder: Path) -> RunInfo:
    return info_at(rllb_run(folder / "run"))


def test_a_file_in_the_runs_folder_changes_what_it_names_of_the_packages(tmp_path):
    info = a_run(tmp_path)
    result = own_thresholds(info)
    assert (result.thresholds, result.path, result.error) == (default_thresholds(), None, "")
    (info.path / "thresholds.toml").write_text("[truncation]\nwarning = 0.1\n")
    result = own_thresholds(info)
    assert result.thresholds["truncation"] == {**default_thresholds()["truncation"], "warning": 0.1}


def test_a_named_file_goes_before_the_one_in_the_folder(tmp_path):
    info = a_run(tmp_path)
    (info.path / "thresholds.toml").write_text("[truncation]\nwarning = 0.1\n")
    named = tmp_path / "mine.toml"
    named.write_text("[truncation]\nwarning = 0.2\n")
    assert own_thresholds(info, named).thresholds["truncation"]["warning"] == 0.2


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    info = a_run(tmp_path)
    (tmp_path / "elsewhere").write_text("secret")
    (info.path / "thresholds.toml").symlink_to(tmp_path / "elsewhere")
    assert own_thresholds(info).path is None


def test_a_sample_is_of_few_steps_and_has_the_one_that_is_asked_for():
    run = sample_run("resumed")
    seen: list[tuple[int, int]] = []
    result = sampled_digests(run, 7, lambda done, total: seen.append((done, total)))
    steps = [digest.step for digest in result]
    assert 7 in steps
    assert len(steps) <= STEPS + 1
    assert all(digest.read <= ROLLOUTS for digest in result)
    assert seen[-1][0] == seen[-1][1] > 0
    assert all(done <= total for done, total in seen)


def test_group_ids_are_coded_for_the_run_and_not_by_step(tmp_path, monkeypatch):
    lines = (
        {"step": n // 4, "group_id": f"g{n // 2}", "response": "x", "reward": n % 2}
        for n in range(80)
    )
    run = run_of(tmp_path, lines)
    calls: list[int] = []
    group_codes = groups.group_codes
    monkeypatch.setattr(
        groups, "group_codes", lambda rows: calls.append(len(rows)) or group_codes(rows)
    )
    assert diagnose(run).steps_read == 20
    assert set(calls) == {80}


def test_words_that_stand_in_for_tokens_are_called_words(tmp_path):
    words = {True: "one 中 two 中 three 中 four", False: "one two three four five six"}
    rows = [
        {"step": step, "prompt": f"p{n}", "response": f"{words[step > 8]} {n}", "reward": n / 4}
        for step in range(1, 17)
        for n in range(4)
    ]
    found = {one.rule: one for one in diagnose(run_of(tmp_path, rows)).findings}
    assert "share of CJK words 0 to " in found["change"].text
    assert found["change"].first_step == 9


def test_rows_of_few_steps_are_read_however_many_periods_there_are(tmp_path, monkeypatch):
    read: list[int] = []
    step_rows = findings_module._step_rows

    def counted(run, groups, envs, step):
        read.append(step)
        return step_rows(run, groups, envs, step)

    monkeypatch.setattr(findings_module, "_step_rows", counted)
    for stretches in (40, 160):
        rows = [
            {"step": step, "group_id": f"{step}", "prompt": "Q", "response": "r", "reward": reward}
            for step in range(stretches * 20)
            for reward in ((1.0, 1.0) if step // 10 % 2 else (0.0, 1.0))
        ]
        read.clear()
        result = diagnose(run_of(tmp_path / str(stretches), rows), tokens=False)
        (equal,) = [one for one in result.findings if one.rule == "zero_std_groups"]
        assert len(equal.periods) == stretches
        assert len({*read}) <= 40


def test_of_very_many_steps_some_are_read(tmp_path):
    rows = [
        {"step": step, "response": "r", "tokens": ["r"], "entropy": [0.5]} for step in range(60)
    ]
    run = run_of(tmp_path, rows)
    assert diagnose(run, budget=Budget(steps=12)).steps_read == 12
    assert diagnose(run).steps_read == 60


def _with_advantages(tmp_path, advantage):
    dice = random.Random(3)
    rows: list[dict[str, Any]] = []
    for step in range(1, 13):
        rewards = [[round(dice.random(), 3) for _ in range(4)] for _ in range(6)]
        every = [reward for group in rewards for reward in group]
        for n, group in enumerate(rewards):
            rows += [
                {
                    "step": step,
                    "group_id": f"{step}-{n}",
                    "prompt": f"p{n}",
                    "response": f"r{reward}",
                }
                | {"reward": reward, "advantage": advantage(reward, group, every)}
                for reward in group
            ]
    found = diagnose(run_of(tmp_path, rows)).findings
    return next(one for one in found if one.rule == "advantages")


def test_advantages_of_the_wrong_sign_are_severe_and_told_from_their_first_step(tmp_path):
    found = _with_advantages(tmp_path, lambda reward, group, every: mean(group) - reward)
    assert (found.severity, found.first_step) == ("severe", 1)
    assert "wrong sign" in found.title


def test_advantages_that_are_normalised_over_the_step_are_named_so(tmp_path):
    found = _with_advantages(
        tmp_path, lambda reward, group, every: (reward - mean(every)) / stdev(every)
    )
    assert found.severity == "lead"
    assert "REINFORCE++" in found.text
