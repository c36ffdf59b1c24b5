"""Names of files and folders that nobody expected: a run opens whatever its name, or is named."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import run_at
from written_logs import native_run

from board.errors import UnreadableError
from board.index.discovery.discovered_runs import discover

LINE = '{"step": 1, "prompt": "p", "response": "r", "reward": 1.0}\n'
NAMES = st.one_of(
    st.binary(min_size=1, max_size=9), st.text("\\*[]?'\"\n%é", min_size=1).map(str.encode)
)


def log_in(folder: Path) -> Path:
    folder.mkdir()
    (folder / "x.jsonl").write_text(LINE)
    return folder


@given(NAMES.map(lambda name: name.replace(b"/", b"").replace(b"\0", b"")))
def test_a_folder_of_any_name_is_a_run_or_is_named(tmp_path_factory, name):
    root = tmp_path_factory.mktemp("names")
    log_in(root / "good")
    folder = log_in(root / os.fsdecode(b"r-" + name))
    discovery = discover(root)
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        assert [run.name for run in discovery.runs] == ["good"]
        (problem,) = discovery.left_out
        assert problem.severity == "lost"
        problem.reason.encode("utf-8")
        with pytest.raises(UnreadableError, match="UTF-8"):
            discover(folder)
    else:
        assert {run.path for run in discovery.runs} == {root / "good", folder}
        run = run_at(folder, persist=True)
        assert run.rollout_count == 1
        assert run.index_folder is not None


def test_a_log_whose_name_is_not_utf8_is_named_beside_the_others(tmp_path):
    native_run(tmp_path / "run")
    (tmp_path / "run" / os.fsdecode(b"\xff.jsonl")).write_text(LINE)
    discovery = discover(tmp_path)
    assert len(discovery.runs) == 1
    assert any("UTF-8" in problem.reason for problem in discovery.left_out)
