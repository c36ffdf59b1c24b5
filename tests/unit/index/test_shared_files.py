"""Notes on runs and saved views: what two writers leave, and what hostile files can't do."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import info_at
from written_logs import native_run

from board.cli import main
from board.errors import ChoiceError
from board.index import run_notes, saved_views, shared_files
from board.index.run_notes import ChangedNoteError, read_note, write_note
from board.index.saved_views import read_views, write_views
from board.index.storage import INDEX_FOLDER


@pytest.fixture
def info(tmp_path):
    native_run(tmp_path / "run", per_rank=1)
    return info_at(tmp_path / "run")


def notes_file(info) -> Path:
    return info.path / INDEX_FOLDER / run_notes.FILE


def test_a_note_is_read_where_the_run_is(info, capsys):
    assert read_note(info).text == ""
    write_note(info, "  baseline,\n\x1b[31m<b> ", "ann", over="")
    note = read_note(info)
    assert (note.text, note.author) == ("baseline, �[31m<b>", "ann")
    assert notes_file(info).is_file()
    assert main(["runs", str(info.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["note"] == note.text
    write_note(info, "", "ann", over=note.text)
    assert read_note(info).text == ""


def test_a_note_is_not_written_over_one_that_nobody_saw(info):
    write_note(info, "first", "ann", over="")
    with pytest.raises(ChangedNoteError) as raised:
        write_note(info, "second", "bob", over="")
    assert (raised.value.now.text, read_note(info).text) == ("first", "first")
    write_note(info, "second", "bob", over="first")
    assert read_note(info).author == "bob"


def test_of_writers_at_once_that_saw_the_same_note_a_single_one_wins(info):
    def write(n: int) -> bool:
        try:
            write_note(info, f"note {n}", "ann", over="")
        except ChangedNoteError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        written = [*pool.map(write, range(24))]
    assert sum(written) == 1
    assert read_note(info).text == f"note {written.index(True)}"


def test_a_note_is_bounded(info):
    with pytest.raises(ChoiceError, match="at most 500"):
        write_note(info, "x" * 501, "ann", over="")
    assert not notes_file(info).exists()


HOSTILE = (
    *("", "{", "[]", "null", "[" * 10_000, '{"time": "now", "note": 3}', "\0"),
    '{"time": 1e999, "author": "a", "part": "", "note": "never"}',
    '{"time": -1, "author": "a", "part": "", "note": "never"}',
    '{"time": 9, "page": "rollouts", "views": {"": "a=1", "x\\u202e": "a=1", "n": 3, "d": null}}',
    '{"time": 9, "page": "rollouts", "views": ["n"]}',
)


def test_lines_that_are_no_entries_are_left_out(info, tmp_path):
    write_note(info, "good", "ann", over="")
    write_views(tmp_path, "rollouts", {"mine": "where=a"})
    views_file = tmp_path / INDEX_FOLDER / saved_views.FILE
    for path in (notes_file(info), views_file):
        with path.open("ab") as file:
            file.write(b"\xff\xfe\n" + "\n".join(HOSTILE).encode())
    assert read_note(info).text == "good"
    assert read_views(tmp_path, "rollouts") == {"mine": "where=a"}
    write_note(info, "better", "ann", over="good")
    write_views(tmp_path, "rollouts", {"other": ""})
    assert read_note(info).text == "better"
    assert [*read_views(tmp_path, "rollouts")] == ["mine", "other"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_neither_read_nor_written(info, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    path, secret = notes_file(info), tmp_path / "secret"
    path.parent.mkdir(exist_ok=True)
    secret.write_text('{"time": 1, "author": "a", "part": "", "note": "secret"}\n')
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    before = secret.read_text()
    assert read_note(info).text == ""
    if kind != "pipe":
        write_note(info, "kept", "ann", over="")
        assert read_note(info).text == "kept"
    assert secret.read_text() == before


def test_of_a_file_that_is_too_large_the_end_is_read(info, monkeypatch):
    monkeypatch.setattr(shared_files, "LARGEST_BYTES", 4000)
    for n in range(100):
        write_note(info, f"note {n}", "ann", over=f"note {n - 1}" if n else "")
    assert read_note(info).text == "note 99"


def test_a_view_is_not_renamed_over_another(tmp_path):
    write_views(tmp_path, "rollouts", {"a": "where=1"})
    write_views(tmp_path, "rollouts", {"b": "where=2"})
    with pytest.raises(ChoiceError, match="already"):
        write_views(tmp_path, "rollouts", {"a": None, "b": "where=1"}, new="b")
    assert read_views(tmp_path, "rollouts") == {"a": "where=1", "b": "where=2"}
    assert read_views(tmp_path, "runs") == {}


@pytest.mark.parametrize("name", ["", "x" * 61, "a\nb", " a"])
def test_a_view_has_a_name_of_some_characters_on_one_line(tmp_path, name):
    with pytest.raises(ChoiceError, match="name"):
        write_views(tmp_path, "rollouts", {name: ""})


NAMES = st.sampled_from("abcdefg")
CHANGES = st.lists(
    st.dictionaries(NAMES, st.one_of(st.none(), st.text(max_size=5)), min_size=1, max_size=3),
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(CHANGES)
def test_views_are_what_their_changes_say_in_order(tmp_path_factory, changes):
    root, expected = tmp_path_factory.mktemp("root"), {}
    for change in changes:
        write_views(root, "rollouts", change)
        for name, query in change.items():
            expected.pop(name, None)
            if query is not None:
                expected[name] = query
    assert read_views(root, "rollouts") == expected


def test_views_that_several_people_save_at_once_are_all_there(tmp_path):
    def save(n: int) -> None:
        write_views(tmp_path, "runs", {f"view {n}": f"runs_search={n}"})

    with ThreadPoolExecutor(8) as pool:
        [*pool.map(save, range(40))]
    assert [*read_views(tmp_path, "runs")] == [f"view {n}" for n in range(40)]
