from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import written_logs

from board.store.discovery import RunInfo, discover
from board.store.run import OpenOptions, Run
from board.views import _cached, _first_visit

PROJECT = Path(__file__).parents[2]


def opened(info: RunInfo) -> Run | None:
    return _cached._slot(info.path, info.part, OpenOptions()).run


def shown_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> RunInfo:
    written_logs.native_run(root / "newest")
    written_logs.age(written_logs.rllb_run(root / "older"), 60)
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(root))
    return discover(root).runs[0]


def test_the_newest_run_is_open_before_anybody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = shown_run(tmp_path, monkeypatch)
    _first_visit.open_shown()
    run = opened(newest)
    assert run is not None
    assert run.rollout_count
    assert opened(discover(tmp_path).runs[1]) is None
    assert _cached.run(newest, OpenOptions()) is run


def test_a_run_that_takes_long_to_read_waits_for_its_visitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = shown_run(tmp_path, monkeypatch)
    monkeypatch.setattr(_cached, "_SHOW_PROGRESS_BYTES", 0)
    _first_visit.open_shown()
    assert opened(newest) is None


def test_a_folder_that_can_not_be_shown_is_left_to_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(tmp_path / "gone"))
    _first_visit.open_shown()


def test_a_first_page_finds_all_code_of_the_board_loaded() -> None:
    scripts = (PROJECT / "app.py", PROJECT / "board" / "views" / "overview.py")
    wanted: set[str] = set()
    for script in scripts:
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("board"):
                nested = {f"{node.module}.{name.name}" for name in node.names}
                is_views = node.module == "board.views"
                wanted |= nested if is_views else {str(node.module)}
    code = (
        "import sys\nfrom board.views import _first_visit\n_first_visit.load()\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert wanted - set(done.stdout.split()) == set()
