"""Files that are dropped on the page open as a run, and nothing else of the disk opens with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_elements import assert_sound

from board.errors import BoardError
from board.formats.io.locations import cache_folder, open_binary
from board.index.dropped_files import file_name
from board.views.frame import sidebar

LINE = b'{"step": 1, "prompt": "Q", "response": "a", "reward": %d.5}\n'


def drop(app, *files):
    app.get("file_uploader")[0].set_value([(name, data, "") for name, data in files])
    app.run()
    assert_sound(app)
    return app


def test_files_of_any_name_open_at_once_as_a_run(open_app, logs):
    files = [("rank0.jsonl", LINE % 1), ("rank1.jsonl", LINE % 2), ("../up/rank0.jsonl", LINE % 3)]
    app = drop(open_app(logs, "runs"), *files)
    run = app.session_state[sidebar._RUN]
    assert run.info.name == "rank0"
    assert run.rollout_count == 3
    assert {Path(file.path).name for file in run.info.files} == {
        "rank0.jsonl",
        "rank1.jsonl",
        "2-rank0.jsonl",
    }


def test_files_that_are_no_log_are_named_on_a_page_that_is_drawn_whole(open_app, logs):
    app = drop(open_app(logs, "runs"), ("notes.jsonl", b"no log"))
    assert "Files that are not rollout logs" in str([line.value for line in app.main.markdown])


@given(name=st.text(min_size=1, max_size=300))
def test_no_name_leads_out_of_the_folder_that_was_made_for_it(name):
    kept = file_name(name)
    assert kept in ("", Path(kept).name)
    assert not kept.startswith(".")
    assert "\0" not in kept
    assert len(kept.encode()) <= 255


@pytest.mark.parametrize("path", ["", "..", "dropped", "dropped/server", "summaries.sqlite3"])
def test_of_the_cache_only_folders_of_files_are_opened(path, tmp_path, monkeypatch):
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(tmp_path))
    (cache_folder() / "dropped" / "server" / "files").mkdir(parents=True, exist_ok=True)
    assert sidebar.root_of(str(cache_folder() / "dropped" / "server" / "files"))
    with pytest.raises(BoardError):
        sidebar.root_of(str(cache_folder() / path))


def test_a_link_among_the_files_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(tmp_path / "shown"))
    (tmp_path / "shown").mkdir()
    (tmp_path / "secret.jsonl").write_bytes(LINE % 1)
    folder = cache_folder() / "dropped" / "server" / "linked"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "link.jsonl"
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "secret.jsonl")
    with pytest.raises(PermissionError), open_binary(link):
        pass
