"""A scaffolded reader is known once its package is installed, and its test passes as it was written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_logs import write_lines as write

from board import cli
from board.cli.commands import scaffold

ROOT = Path(__file__).parents[2]
KEYS = st.sampled_from(
    ["step", "iteration", "response", "completion", "reward", "score", "q", "id"]
)
WORDS = st.text(alphabet="abc \"'{}\\n", min_size=1, max_size=20)


def installed(package: Path, folder: Path) -> None:
    """Put what `pip install` makes of an entry point into a folder on the path."""
    (folder / "x-0.1.0.dist-info").mkdir(parents=True)
    points = package.joinpath("pyproject.toml").read_text().partition("[project.entry-points")[2]
    line = points.splitlines()[1].replace('"', "")
    (folder / "x-0.1.0.dist-info" / "METADATA").write_text("Name: x\nVersion: 0.1.0\n")
    (folder / "x-0.1.0.dist-info" / "entry_points.txt").write_text(
        f"[rollout_board.readers]\n{line}\n"
    )


def test_the_test_of_a_scaffolded_reader_passes(tmp_path):
    rows = [
        {"iter": step, "sample": {"out": f"it is {step}, I think"}, "score_total": step / 2}
        for step in range(1, 6)
    ]
    log = write(tmp_path / "log.jsonl", rows)
    package = tmp_path / "package"
    assert cli.main(["scaffold-reader", "my_trainer", str(log), "-o", str(package)]) == 0
    installed(package, tmp_path / "site")
    paths = os.pathsep.join(map(str, (tmp_path / "site", package, ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package)]
    result = subprocess.run(
        command, env=environment, cwd=package, capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stdout + result.stderr
    sniff = [sys.executable, "-m", "board.cli", "sniff", str(log), "--json"]
    sniff = [sys.executable, "-c", "from board.cli import main; main()", *sniff[3:]]
    known = subprocess.run(sniff, env=environment, capture_output=True, text=True, timeout=100)
    assert json.loads(known.stdout)["rows"][0]["reader"] == "my_trainer"


@settings(max_examples=40)
@given(line=st.dictionaries(KEYS | WORDS, WORDS | st.integers(), min_size=1))
def test_what_is_written_is_python_for_keys_of_any_characters(line):
    keys = {"step": "iteration", "response": "completion"} | dict.fromkeys(["reward"], "a.b")
    compile(scaffold._reader("name", keys, line), "reader.py", "exec")
    compile(scaffold._test(keys, "log.jsonl", [line]), "test.py", "exec")


@pytest.mark.parametrize("name", ["My", "a-b", "1a", "../x", ""])
def test_a_name_that_is_none_of_a_module_is_refused(name, tmp_path, capsys):
    log = write(tmp_path / "log.jsonl", [{"step": 1, "response": "a"}])
    assert cli.main(["scaffold-reader", name, str(log), "-o", str(tmp_path / "p")]) == 2
    assert "name of a reader" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_nothing_is_overwritten_and_no_other_file_becomes_a_fixture(tmp_path, capsys):
    log = write(tmp_path / "log.jsonl", [{"step": 1, "response": "a"}])
    (tmp_path / "there").mkdir()
    assert cli.main(["scaffold-reader", "a", str(log), "-o", str(tmp_path / "there")]) == 2
    (tmp_path / "text.txt").write_text("hello")
    assert cli.main(["scaffold-reader", "a", str(tmp_path / "text.txt")]) == 2
    assert "lines of JSON" in capsys.readouterr().err
