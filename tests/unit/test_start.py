"""What commands import: nothing that takes long and that they don't need."""

import json
import shutil
import subprocess
import sys

import pytest
from read_formats import SAMPLES

HEAVY = ("pandas", "plotly", "streamlit", "pyarrow.dataset")
SCRIPT = """
import contextlib, io, json, sys
from board.cli import main

found = {}
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            assert main(command) == 0, command
        except SystemExit as ended:  # of --help
            assert not ended.code, command
    found[" ".join(command)] = [name for name in json.loads(sys.argv[2]) if name in sys.modules]
print(json.dumps(found))
"""


def imported(commands, names=HEAVY):
    """By command which of the modules the process has when it and those before have ended."""
    arguments = [json.dumps(commands), json.dumps(names)]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


def questions(run):
    return [
        ["steps", run, "--json"],
        ["steps", run, "--where", "index > 0", "--split", "all"],
        ["rollouts", run, "--limit", "5"],
        ["rollouts", run, "--csv", "--sort", "index", "--desc"],
        ["show", run, "--step", "1", "--index", "0"],
        ["sql", run, "SELECT count(*) FROM rollouts, steps, groups, problems"],
        ["runs", run],
    ]


@pytest.fixture
def run_of_parts(tmp_path):
    """A run whose log has the parts of its reward alone."""
    rows = [
        {"step": step, "prompt": "Q", "response": "r", "group_id": f"{step}"}
        | {"rewards": {"right": place / 4, "format": 1.0}, "rank": place % 2}
        for step in range(1, 9)
        for place in range(4)
    ]
    (tmp_path / "parts").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "parts" / "rollouts.jsonl").write_text(lines)
    return tmp_path / "parts"


@pytest.mark.parametrize("name", ["parts", "resumed"])
def test_a_question_to_a_run_needs_no_frames_or_pages(name, tmp_path, run_of_parts):
    folder = run_of_parts if name == "parts" else shutil.copytree(SAMPLES / name, tmp_path / name)
    asked = questions(str(folder))
    commands = [*asked, ["index", str(folder)], *asked]
    assert imported(commands) == {" ".join(command): [] for command in commands}


@pytest.mark.parametrize("command", ["steps", "runs"])
def test_an_index_is_asked_without_what_makes_one(command, run_of_parts):
    folder = str(run_of_parts)
    imported([["index", folder]])
    needless = (*HEAVY, "numpy.ma", "pyarrow.compute", "board.core.findings.facts")
    asked = [command, folder]
    assert imported([asked], needless) == {" ".join(asked): []}


def test_arrow_finds_pandas_again_for_a_frame():
    script = """
from board.index.arrow_start import leave_pandas_out
leave_pandas_out()
import pyarrow as pa
frame = pa.table({"n": [1, None]}).to_pandas()
assert frame["n"].isna().tolist() == [False, True]
assert pa.array(frame["n"]).null_count == 1
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_help_needs_no_package():
    asked = [["--help"], ["--version"], ["steps", "--help"]]
    packages = ("numpy", "pyarrow", "duckdb", "orjson", *HEAVY)
    assert imported(asked, packages) == {" ".join(command): [] for command in asked}
