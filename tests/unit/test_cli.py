from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from streamlit import config

from board import cli
from board.cli import opened_runs, output, runs
from board.cli.commands import serve
from board.errors import NotFoundError

REWARDS = [0.5, 1.0, 0.0, None]


def rollout(step: int, **keys: Any) -> dict[str, Any]:
    base = {
        "step": step,
        "prompt": "1 + 1 =",
        "response": "two",
        "response_tokens": ["t", "wo"],
        "logprobs": [-0.5, -1.0],
        "ref_logprobs": [-0.75, -1.0],
    }
    return {**base, **keys}


def write(path: Path, lines: list[dict[str, Any] | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "logs" / "run_a"
    first = [rollout(0, reward=reward, group="g") for reward in REWARDS]
    first[2]["response"] = "a long way " * 60 + "to THE needle"
    write(folder / "rank_0.jsonl", [*first, rollout(1, reward=0.25)])
    return folder


class Called:
    """What a command printed, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        self.code = cli.main([str(argument) for argument in arguments])
        self.out, self.err = capsys.readouterr()

    @property
    def document(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_runs_counts_what_each_run_holds(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = (run_folder / "rank_0.jsonl").stat().st_size
    called = Called(capsys, "runs", run_folder.parent, "--json")
    assert called.code == 0
    assert called.document == [
        {
            "run": "run_a",
            "path": str(run_folder),
            "format": "rllb",
            "steps": 2,
            "rollouts": 5,
            "bytes": size,
            "problems": 0,
        }
    ]


def test_sql_prints_rows_or_writes_them(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = (
        "select step, count(*) as n, avg(reward) as reward from rollouts group by 1 order by 1"
    )
    called = Called(capsys, "sql", run_folder, statement, "--json")
    rows = [{"step": 0, "n": 4, "reward": 0.5}, {"step": 1, "n": 1, "reward": 0.25}]
    assert (called.code, called.document) == (0, rows)
    assert (
        Called(capsys, "sql", run_folder, statement, "--csv").out
        == "step,n,reward\n0,4,0.5\n1,1,0.25\n"
    )
    assert Called(capsys, "sql", run_folder, statement).out.split()[:3] == ["step", "n", "reward"]
    file = run_folder.parent / "out.parquet"
    assert Called(capsys, "sql", run_folder, statement, "--parquet", file).code == 0
    assert pq.read_table(file).to_pylist() == rows


def test_values_of_every_type_are_printed_as_json(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = (
        "select sum(line) as s, 1.5 as d, [1, 2.5] as l, date '2020-01-01' as t from rollouts"
    )
    called = Called(capsys, "sql", run_folder, statement, "--json")
    assert called.document == [{"s": 15, "d": 1.5, "l": [1, 2.5], "t": "2020-01-01"}]


def test_a_file_that_can_t_be_written_is_an_error(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "sql", run_folder, "select 1", "--parquet", run_folder / "no" / "x")
    assert (called.code, called.out) == (2, "")
    assert "can't be written" in called.err


def test_steps_and_findings_are_of_the_rollouts_that_are_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [rollout(step, reward=step + (env == "b"), env=env) for step in (1, 2) for env in "ab"]
    folder = write(tmp_path / "run" / "rank_0.jsonl", [*lines]).parent
    chosen = Called(capsys, "steps", folder, "--env", "b", "--where", "reward > 2", "--json")
    (row,) = chosen.document
    assert (row["step"], row["rollouts"], row["reward_mean"]) == (2, 1, 3.0)
    found = Called(capsys, "findings", folder, "--env", "b", "--where", "reward > 2", "--json")
    assert (found.document["steps"], found.document["env"]) == (1, ["b"])
    assert found.document["where"] == "reward > 2"
    rows = Called(capsys, "rollouts", folder, "--env", "b", "--json").document
    assert [row["reward"] for row in rows] == [2.0, 3.0]
    unknown = Called(capsys, "steps", folder, "--env", "c")
    assert unknown.code == 2
    assert "no environment 'c'" in unknown.err


def test_sql_that_is_no_select_is_an_error(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "sql", run_folder, "drop view rollouts")
    assert (called.code, called.out) == (2, "")
    assert "give one SELECT statement" in called.err


def test_a_log_file_is_a_run(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run_folder / "rank_0.jsonl"
    assert Called(capsys, "runs", file, "--json").document[0]["path"] == str(file)
    assert len(Called(capsys, "steps", file, "--json").document) == 2


def test_steps_have_the_fixed_keys_and_null_where_nothing_is_recorded(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Called(capsys, "steps", run_folder, "--json").document
    assert (first["step"], first["rollouts"], first["reward_mean"]) == (0, 4, 0.5)
    assert first["k1_mean"] == 0.125
    assert {"mismatch_kl_mean", "entropy_mean", "zero_std_group_fraction"} <= first.keys()
    assert first["mismatch_kl_mean"] is None
    assert second["reward_std"] is None


def test_rollouts_are_in_order_with_their_file_and_line(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Called(capsys, "rollouts", run_folder, "--json").document
    assert [(row["step"], row["index"]) for row in rows] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert rows[4]["file"] == "rank_0.jsonl"
    assert rows[4]["line"] == 5
    assert "offset" not in rows[4]


@pytest.mark.parametrize("descending", [False, True])
def test_missing_values_sort_last_either_way(
    run_folder: Path, capsys: pytest.CaptureFixture[str], descending: bool
) -> None:
    arguments = ["rollouts", run_folder, "--sort", "reward", "--json"]
    rows = Called(capsys, *arguments, *(["--desc"] if descending else [])).document
    rewards = [row["reward"] for row in rows]
    assert rewards[-1] is None
    assert rewards[:-1] == sorted(rewards[:-1], reverse=descending)


def test_step_and_limit_choose_rows(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = Called(capsys, "rollouts", run_folder, "--step", 0, "--limit", 2, "--json").document
    assert [row["index"] for row in rows] == [0, 1]


@pytest.mark.parametrize(
    "asked",
    [
        ["--sort", "reward", "--desc"],
        ["--sort", "response"],
        ["--sort", "file", "--desc"],
        ["--desc", "--where", "reward < 0.75"],
        ["--sort", "step", "--where", "reward > 0.1 or logged == 2"],
        ["--where", "file == rank_1.jsonl and step >= 0"],
        ["--sort", "rewrd"],
    ],
)
def test_the_first_rollouts_are_those_of_the_whole_table(
    run_folder: Path, capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    more = [rollout(step, reward=step / 3, logged=step, response=f"r{step % 2}") for step in (1, 2)]
    write(run_folder / "rank_1.jsonl", [*more, rollout(0, logged="words", split="eval")])
    arguments = ["rollouts", run_folder, "--json", *asked]
    for split in ([], ["--split", "all"]):
        whole, first = (Called(capsys, *arguments, *split, *c) for c in ([], ["--limit", 3]))
        assert first.code == whole.code
        assert first.code or first.document == whole.document[:3]


def test_an_unknown_step_is_named_with_those_there_are(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "rollouts", run_folder, "--step", 7, "--json")
    assert called.code == 2
    assert "2 steps from 0 to 1" in called.err
    assert called.out == ""


@pytest.mark.parametrize(
    ("expression", "indices"),
    [
        ("reward < 0.75 and step == 0", [(0, 0), (0, 2)]),
        ("reward != 0.5", [(0, 1), (0, 2), (1, 0)]),
        ('response contains "the needle"', [(0, 2)]),
        ("response == two and step >= 1", [(1, 0)]),
        ("file == rank_0.jsonl and reward==1", [(0, 1)]),
        ("reward > 5", []),
    ],
)
def test_where_keeps_the_rows_that_meet_every_condition(
    run_folder: Path,
    capsys: pytest.CaptureFixture[str],
    expression: str,
    indices: list[tuple[int, int]],
) -> None:
    rows = Called(capsys, "rollouts", run_folder, "--where", expression, "--json").document
    assert [(row["step"], row["index"]) for row in rows] == indices


@pytest.mark.parametrize("option", [["--sort", "rewrd"], ["--where", "rewrd > 1"]])
def test_an_unknown_column_brings_up_the_ones_that_come_close(
    run_folder: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    called = Called(capsys, "rollouts", run_folder, *option)
    assert called.code == 2
    assert "did you mean reward" in called.err


def test_columns_are_those_named_in_their_order(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, names in (("steps", ("reward_mean", "step")), ("rollouts", ("reward", "step"))):
        asked = (command, run_folder, "--columns", ",".join(names))
        assert {tuple(row) for row in Called(capsys, *asked, "--json").document} == {names}
    called = Called(capsys, "steps", run_folder, "--columns", "reward_maen")
    assert called.code == 2
    assert "did you mean reward_mean" in called.err


def test_the_last_steps_alone_are_shown(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("steps", "rollouts"):
        rows = Called(capsys, command, run_folder, "--last", 1, "--json").document
        assert {row["step"] for row in rows} == {1}
        assert Called(capsys, command, run_folder, "--last", 0, "--json").document == []


def test_csv_and_json_lines_hold_texts_in_full_and_in_the_order_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = 'a, "b"\n' * 400
    rows = [rollout(n // 2, response=f"{n}{long}", ground_truth=f"gt {n}") for n in range(6)]
    folder = write(tmp_path / "run" / "rank_0.jsonl", rows).parent
    asked = ("rollouts", folder, "--desc", "--columns", "step,response,ground_truth")
    expected = [[str(n // 2), f"{n}{long}", f"gt {n}"] for n in reversed(range(6))]
    head, *found = csv.reader(io.StringIO(Called(capsys, *asked, "--csv").out))
    assert head == ["step", "response", "ground_truth"]
    assert found == expected
    lines = Called(capsys, *asked, "--jsonl").out.splitlines()
    assert [[str(value) for value in json.loads(line).values()] for line in lines] == expected


def test_steps_as_csv_leave_empty_what_is_not_recorded(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "steps", run_folder, "--columns", "step,reward_std", "--csv")
    assert called.out.splitlines()[0] == "step,reward_std"
    assert called.out.splitlines()[-1] == "1,"


def test_show_holds_texts_tokens_and_derived_arrays(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Called(capsys, "show", run_folder, "--step", 0, "--index", 1, "--json").document
    assert whole["texts"]["response"] == "two"
    assert whole["scores"] == {"reward": 1.0}
    assert whole["tokens"] == ["t", "wo"]
    assert whole["metrics"]["k1"] == [0.25, 0.0]
    assert whole["metrics"]["k3"][1] == 0.0
    assert whole["extras"] == {"group": "g"}
    assert (whole["file"], whole["line"]) == ("rank_0.jsonl", 2)


def test_show_keeps_numbers_unrounded_and_beyond_64_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.jsonl", [rollout(0, reward=0.1 + 0.2, big=2**70)])
    whole = Called(capsys, "show", file, "--step", 0, "--index", 0, "--json").document
    assert whole["scores"]["reward"] == 0.1 + 0.2
    assert whole["extras"]["big"] == 2**70


def test_nan_in_a_log_is_null_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = rollout(0, reward=float("nan"), logprobs=[float("nan"), float("-inf")])
    file = write(tmp_path / "a.jsonl", [line])
    assert Called(capsys, "steps", file, "--json").document[0]["reward_mean"] is None
    whole = Called(capsys, "show", file, "--step", 0, "--index", 0, "--json").document
    assert whole["metrics"]["logprobs"] == [None, None]
    assert whole["metrics"]["k3"] == [None, None]


@pytest.mark.parametrize("command", ["rollouts", "show"])
def test_an_array_of_unequal_length_is_named_and_not_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    file = write(tmp_path / "a.jsonl", [rollout(0, logprobs=[-0.5, -1.0, -2.0, -3.0])])
    place = ["--step", 0, "--index", 0] if command == "show" else []
    document = Called(capsys, command, file, *place, "--json").document
    if command == "show":
        assert document["metrics"]["logprobs"] == [-0.5, -1.0, -2.0, -3.0]
        assert "k3" not in document["metrics"]
        assert any(remark["field"] == "logprobs" for remark in document["remarks"])
    else:
        assert document[0].get("k3_mean") is None


def test_a_rollout_that_is_not_there_is_an_error(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "show", run_folder, "--step", 0, "--index", 9)
    assert called.code == 2
    assert "rollouts 0 to 3" in called.err


def test_check_passes_a_clean_log(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called = Called(capsys, "check", run_folder, "--json")
    assert called.code == 0
    assert called.document["problems"] == []
    assert (called.document["rollouts"], called.document["superseded"]) == (5, 0)


def test_check_names_file_line_field_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [
        rollout(0),
        "not JSON",
        json.dumps({"prompt": "?", "response": "!"}),
        rollout(0, reward="lots"),
    ]
    write(tmp_path / "rank_0.jsonl", bad)
    called = Called(capsys, "check", tmp_path, "--json")
    found = {(p["line"], p["field"], p["severity"]) for p in called.document["problems"]}
    assert called.code == 1
    assert found == {(2, None, "lost"), (3, "step", "lost"), (4, "reward", "partial")}
    assert (called.document["lost"], called.document["partial"]) == (2, 1)
    assert all(p["path"] == "rank_0.jsonl" and p["reason"] for p in called.document["problems"])
    text = Called(capsys, "check", tmp_path)
    assert text.code == 1
    assert "rank_0.jsonl:3" in text.out


def test_check_gives_the_lines_of_each_kind_of_problem_and_their_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [rollout(0, reward="lots") if n % 2 else "no JSON" for n in range(2400)]
    write(tmp_path / "rank_0.jsonl", lines)
    problems = Called(capsys, "check", tmp_path, "--json").document["problems"]
    found = {p["severity"]: (p["count"], p["lines"][:3], len(p["lines"])) for p in problems}
    assert found == {"lost": (1200, [1, 3, 5], 1000), "partial": (1200, [2, 4, 6], 1000)}


def test_notes_do_not_fail_a_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [rollout(0, logprobs=[None, -1.0]), rollout(1), rollout(2), rollout(1), rollout(2)]
    called = Called(capsys, "check", write(tmp_path / "a.jsonl", lines), "--json")
    assert called.code == 0
    assert called.document["superseded"] == 2
    assert {problem["severity"] for problem in called.document["problems"]} == {"note"}


def test_check_tells_paths_from_the_folder_that_was_named(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (run_folder / "rank_0.jsonl").open("a") as file:
        file.write("broken\n")
    (run_folder.parent / "other.jsonl").write_text("not JSON at all\n")
    problems = Called(capsys, "check", run_folder.parent, "--json").document["problems"]
    assert {problem["path"] for problem in problems} == {"run_a/rank_0.jsonl", "other.jsonl"}


@pytest.mark.parametrize("command", [["steps"], ["rollouts"], ["show", "--step=0", "--index=0"]])
def test_a_run_of_which_nothing_could_be_read_says_why(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.jsonl", [{**rollout(0), "step": "the first"}])
    said = Called(capsys, *command, tmp_path).err
    assert "no rollout could be read: a.jsonl: step is" in said
    assert "rollout-board check" in said


def test_check_explains_a_folder_of_unusable_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.jsonl", ["not JSON at all"])
    called = Called(capsys, "check", tmp_path, "--json")
    assert called.code == 1
    assert called.document["problems"][0]["path"] == "a.jsonl"
    assert "not JSON" in called.document["problems"][0]["reason"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind root"
)
def test_an_unreadable_file_is_a_problem(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = write(run_folder / "rank_1.jsonl", [rollout(0)])
    locked.chmod(0)
    called = Called(capsys, "check", run_folder, "--json")
    assert called.code == 1
    assert called.document["problems"][0]["path"] == "rank_1.jsonl"


@pytest.mark.parametrize(
    "command", [["runs"], ["steps"], ["rollouts"], ["check"], ["serve", "--no-browser"]]
)
def test_a_missing_path_is_an_error_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    called = Called(capsys, *command, tmp_path / "gone" / "run")
    assert called.code == 2
    assert "does not exist" in called.err
    assert "Traceback" not in called.err
    assert called.out == ""


@pytest.mark.parametrize("command", ["steps", "check"])
def test_an_empty_folder_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    called = Called(capsys, command, tmp_path, "--json")
    assert called.code == 2
    assert "is empty; give a folder of rollout logs" in called.err


def test_runs_of_a_folder_without_logs_is_an_empty_list_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "metrics.jsonl", [{"loss": 1.0}])
    called = Called(capsys, "runs", tmp_path, "--json")
    assert (called.code, called.document) == (0, [])
    assert "metrics.jsonl: left out: its records hold only numbers (loss)" in called.err


def test_the_mistake_of_a_mapping_file_is_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.jsonl", [{"foo": 1}])
    (tmp_path / "rollout-board.toml").write_text("reader = 1\n")
    called = Called(capsys, "steps", tmp_path)
    assert called.code == 2
    assert "holds no rollout log: rollout-board.toml: 'reader'" in called.err
    assert f"`rollout-board sniff {tmp_path}`" in called.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stepz", "RUN"], "unknown command stepz; did you mean steps?"),
        (["rolouts"], "unknown command rolouts; did you mean rollouts"),
        (["foo", "RUN"], "unknown command foo; nothing comes close; there are serve, runs"),
    ],
)
def test_a_word_that_is_no_command_is_not_taken_for_a_path(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, *arguments)
    assert called.code == 2
    assert said in called.err


def test_runs_are_counted_again_only_when_they_change(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(run_folder.parents[1] / "cache"))
    opened: list[str] = []
    real = opened_runs.opened
    monkeypatch.setattr(opened_runs, "opened", lambda info: opened.append(info.name) or real(info))
    first = Called(capsys, "runs", run_folder.parent, "--json").document
    assert Called(capsys, "runs", run_folder.parent, "--json").document == first
    assert len(opened) == 1
    with (run_folder / "rank_0.jsonl").open("a") as file:
        file.write(json.dumps(rollout(2)) + "\n")
    (row,) = Called(capsys, "runs", run_folder.parent, "--json").document
    assert row["rollouts"] == first[0]["rollouts"] + 1
    (run_folder / "run-1.json").write_text("no JSON")
    (row,) = Called(capsys, "runs", run_folder.parent, "--json").document
    assert row["problems"] == 1


def test_a_folder_of_several_runs_asks_for_one(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(run_folder.parent / "run_b" / "a.jsonl", [rollout(0)])
    called = Called(capsys, "steps", run_folder.parent)
    assert called.code == 2
    assert "holds 2 runs" in called.err
    assert str(run_folder) in called.err


def test_a_bundled_run_goes_by_its_name(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "_SAMPLES", run_folder.parent)
    assert len(Called(capsys, "steps", "run_a", "--json").document) == 2
    called = Called(capsys, "steps", "run_x")
    assert called.code == 2
    assert "run_a" in called.err


def test_without_bundled_runs_a_path_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "_SAMPLES", tmp_path / "gone")
    called = Called(capsys, "runs")
    assert called.code == 2
    assert "name a folder of runs" in called.err
    with pytest.raises(NotFoundError):
        runs.find_run("run_a")


@pytest.mark.parametrize(
    "command", [["runs"], ["steps"], ["rollouts"], ["show", "--step", "0", "--index", "3"]]
)
def test_without_json_a_table_stands_on_the_terminal(
    run_folder: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    called = Called(capsys, command[0], run_folder, *command[1:])
    assert called.code == 0
    assert "step" in called.out
    assert "nan" not in called.out.lower().replace("tenant", "")


def test_text_of_a_model_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b]0;title\x07\x9b31m\u202e"
    file = write(tmp_path / "a.jsonl", [rollout(0, response=hostile, response_tokens=[hostile])])
    for command in (["rollouts", file], ["show", file, "--step", 0, "--index", 0]):
        shown = Called(capsys, *command).out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


def test_serve_is_the_default_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    def note(args: argparse.Namespace) -> int:
        seen.append((args.path, args.host, args.port, args.allow_any_path, args.no_browser))
        return 0

    monkeypatch.setattr(serve, "serve", note)
    assert cli.main([]) == 0
    assert cli.main([str(tmp_path), "--port", "9000"]) == 0
    assert cli.main(["--host", "0.0.0.0", "--allow-any-path", "--no-browser"]) == 0
    assert seen == [
        (None, "127.0.0.1", None, False, False),
        (str(tmp_path), "127.0.0.1", 9000, False, False),
        (None, "0.0.0.0", None, True, True),
    ]


def test_a_busy_port_is_passed_over_unless_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        monkeypatch.setattr(serve, "_FIRST_PORT", port)
        assert serve._free_port("127.0.0.1") > port
        called = Called(capsys, "serve", tmp_path, "--port", port)
    assert called.code == 2
    assert f"--port {port} on 127.0.0.1 can't be used" in called.err


def test_the_server_keeps_to_this_machine_and_calls_nobody() -> None:
    options = serve.server_options("127.0.0.1", 8501)
    assert options["server.address"] == "127.0.0.1"
    assert options["browser.gatherUsageStats"] is False
    assert "*" not in options["server.allowedHosts"]


def test_a_host_of_ones_own_is_allowed_beside_the_local_names() -> None:
    assert "board.example" in serve.allowed_hosts("board.example")
    assert serve.allowed_hosts("0.0.0.0") == ["*"]
    assert serve.url_of("::1", 80) == "http://[::1]:80"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "streamlit", None)
    called = Called(capsys, "serve", run_folder)
    assert called.code == 2
    assert 'pip install "rollout-board[board]"' in called.err


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["runs"]) == 130


def test_a_reader_that_leaves_early_sees_no_traceback(run_folder: Path) -> None:
    command = [sys.executable, "-c", "import sys, board.cli; sys.exit(board.cli.main())"]
    process = subprocess.Popen(
        [*command, "rollouts", str(run_folder), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=runs.PROJECT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 141


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def at(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    moments = iter(seconds)
    monkeypatch.setattr(output.time, "monotonic", lambda: next(moments))


def test_an_installation_without_the_projects_configuration_looks_as_the_project_does(
    tmp_path: Path,
) -> None:
    bare = serve.theme_options(tmp_path / "app.py")
    beside = serve.PROJECT / ".streamlit" / "config.toml"
    told = tomllib.loads(beside.read_text(encoding="utf-8"))
    assert bare["client.toolbarMode"] == told["client"]["toolbarMode"]
    assert (
        bare["theme.dark.sidebar.backgroundColor"]
        == (told["theme"]["dark"]["sidebar"]["backgroundColor"])
    )
    assert bare.keys() <= config.get_config_options(force_reparse=True).keys()
    assert serve.theme_options(serve.PROJECT / "app.py") == {}


def test_progress_is_silent_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 0.0, 0.9)
    screen = Screen()
    progress = output.ProgressLine(screen)
    progress(1, 2)
    progress.close()
    assert screen.getvalue() == ""


def test_progress_leaves_nothing_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 0.0, 2.0)
    screen = Screen()
    progress = output.ProgressLine(screen)
    progress(50_000_000, 100_000_000)
    assert screen.getvalue().endswith("reading 50 of 100 MB (50 %), 25 MB/s, 2 s left")
    progress.close()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_progress_of_little_is_said_in_kilobytes() -> None:
    found = output.progress_text(20_000, 80_000, 2.0)
    assert found == "reading 20 of 80 kB (25 %), 10 kB/s, 6 s left"


def test_progress_in_a_pipe_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 0.0, 1.5, 3.0, 7.0)
    pipe = io.StringIO()
    progress = output.ProgressLine(pipe)
    for done in (1, 2, 3):
        progress(done * 1_000_000, 4_000_000)
    progress.close()
    assert pipe.getvalue().count("\n") == 2
    assert "\x1b" not in pipe.getvalue()


@pytest.mark.parametrize("command", ["serve", "runs", "steps", "rollouts", "show", "check"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert "usage: rollout-board" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expression", "indices"),
    [
        ("reward * 2 >= 1", [0, 1]),
        ("reward == 1 or reward == 0", [1, 2]),
        ("not reward > 0.5", [0, 2]),  # rollout 3 has no reward
        ("missing(reward)", [3]),
        ("contains(response, 'the needle')", [2]),
        ("reward > 5 or reward < -5", []),
    ],
)
def test_expressions_filter_rollouts(
    run_folder: Path, capsys: pytest.CaptureFixture[str], expression: str, indices: list[int]
) -> None:
    arguments = ("rollouts", run_folder, "--step", 0, "--where", expression, "--json")
    assert [row["index"] for row in Called(capsys, *arguments).document] == indices


def test_an_expression_with_a_column_that_is_not_there_names_those_that_come_close(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "rollouts", run_folder, "--where", "abs(rewrd) > 1")
    assert called.code == 2
    assert "did you mean reward" in called.err


JOINED = Path(__file__).parents[1] / "formats/data/prime_rl/joined"


@pytest.mark.parametrize(
    ("source", "rollouts"),
    [((), 10), (("--source", "joined"), 10), (("--source", "episodes"), 7)],
)
@pytest.mark.parametrize("command", ["steps", "check", "findings", "index", "show", "rollouts"])
def test_each_log_of_a_folder_of_several_formats_can_be_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    source: tuple[str, ...],
    rollouts: int,
) -> None:
    folder = shutil.copytree(JOINED, tmp_path / "run")
    more = {"show": ("--step", 2, "--index", 1), "steps": ("--split", "all")}.get(command, ())
    called = Called(capsys, command, folder, *source, *more, "--json")
    assert called.code in ((0, 1) if command == "findings" else (0,))
    found = called.document
    if command in ("steps", "rollouts"):
        assert (sum(row.get("rollouts", 1) for row in found)) == rollouts
    elif command == "show":
        assert ("logprobs" in found["metrics"]) == (rollouts == 10)
    elif command == "findings":
        assert found["run"] == ("run" if rollouts == 10 else "run (episodes)")
    else:
        assert found["rollouts"] == rollouts


@pytest.mark.parametrize("command", ["steps", "findings", "rollouts"])
def test_a_split_of_joined_logs_can_be_named_and_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = shutil.copytree(JOINED, tmp_path / "run")

    def rollouts(*split: str) -> int:
        found = Called(capsys, command, folder, *split, "--json").document
        if command == "findings":
            return found["rollouts_read"]
        return sum(row.get("rollouts", 1) for row in found)

    counts = [rollouts("--split", name) for name in ("train", "eval", "all")]
    assert counts[0] + counts[1] == counts[2]
    assert 0 < counts[1] < counts[0]
    assert rollouts() == counts[2 if command == "rollouts" else 0]


def test_a_split_that_is_not_there_is_refused_with_the_names_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(JOINED, tmp_path / "run")
    called = Called(capsys, "steps", folder, "--split", "val")
    assert called.code == 2
    assert "no split 'val'; it has train, eval, and all is all of them" in called.err


def test_a_source_that_is_none_is_refused_with_the_names_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "steps", JOINED, "--source", "trainer")
    assert called.code == 2
    assert "has no source 'trainer'; it has episodes, joined, prime_rl_tokens" in called.err
    write(tmp_path / "a.jsonl", [rollout(0)])
    write(tmp_path / "b.jsonl", [{"input": "a", "output": "b", "score": 1.0, "step": 0}])
    called = Called(capsys, "steps", tmp_path)
    assert called.code == 2
    assert (
        "logs of 2 formats that are not joined; give --source with one of jsonl, verl" in called.err
    )
    assert len(Called(capsys, "steps", tmp_path, "--source", "verl", "--json").document) == 1


def test_check_says_what_was_joined_and_how_many_rollouts_stand_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(capsys, "check", JOINED, "--json")
    (join,) = called.document["joins"]
    assert (join["source"], join["joined"], join["rollouts"]) == ("prime_rl_tokens", 3, 6)
    said = Called(capsys, "check", JOINED).out.splitlines()[1]
    assert said.startswith("3 of 6 rollouts joined with prime-rl token exports by step and exact")
    dump = [{"input": "a", "output": f"b {i}", "score": 1.0, "step": 0} for i in range(3)]
    write(tmp_path / "0.jsonl", [*dump])
    write(tmp_path / "copy_0.jsonl", [*dump])
    called = Called(capsys, "check", tmp_path)
    assert called.out.splitlines()[0].endswith("rollouts 3, superseded 0, repeated 3")
    assert Called(capsys, "check", tmp_path, "--json").document["repeated"] == 3
