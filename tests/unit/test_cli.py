import argparse
import csv
import errno
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from read_formats import json_lines
from streamlit import config
from written_logs import write_lines as write

from board import cli
from board.cli import opened_runs, output, runs
from board.cli.commands import serve
from board.cli.parser import COMMANDS
from board.index import storage
from board.index.discovery import format_detection

Call = Callable[..., "Called"]
REWARDS = [0.5, 1.0, 0.0, None]


TOKENS = {
    "response_tokens": ["t", "wo"],
    "logprobs": [-0.5, -1.0],
    "ref_logprobs": [-0.75, -1.0],
}


def rollout(step: int, **keys: Any) -> dict[str, Any]:
    return {"step": step, "prompt": "1 + 1 =", "response": "two", **keys}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "logs" / "run_a"
    first = [rollout(0, reward=reward, group="g") for reward in REWARDS]
    first[2]["response"] = "a long way " * 60 + "to THE needle"
    write(folder / "rank_0.jsonl", [*first, rollout(1, reward=0.25)])
    return folder


@pytest.fixture
def with_tokens(run_folder: Path) -> Path:
    """The same with tokens, of which each run has a dozen metrics more to compute."""
    path = run_folder / "rank_0.jsonl"
    write(path, [row | TOKENS for row in json_lines(path)])
    return run_folder


class Called:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> Any:
        """What was answered: its rows where it has no other keys."""
        whole = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert re.fullmatch(r"[a-z-]+/\d+", whole.pop("schema"))
        assert isinstance(whole.pop("notes"), list)
        return whole["rows"] if whole.keys() == {"rows"} else whole

    @property
    def row(self) -> Any:
        """The only row of the answer."""
        (row,) = json.loads(self.out)["rows"]
        return row


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """`call("steps", folder, "--json")` runs a command."""

    def run(*arguments: object) -> Called:
        code = cli.main([str(argument) for argument in arguments])
        return Called(code, *capsys.readouterr())

    return run


def refuses(call: Call, *arguments: object) -> str:
    """What stderr says of a command that can't be done as given; stdout stays empty."""
    called = call(*arguments)
    assert (called.code, called.out) == (2, "")
    assert "Traceback" not in called.err
    return called.err


def test_runs_counts_what_each_run_holds(run_folder, call):
    size = (run_folder / "rank_0.jsonl").stat().st_size
    called = call("runs", run_folder.parent, "--json")
    expected = {
        "run": "run_a",
        "path": str(run_folder),
        "format": "rllb",
        "steps": 2,
        "rollouts": 5,
    }
    expected |= {"bytes": size, "problems": 0, "note": "", "source": "jsonl"}
    (row,) = called.document
    assert called.code == 0
    assert {name: row[name] for name in expected} == expected
    names = call("runs", run_folder.parent, "--columns", "rollouts,run", "--json").document
    assert names == [{"rollouts": 5, "run": "run_a"}]


def test_sql_prints_rows_or_writes_them(run_folder, call):
    statement = (
        "select step, count(*) as n, avg(reward) as reward from rollouts group by 1 order by 1"
    )
    called = call("sql", run_folder, statement, "--json")
    rows = [{"step": 0, "n": 4, "reward": 0.5}, {"step": 1, "n": 1, "reward": 0.25}]
    assert (called.code, called.document) == (0, rows)
    assert call("sql", run_folder, statement, "--csv").out == "step,n,reward\n0,4,0.5\n1,1,0.25\n"
    assert call("sql", run_folder, statement).out.split()[:3] == ["step", "n", "reward"]
    file = run_folder.parent / "out.parquet"
    assert call("sql", run_folder, statement, "--parquet", file).code == 0
    assert pq.read_table(file).to_pylist() == rows


def test_values_of_every_type_are_printed_as_json(run_folder, call):
    statement = (
        "select sum(line) as s, 1.5 as d, [1, 2.5] as l, date '2020-01-01' as t from rollouts"
    )
    called = call("sql", run_folder, statement, "--json")
    assert called.document == [{"s": 15, "d": 1.5, "l": [1, 2.5], "t": "2020-01-01"}]


def test_steps_and_findings_are_of_the_rollouts_that_are_chosen(tmp_path, call):
    lines = [rollout(step, reward=step + (env == "b"), env=env) for step in (1, 2) for env in "ab"]
    folder = write(tmp_path / "run" / "rank_0.jsonl", [*lines]).parent
    chosen = call("steps", folder, "--env", "b", "--where", "reward > 2", "--json")
    (row,) = chosen.document
    assert (row["step"], row["rollouts"], row["reward_mean"]) == (2, 1, 3.0)
    result = call("findings", folder, "--env", "b", "--where", "reward > 2", "--json")
    assert (result.document["steps"], result.document["env"]) == (1, ["b"])
    assert result.document["where"] == "reward > 2"
    rows = call("rollouts", folder, "--env", "b", "--json").document
    assert [row["reward"] for row in rows] == [2.0, 3.0]
    assert "no environment 'c'" in refuses(call, "steps", folder, "--env", "c")


def test_steps_have_the_fixed_keys_and_null_where_nothing_is_recorded(with_tokens, call):
    first, second = call("steps", with_tokens, "--json").document
    assert (first["step"], first["rollouts"], first["reward_mean"]) == (0, 4, 0.5)
    assert first["k1_mean"] == 0.125
    assert {"mismatch_kl_mean", "entropy_mean", "zero_std_group_fraction"} <= first.keys()
    assert (first["mismatch_kl_mean"], second["reward_std"]) == (None, None)
    table = call("steps", with_tokens, "--columns", "step,reward_std", "--csv").out.splitlines()
    assert (table[0], table[-1]) == ("step,reward_std", "1,")


def test_rollouts_are_in_order_with_their_file_and_line(run_folder, call):
    rows = call("rollouts", run_folder, "--json").document
    assert [(row["step"], row["index"]) for row in rows] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert rows[4]["file"] == "rank_0.jsonl"
    assert rows[4]["line"] == 5
    assert "offset" not in rows[4]


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
def test_the_first_rollouts_are_those_of_the_whole_table(run_folder, call, asked):
    more = [rollout(step, reward=step / 3, logged=step, response=f"r{step % 2}") for step in (1, 2)]
    write(run_folder / "rank_1.jsonl", [*more, rollout(0, logged="words", split="eval")])
    arguments = ["rollouts", run_folder, "--json", *asked]
    for split in ([], ["--split", "all"]):
        whole, first = (call(*arguments, *split, *c) for c in ([], ["--limit", 3]))
        assert first.code == whole.code
        assert first.code or first.document == whole.document[:3]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["rollouts", "--step", "7"], "2 steps from 0 to 1"),
        (["show", "--step=0", "--index=9"], "rollouts 0 to 3"),
        (["rollouts", "--sort", "rewrd"], "did you mean reward"),
        (["rollouts", "--where", "abs(rewrd) > 1"], "did you mean reward"),
        (["steps", "--columns", "reward_maen"], "did you mean reward_mean"),
        (["steps", "--split", "val"], "no split 'val'; it has train, and all is all of them"),
        (["sql", "drop view rollouts"], "give one SELECT statement"),
        (["sql", "select 1", "--parquet", "/no/folder/x"], "can't be written"),
    ],
)
def test_what_can_t_be_done_as_given_is_refused_with_the_reason(
    run_folder, call, arguments, reason
):
    assert reason in refuses(call, arguments[0], run_folder, *arguments[1:])


@pytest.mark.parametrize(
    ("options", "indices"),
    [
        (["--step", "0", "--limit", "2"], [(0, 0), (0, 1)]),
        (["--where", "reward < 0.75 and step == 0"], [(0, 0), (0, 2)]),
        (["--where", 'response contains "the needle"'], [(0, 2)]),
        (["--where", "reward > 5 or reward < -5"], []),
    ],
)
def test_options_choose_the_rollouts_that_meet_every_condition(run_folder, call, options, indices):
    rows = call("rollouts", run_folder, *options, "--json").document
    assert [(row["step"], row["index"]) for row in rows] == indices


def test_columns_are_those_named_in_their_order_and_steps_the_last(run_folder, call):
    for command, names in (("steps", ("reward_mean", "step")), ("rollouts", ("reward", "step"))):
        asked = (command, run_folder, "--columns", ",".join(names))
        assert {tuple(row) for row in call(*asked, "--json").document} == {names}
        rows = call(command, run_folder, "--last", 1, "--json").document
        assert {row["step"] for row in rows} == {1}
        assert call(command, run_folder, "--last", 0, "--json").document == []


def test_csv_and_json_lines_hold_texts_in_full_and_in_the_order_asked_for(tmp_path, call):
    long = 'a, "b"\n' * 400
    rows = [rollout(n // 2, response=f"{n}{long}", ground_truth=f"gt {n}") for n in range(6)]
    folder = write(tmp_path / "run" / "rank_0.jsonl", rows).parent
    asked = ("rollouts", folder, "--desc", "--columns", "step,response,ground_truth")
    expected = [[str(n // 2), f"{n}{long}", f"gt {n}"] for n in reversed(range(6))]
    head, *result = csv.reader(io.StringIO(call(*asked, "--csv").out))
    assert head == ["step", "response", "ground_truth"]
    assert result == expected
    lines = call(*asked, "--jsonl").out.splitlines()
    assert [[str(value) for value in json.loads(line).values()] for line in lines] == expected


def test_show_holds_texts_tokens_and_derived_arrays(with_tokens, call):
    whole = call("show", with_tokens, "--step", 0, "--index", 1, "--json").row
    assert whole["texts"]["response"] == "two"
    assert whole["facts"]["reward"] == 1.0
    assert whole["tokens"] == ["t", "wo"]
    assert whole["metrics"]["k1"] == [0.25, 0.0]
    assert whole["metrics"]["k3"][1] == 0.0
    assert whole["extras"] == {"group": "g"}
    assert (whole["file"], whole["line"]) == ("rank_0.jsonl", 2)


def test_numbers_are_unrounded_and_beyond_64_bits_and_those_that_are_none_null(tmp_path, call):
    rewards = {"reward": 0.1 + 0.2, "rewards": {"tiny": 1e-17}}
    unusual = {"big": 2**70, "level": float("nan")}
    unusual |= TOKENS | {"logprobs": [float("nan"), float("-inf")]}
    file = write(tmp_path / "a.jsonl", [rollout(0, **rewards, **unusual), rollout(1, level=1.0)])
    assert call("steps", file, "--json").document[0]["level_mean"] is None
    whole = call("show", file, "--step", 0, "--index", 0, "--json").row
    assert whole["facts"] == {"reward": 0.1 + 0.2, "rewards.tiny": 1e-17}
    assert whole["extras"]["big"] == 2**70
    assert whole["metrics"]["logprobs"] == whole["metrics"]["k3"] == [None, None]


def test_check_names_file_line_field_and_reason(tmp_path, call):
    bad = [rollout(0), "not JSON", {"prompt": "?", "response": "!"}, rollout(0, reward="lots")]
    write(tmp_path / "rank_0.jsonl", bad)
    called = call("check", tmp_path, "--json")
    result = {(p["line"], p["field"], p["severity"]) for p in called.document["rows"]}
    assert called.code == 1
    assert result == {(2, None, "lost"), (3, "step", "lost"), (4, "reward", "partial")}
    assert (called.document["lost"], called.document["partial"]) == (2, 1)
    assert all(p["path"] == "rank_0.jsonl" and p["reason"] for p in called.document["rows"])


def test_a_clean_log_and_one_of_notes_alone_pass_the_check(run_folder, call):
    called = call("check", run_folder, "--json")
    assert (called.code, called.document["rows"]) == (0, [])
    assert (called.document["rollouts"], called.document["superseded"]) == (5, 0)
    lines = [rollout(0, logprobs=[None, -1.0]), rollout(1), rollout(2), rollout(1), rollout(2)]
    called = call("check", write(run_folder / "rank_0.jsonl", [*lines]), "--json")
    assert (called.code, called.document["superseded"]) == (0, 2)
    assert {problem["severity"] for problem in called.document["rows"]} == {"note"}


def test_check_gives_the_lines_of_each_kind_of_problem_and_their_count(tmp_path, call):
    lines = [rollout(0, reward="lots") if n % 2 else "no JSON" for n in range(2400)]
    write(tmp_path / "rank_0.jsonl", lines)
    problems = call("check", tmp_path, "--json").document["rows"]
    result = {p["severity"]: (p["count"], p["lines"][:3], len(p["lines"])) for p in problems}
    assert result == {"lost": (1200, [1, 3, 5], 1000), "partial": (1200, [2, 4, 6], 1000)}


def test_check_tells_paths_from_the_folder_that_was_named(run_folder, call):
    with (run_folder / "rank_0.jsonl").open("a") as file:
        file.write("broken\n")
    other = write(run_folder.parent / "other.jsonl", ["not JSON at all"])
    problems = call("check", run_folder.parent, "--json").document["rows"]
    assert {problem["path"] for problem in problems} == {"run_a/rank_0.jsonl", "other.jsonl"}
    called = call("check", other, "--json")
    assert (called.code, called.document["rows"][0]["path"]) == (1, "other.jsonl")
    assert "not JSON" in called.document["rows"][0]["reason"]


@pytest.mark.parametrize("command", [["steps"], ["rollouts"], ["show", "--step=0", "--index=0"]])
def test_a_run_of_which_nothing_could_be_read_says_why(command, tmp_path, call):
    write(tmp_path / "a.jsonl", [{**rollout(0), "step": "the first"}])
    message = call(*command, tmp_path).err
    assert "no rollout could be read: a.jsonl: step is" in message
    assert "rollout-board check" in message


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind root"
)
def test_an_unreadable_file_is_a_problem(run_folder, call):
    locked = write(run_folder / "rank_1.jsonl", [rollout(0)])
    locked.chmod(0)
    called = call("check", run_folder, "--json")
    assert called.code == 1
    assert called.document["rows"][0]["path"] == "rank_1.jsonl"


@pytest.mark.parametrize("command", ["runs", "steps", "rollouts", "check", "serve"])
def test_a_missing_path_and_an_empty_folder_are_named(tmp_path, call, command):
    assert "does not exist" in refuses(call, command, tmp_path / "gone" / "run")
    if command in ("steps", "check"):
        assert "is empty; give a folder of rollout logs" in refuses(call, command, tmp_path)


def test_runs_of_a_folder_without_logs_is_an_empty_list_with_the_reason(tmp_path, call):
    write(tmp_path / "metrics.jsonl", [{"loss": 1.0}])
    called = call("runs", tmp_path, "--json")
    assert (called.code, called.document) == (0, [])
    assert "metrics.jsonl: left out: its records hold only numbers (loss)" in called.err


def test_the_mistake_of_a_mapping_file_is_said_first(tmp_path, call):
    write(tmp_path / "a.jsonl", [{"foo": 1}])
    (tmp_path / "rollout-board.toml").write_text("reader = 1\n")
    message = refuses(call, "steps", tmp_path)
    assert "holds no rollout log: rollout-board.toml: 'reader'" in message
    assert f"`rollout-board sniff {tmp_path}`" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stepz", "RUN"], "unknown command stepz; did you mean steps?"),
        (["rolouts"], "unknown command rolouts; did you mean rollouts"),
        (["foo", "RUN"], "unknown command foo; expected one of: serve, open, runs"),
    ],
)
def test_a_word_that_is_no_command_is_not_taken_for_a_path(arguments, message, call):
    assert message in refuses(call, *arguments)


def test_files_that_sniff_reads_alike_are_counted_in_words(run_folder, call):
    lines = (run_folder / "rank_0.jsonl").read_text(encoding="utf-8")
    (run_folder / "rank_2.jsonl").write_text(lines, encoding="utf-8")
    assert "and 1 more file like it" in call("sniff", run_folder).out


def test_runs_are_counted_again_only_when_they_change(run_folder, call, monkeypatch):
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(run_folder.parents[1] / "cache"))
    opened: list[str] = []
    real = opened_runs.opened
    monkeypatch.setattr(opened_runs, "opened", lambda info: opened.append(info.name) or real(info))
    first = call("runs", run_folder.parent, "--json").document
    assert call("runs", run_folder.parent, "--json").document == first
    assert len(opened) == 1
    with (run_folder / "rank_0.jsonl").open("a") as file:
        file.write(json.dumps(rollout(2)) + "\n")
    (row,) = call("runs", run_folder.parent, "--json").document
    assert row["rollouts"] == first[0]["rollouts"] + 1
    (run_folder / "run-1.json").write_text("no JSON")
    (row,) = call("runs", run_folder.parent, "--json").document
    assert row["problems"] == 1


def test_a_folder_of_several_runs_asks_for_one(run_folder, call):
    file = write(run_folder.parent / "run_b" / "a.jsonl", [rollout(0)])
    message = refuses(call, "steps", run_folder.parent)
    assert "holds 2 runs" in message
    assert str(run_folder) in message
    assert call("runs", file, "--json").document[0]["path"] == str(file)
    assert len(call("steps", file, "--json").document) == 1


def test_a_bundled_run_goes_by_its_name(run_folder, monkeypatch, call):
    monkeypatch.setattr(runs, "_SAMPLES", run_folder.parent)
    assert len(call("steps", "run_a", "--json").document) == 2
    assert "run_a" in refuses(call, "steps", "run_x")
    monkeypatch.setattr(runs, "_SAMPLES", run_folder / "gone")
    assert "name a folder of runs" in refuses(call, "runs")
    assert "does not exist; give a run's folder" in refuses(call, "steps", "run_a")


@pytest.mark.parametrize(
    "command", [["runs"], ["steps"], ["rollouts"], ["show", "--step", "0", "--index", "3"]]
)
def test_without_json_a_table_stands_on_the_terminal(with_tokens, call, command):
    called = call(command[0], with_tokens, *command[1:])
    assert called.code == 0
    assert "step" in called.out
    assert "nan" not in called.out.lower().replace("tenant", "")


def test_text_of_a_model_cannot_steer_the_terminal(tmp_path, call):
    hostile = "\x1b]0;title\x07\x9b31m\u202e"
    file = write(tmp_path / "a.jsonl", [rollout(0, response=hostile, response_tokens=[hostile])])
    for command in (["rollouts", file], ["show", file, "--step", 0, "--index", 0]):
        visible = call(*command).out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(visible)


def test_serve_is_the_default_command(monkeypatch, tmp_path):
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


def test_a_busy_port_is_passed_over_unless_it_was_asked_for(tmp_path, monkeypatch, call):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        monkeypatch.setattr(serve, "_FIRST_PORT", port)
        assert serve.free_port("127.0.0.1", None) > port
        message = refuses(call, "serve", tmp_path, "--port", port)
    assert f"--port {port} on 127.0.0.1 can't be used" in message


def test_the_server_keeps_to_this_machine_unless_told_otherwise_and_calls_nobody():
    options = serve.server_options("127.0.0.1", 8501)
    assert options["server.address"] == "127.0.0.1"
    assert options["browser.gatherUsageStats"] is False
    assert "*" not in options["server.allowedHosts"]
    assert "board.example" in serve.allowed_hosts("board.example")
    assert serve.allowed_hosts("0.0.0.0") == ["*"]
    for host in ("127.0.0.1", "0.0.0.0"):
        names = serve.allowed_hosts(host, ["board.example"])
        assert "board.example" in names
        assert "*" not in names
    assert serve.url_of("::1", 80) == "http://[::1]:80"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    run_folder, monkeypatch, call
):
    monkeypatch.setitem(sys.modules, "streamlit", None)
    monkeypatch.delitem(sys.modules, "board.server", raising=False)
    assert 'pip install "rollout-board[board]"' in refuses(call, "serve", run_folder)


def test_ctrl_c_ends_with_130(monkeypatch):
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["runs"]) == 130


def test_a_reader_that_leaves_early_sees_no_traceback(run_folder):
    command = [sys.executable, "-c", "import sys, board.cli; sys.exit(board.cli.main())"]
    process = subprocess.Popen(
        [*command, "rollouts", str(run_folder), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=runs.PROJECT,
    )
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


def test_an_installation_without_the_projects_configuration_looks_as_the_project_does(tmp_path):
    bare = serve.theme_options(tmp_path / "app.py")
    own = tomllib.loads((serve.PROJECT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert bare["client.toolbarMode"] == own["client"]["toolbarMode"]
    sidebar = own["theme"]["dark"]["sidebar"]
    assert bare["theme.dark.sidebar.backgroundColor"] == sidebar["backgroundColor"]
    assert bare.keys() <= config.get_config_options(force_reparse=True).keys()
    assert serve.theme_options(serve.PROJECT / "app.py") == {}


def test_progress_leaves_nothing_on_a_terminal(monkeypatch):
    at(monkeypatch, 0.0, 2.0)
    screen = Screen()
    progress = output.ProgressLine(screen)
    progress(50_000_000, 100_000_000)
    assert screen.getvalue().endswith("reading 50 of 100 MB (50 %), 25 MB/s, 2 s left")
    progress.close()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_progress_of_little_is_said_in_kilobytes():
    result = output.progress_text(20_000, 80_000, 2.0)
    assert result == "reading 20 of 80 kB (25 %), 10 kB/s, 6 s left"


def test_progress_is_said_on_a_terminal_alone(monkeypatch):
    at(monkeypatch, 0.0, 1.5, 3.0, 7.0)
    pipe = io.StringIO()
    progress = output.ProgressLine(pipe)
    for done in (1, 2, 3):
        progress(done * 1_000_000, 4_000_000)
    progress.close()
    assert pipe.getvalue() == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert (ended.value.code, "usage: rollout-board" in capsys.readouterr().out) == (0, True)


FORMATS = Path(__file__).parents[1] / "formats/data"
JOINED = FORMATS / "prime_rl/joined"


@pytest.fixture(scope="module")
def joined_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(JOINED, tmp_path_factory.mktemp("joined") / "run")


@pytest.mark.parametrize(
    ("source", "rollouts"),
    [((), 10), (("--source", "joined"), 10), (("--source", "episodes"), 7)],
)
def test_each_log_of_a_folder_of_several_formats_can_be_named(
    joined_folder, call, source, rollouts
):
    assert call("check", joined_folder, *source, "--json").document["rollouts"] == rollouts
    assert call("index", joined_folder, *source, "--json").row["rollouts"] == rollouts
    assert len(call("rollouts", joined_folder, *source, "--json").document) == rollouts
    name = "run" if rollouts == 10 else "run (episodes)"
    result = call("findings", joined_folder, *source, "--index-only", "--json").document
    assert result["run"] == name
    one = call("show", joined_folder, *source, "--step", 2, "--index", 1, "--json").row
    assert ("logprobs" in one["metrics"]) == (rollouts == 10)


@pytest.mark.parametrize("command", ["steps", "findings", "rollouts"])
def test_a_split_of_joined_logs_can_be_named_and_all_of_them(joined_folder, call, command):
    def rollouts(*split: str) -> tuple[int, str]:
        called = call(command, joined_folder, *split, "--json")
        if command == "findings":
            return called.document["rollouts_read"], called.err
        return sum(row.get("rollouts", 1) for row in called.document), called.err

    counts = [rollouts("--split", name)[0] for name in ("train", "eval", "all")]
    assert counts[0] + counts[1] == counts[2]
    assert 0 < counts[1] < counts[0]
    usual, message = rollouts()
    assert usual == counts[2 if command == "rollouts" else 0]
    left_out = f"rollouts of split train; left out: {counts[1]} eval"
    assert (left_out in message) == (command != "rollouts")


def test_a_run_of_evaluations_alone_gives_them_without_a_word(call):
    called = call("steps", FORMATS / "skyrl/exports", "--json")
    assert sum(row["rollouts"] for row in called.document) == 12
    assert "split" not in called.err


def test_a_source_that_is_none_is_refused_with_the_names_there_are(tmp_path, call):
    message = refuses(call, "steps", JOINED, "--source", "trainer")
    assert "has no source 'trainer'; it has episodes, joined, prime_rl_tokens" in message
    write(tmp_path / "a.jsonl", [rollout(0)])
    write(tmp_path / "b.jsonl", [{"input": "a", "output": "b", "score": 1.0, "step": 0}])
    message = refuses(call, "steps", tmp_path)
    assert "logs of 2 formats that are not joined; give --source with one of jsonl, verl" in message
    assert len(call("steps", tmp_path, "--source", "verl", "--json").document) == 1


def test_check_says_what_was_joined_and_how_many_rollouts_stand_twice(tmp_path, call):
    called = call("check", JOINED, "--json")
    (join,) = called.document["joins"]
    assert (join["source"], join["joined"], join["rollouts"]) == ("prime_rl_tokens", 3, 6)
    message = call("check", JOINED).out.splitlines()[1]
    assert message.startswith(
        "3 of 6 rollouts joined with prime-rl token exports by step and exact"
    )
    dump = [{"input": "a", "output": f"b {i}", "score": 1.0, "step": 0} for i in range(3)]
    write(tmp_path / "0.jsonl", [*dump])
    write(tmp_path / "copy_0.jsonl", [*dump])
    called = call("check", tmp_path)
    assert called.out.splitlines()[0].endswith("rollouts 3, superseded 0, repeated 3")
    assert call("check", tmp_path, "--json").document["repeated"] == 3


@pytest.fixture
def with_metrics(run_folder: Path) -> Path:
    lines = ['{"step": 0, "loss": 0.5, "lr": 0.1}', '{"step": 1, "loss": NaN}', "torn"]
    write(run_folder / "metrics.jsonl", lines)
    return run_folder


def test_metrics_prints_a_row_for_each_step_with_null_where_nothing_is_recorded(call, with_metrics):
    assert call("metrics", with_metrics, "--json").document == [
        {"step": 0, "trainer/loss": 0.5, "trainer/lr": 0.1},
        {"step": 1, "trainer/loss": None, "trainer/lr": None},
    ]
    result = call("metrics", with_metrics, "--last", 1, "--columns", "trainer/lr")
    assert result.out.split() == ["step", "trainer/lr", "0", "0.1"]
    assert "a line that can't be read" in result.err


def test_names_of_metrics_come_with_file_and_number_of_points(call, with_metrics):
    common = {"file": "metrics.jsonl", "points": 1}
    assert call("metrics", with_metrics, "--names", "--json").document == [
        {"name": "trainer/loss", "last": 0.5, **common},
        {"name": "trainer/lr", "last": 0.1, **common},
    ]


def test_metrics_lie_where_they_are_said_to_and_steps_are_moved(call, run_folder, tmp_path):
    path = write(tmp_path / "elsewhere" / "metrics.jsonl", ['{"step": 3, "loss": 1.5}'])
    options = ("--metrics", path, "--metric-shift", -3)
    assert call("metrics", run_folder, *options, "--json").document == [
        {"step": 0, "trainer/loss": 1.5}
    ]
    query = "select value from metrics where step = 0"
    assert call("sql", run_folder, query, *options, "--json").document == [{"value": 1.5}]
    result = call("metrics", run_folder, "--metrics", tmp_path / "nothing")
    assert (result.code, "does not exist" in result.err) == (2, True)


def test_the_trainer_is_compared_with_all_rollouts_of_training_only(call, tmp_path):
    rows = [rollout(s, reward=s % 3 / 2, env=env) for s in range(1, 9) for env in ("a", "b")]
    folder = tmp_path / "run"
    write(folder / "rank_0.jsonl", rows)
    write(
        folder / "metrics.jsonl",
        [f'{{"step": {s}, "reward": {s % 3 / 2 + 2}}}' for s in range(1, 9)],
    )

    def rules(*more: str) -> list[str]:
        document = call("findings", folder, "--index-only", "--json", *more).document
        return [finding["rule"] for finding in document["rows"]]

    assert "trainer_differs" in rules()
    assert "trainer_differs" not in rules("--env", "a")


def test_findings_say_what_was_not_checked_and_a_required_rule_sets_the_exit_code(tmp_path, call):
    rows = [f'{{"step": {n}, "response": "r{n}", "reward": {n % 2}}}' for n in range(4)]
    folder = write(tmp_path / "run" / "rank_0.jsonl", rows).parent
    document = call("findings", folder, "--json").document
    states = {rule["rule"]: rule["state"] for rule in document["rules"]}
    assert states["mismatch"] == "not recorded"
    assert states["reward_outliers"] == "not enough data"
    called = call("findings", folder)
    assert "not recorded: mismatch (logprobs and sampling_logprobs)" in called.out
    assert "not enough data: reward_outliers (has 4 steps, needs 6)" in called.out
    assert called.code == 0
    assert call("findings", folder, "--require", "unscored").code == 0
    required = call("findings", folder, "--require", "unscored", "--require", "mismatch")
    assert required.code == 3
    assert "--require mismatch: not recorded" in required.err
    wrong = call("findings", folder, "--require", "mismatches")
    assert wrong.code == 2
    assert "did you mean mismatch" in wrong.err


def test_metrics_of_a_run_without_any_are_none(call, run_folder):
    result = call("metrics", run_folder, "--json")
    assert (result.document, result.code) == ([], 0)
    assert "no metrics of the trainer" in result.err


def test_check_names_what_is_wrong_with_metrics_and_where_they_differ(call, with_metrics):
    write(with_metrics / "other.jsonl", ['{"step": 1, "reward": 0.75}'])
    document = call("check", with_metrics, "--json").document
    severities = [(problem["path"], problem["severity"]) for problem in document["rows"]]
    assert severities == [("metrics.jsonl", "partial"), ("metrics.jsonl", "note")]
    (agreement,) = document["agreement"]
    (differing,) = agreement["differing"]
    assert differing == {
        "step": 1,
        "trainer": 0.75,
        "rollouts": 0.25,
        "recorded": 1,
        "missing": None,
    }
    assert "differ at 1 of 1 step, most at step 1" in call("check", with_metrics).out


def test_compare_prints_paired_differences(call, tmp_path):
    for name, reward in (("a", 0.25), ("b", 0.75)):
        rows = [rollout(s, reward=reward, prompt=f"p{p}") for s in (1, 2) for p in (0, 1)]
        write(tmp_path / name / "rank_0.jsonl", rows)
    document = call("compare", tmp_path / "a", tmp_path / "b", "--json").row
    assert (document["a"], document["b"], document["steps"]["a"]) == ("a", "b", [1, 2])
    reward = document["paired"]["reward"]
    assert reward == {
        "prompts": 2,
        "difference": 0.5,
        "low": None,
        "high": None,
        "won": 2,
        "lost": 0,
        "equal": 0,
        "p": None,
        "no_interval": "no interval: fewer than 6 prompts",
    }
    assert document["right"] == "right means reward ≥ 0.75, wrong means reward ≤ 0.25"
    result = call("compare", tmp_path / "a", tmp_path / "b", "--columns", "reward")
    assert "A a, B b: steps 1 to 2, 2 prompts in both" in result.out
    several = call("compare", tmp_path / "a", tmp_path / "b", tmp_path / "a", "--json").document
    assert [pair["b"] for pair in several["rows"]] == ["b", "a"]
    (together,) = several["seeds"]
    assert (together["runs"], together["prompts"]) == (["a", "b", "a"], 2)
    assert together["mean"] == pytest.approx([(0.25 + 0.75 + 0.25) / 3] * 2)
    unknown = call("compare", tmp_path / "a", tmp_path / "b", tmp_path / "a", "--by", "lr")
    assert (unknown.code, "no setting that differs" in unknown.err) == (2, True)
    unknown = call("compare", tmp_path / "a", tmp_path / "b", "--metric", "rewrd")
    assert (unknown.code, "did you mean reward" in unknown.err) == (2, True)


def test_compare_answers_first_and_ends_over_common_steps(call, tmp_path):
    common = "experiments_2026-11_Qwen2.5-7B-Instruct_grpo_gsm8k_hinted_clip_"
    for name, reward in (("seed1", 0.25), ("seed2", 0.75)):
        rows = [rollout(s, reward=reward, prompt=f"p{p}") for s in (1, 2) for p in range(6)]
        write(tmp_path / f"{common}{name}" / "rank_0.jsonl", rows)
    folders = [tmp_path / f"{common}{name}" for name in ("seed1", "seed2")]
    lines = call("compare", *folders).out.splitlines()
    said = (
        "…seed2 - …seed1: solve rate +1 (no interval: the difference is the same on all prompts) on 6 "
        "prompts, steps 1 to 2: …seed2 is higher"
    )
    assert lines[0] == said
    assert any(line.startswith("reward") and line.endswith("steps 1 to 2") for line in lines)
    document = call("compare", *folders, "--json").document
    answer = {"sentence": said, "outcome": "higher", "metric": "solve_rate"}
    assert document["rows"][0]["answer"] == answer
    (reward,) = (end for end in document["ends"] if end["metric"] == "reward")
    assert reward["steps"] == [1, 2]
    assert reward["differences"][0]["difference"] == 0.5


def test_contrasts_name_the_cheat_of_a_run_first(call):
    found = call("contrasts", "grpo_reward_hack", "--json").document["rows"]
    words = [one for one in found if one["kind"] == "words"]
    assert found[0] == words[0]
    assert (words[0]["feature"], words[0]["low"] > 0) == ("check", True)
    assert "effort" in call("contrasts", "grpo_reward_hack").out


def test_sample_size_prints_prompts_by_rollouts_of_each(call, tmp_path):
    rows = [
        rollout(s, reward=float((i * i + g + s) % 3), prompt=f"p{g}", group_id=str(g))
        for s in range(1, 5)
        for g in range(4)
        for i in range(4)
    ]
    write(tmp_path / "run" / "rank_0.jsonl", rows)
    document = call("sample-size", tmp_path / "run", "--difference", 0.5, "--json").document
    counts = [one["paired"] for one in document["rows"]]
    assert counts == sorted(counts, reverse=True)
    assert document["gain_share"]["share"] == 0.5  # half of the range of 0 to 2
    same = call("sample-size", tmp_path / "run", "--difference", 0.5, "--gain-share", 1, "--json")
    assert all(
        one["paired"] <= least for one, least in zip(same.document["rows"], counts, strict=True)
    )
    said = call("sample-size", tmp_path / "run", "--difference", 0.5).out
    assert "same prompts: 50 % of them gain" in said
    assert call("sample-size", tmp_path / "run", "--difference", 0).code == 2
    write(tmp_path / "bare" / "rank_0.jsonl", [rollout(s, reward=1.0) for s in (1, 2)])
    assert "not known" in call("sample-size", tmp_path / "bare", "--difference", 0.5).err


def test_a_server_has_looked_into_the_logs_before_the_first_page_asks(run_folder, tmp_path):
    serve._warm_up(run_folder.parent)
    assert run_folder / "rank_0.jsonl" in format_detection._seen
    serve._warm_up(tmp_path / "gone")  # the page says so


def test_index_fails_where_it_cannot_be_kept(run_folder, call, monkeypatch):
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage.pq, "write_table", refuse)
    called = call("index", run_folder)
    assert called.code == 2
    assert "can't be kept" in called.err


def test_a_list_of_many_runs_says_how_far_it_is(run_folder, call, monkeypatch):
    counted = list[tuple[int, int]]()
    monkeypatch.setattr(
        output.ProgressLine, "__call__", lambda self, done, total: counted.append((done, total))
    )
    shutil.copytree(run_folder, run_folder.parent / "run_b")
    assert call("runs", run_folder.parent).code == 0
    assert {(0, 2), (1, 2)} <= {*counted}
    assert output.runs_text(119, 500, 60.0) == "reading run 120 of 500, 192 s left"


def test_json_has_what_was_said_beside_it(tmp_path, call):
    rows = [rollout(1, split=split, reward=1.0) for split in ("train", "eval", "eval")]
    write(tmp_path / "run" / "a.jsonl", rows)
    called = call("steps", tmp_path / "run", "--json")
    document = json.loads(called.out)
    assert document["schema"] == "steps/1"
    assert any("2 eval" in note for note in document["notes"])
    assert all(note in called.err for note in document["notes"])


def test_a_filter_by_what_a_value_is_not_says_who_has_none(tmp_path, call):
    rows = [rollout(1, colour=colour) for colour in ("red", "blue", None)]
    write(tmp_path / "run" / "a.jsonl", rows)
    called = call("rollouts", tmp_path / "run", "--where", "colour != red", "--json")
    assert [row["colour"] for row in called.document] == ["blue"]
    assert "1 rollouts have no colour" in called.err
    also = call("rollouts", tmp_path / "run", "--where", "colour != red or missing(colour)")
    assert also.code == 0


@pytest.mark.parametrize("command", ["steps", "rollouts", "metrics"])
def test_columns_that_name_nothing_are_refused(command, with_metrics, call):
    assert "names no column" in refuses(call, command, with_metrics, "--columns", ",")


def test_a_limit_of_none_is_refused(run_folder, call, capsys):
    with pytest.raises(SystemExit):
        call("rollouts", run_folder, "--limit", 0)
    assert "expected 1 or more" in capsys.readouterr().err


def test_a_name_with_a_comma_stands_in_quotes(tmp_path, call):
    write(tmp_path / "run" / "a.jsonl", [rollout(1, **{"a,b": 3.0, "env": "x, y"})])
    options = ["--columns", 'step,"a,b"', "--env", '"x, y"', "--json"]
    assert call("rollouts", tmp_path / "run", *options).document == [{"step": 1, "a,b": 3.0}]


@pytest.mark.parametrize("size", [1e308, 1.7e308])
@pytest.mark.parametrize("command", ["steps", "findings", "contrasts", "export"])
def test_rewards_as_large_as_floats_are_let_no_warning_through(
    tmp_path, call, command, size, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = [
        rollout(step, reward=size * (-1) ** n, group_id=f"g{n // 4}")
        for step in range(8)
        for n in range(8)
    ]
    write(tmp_path / "run" / "a.jsonl", rows)
    given = ["--step", 2] if command == "export" else []
    assert call(command, tmp_path / "run", *given).code in (0, 1)
