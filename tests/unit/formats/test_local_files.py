"""What a server opens: files below the folder it shows, whatever becomes a link meanwhile."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from board.analysis.rollout import open_rollout
from board.errors import UnreadableError
from board.formats.io import locations
from board.formats.io.lines import read_bytes, read_lines
from board.formats.io.locations import binary
from board.formats.io.parquet_files import PARQUET
from board.index.discovery.discovered_runs import discover
from board.index.discovery.mappings import content_of
from board.query.open_run import Follower, open_run

SECRET = '{"step": 1, "prompt": "p", "response": "secret", "reward": 1.0}\n'
SHOWN = SECRET.replace("secret", "answer")


@pytest.fixture
def visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a server shows; it holds run/a.jsonl. Beside it lies outside/a.jsonl."""
    for folder, text in (("shown/run", SHOWN), ("outside", SECRET)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.jsonl").write_text(text)
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(tmp_path / "shown"))
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROLLOUT_BOARD_ALLOW_ANY_PATH", raising=False)
    return tmp_path / "shown"


def swap(path: Path, target: Path) -> None:
    """A link in the place of a file or a folder."""
    path.rename(path.with_name("before"))
    path.symlink_to(target)


def _with(path: Path) -> bytes:
    with binary(path) as file:
        return file.read()


@pytest.mark.parametrize(
    "read",
    [
        lambda path: read_bytes(path, 0, 100),
        lambda path: b"\n".join(bytes(line.text or b"") for line in read_lines(path, 0, 100)),
        _with,
        content_of,
    ],
    ids=["bytes", "lines", "file", "content"],
)
@pytest.mark.parametrize("swapped", ["run", "run/a.jsonl"])
def test_nothing_is_read_through_a_link_that_leads_outside(visible, swapped, read):
    path = visible / "run" / "a.jsonl"
    assert b"answer" in read(path)
    outside = visible.parent / "outside"
    swap(visible / swapped, outside / "a.jsonl" if swapped.endswith("jsonl") else outside)
    with pytest.raises(OSError, match="outside the root"):
        read(path)


@pytest.mark.parametrize("swapped", ["run", "run/a.jsonl"])
def test_what_becomes_a_link_after_the_check_is_not_followed(visible, swapped, monkeypatch):
    outside = visible.parent / "outside"
    target = outside / "a.jsonl" if swapped.endswith("jsonl") else outside
    resolve = os.path.realpath

    def then_swapped(path: str | Path) -> str:
        result = resolve(path)
        if Path(path).name == "a.jsonl":
            swap(visible / swapped, target)
        return result

    monkeypatch.setattr(locations.os.path, "realpath", then_swapped)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        read_bytes(visible / "run" / "a.jsonl", 0, 100)


@pytest.mark.parametrize("swapped", ["folder", "table"])
def test_no_table_of_an_index_is_read_through_a_link_that_leads_outside(visible, swapped):
    (info,) = discover(visible).runs
    run = Follower(persist=True).run(info)
    other = shutil.copytree(run.index_folder, visible.parent / "outside" / "index")
    (table,) = run.index_folder.glob("rows-*")
    if swapped == "folder":
        swap(run.index_folder, other)
    else:
        swap(table, other / table.name)
    with pytest.raises(UnreadableError, match="outside the root"):
        run.of_step(1)


def test_an_index_of_links_that_lead_outside_is_made_again(visible):
    (info,) = discover(visible).runs
    folder = Follower(persist=True).run(info).index_folder
    other = shutil.copytree(folder, visible.parent / "outside" / "index")
    for file in list(folder.iterdir()):
        file.unlink()
        file.symlink_to(other / file.name)
    (folder / "lock").unlink()
    run = Follower(persist=True).run(info)
    assert run.of_step(1)["response"].tolist() == ["answer"]
    assert not (folder / "manifest.json").is_symlink()


def test_links_within_the_folder_and_files_of_the_cache_are_read(visible):
    (visible / "link.jsonl").symlink_to(visible / "run" / "a.jsonl")
    assert b"answer" in read_bytes(visible / "link.jsonl", 0, 100)
    (visible.parent / "cache").mkdir()
    (visible.parent / "cache" / "unpacked.jsonl").write_text(SHOWN)
    assert b"answer" in read_bytes(visible.parent / "cache" / "unpacked.jsonl", 0, 100)


def test_a_folder_whose_files_can_t_be_listed_is_passed_through(visible):
    (visible / "run").chmod(0o311)
    try:
        assert b"answer" in read_bytes(visible / "run" / "a.jsonl", 0, 100)
    finally:
        (visible / "run").chmod(0o755)


def test_any_path_may_be_read_where_that_was_allowed(visible, monkeypatch):
    outside = visible.parent / "outside" / "a.jsonl"
    with pytest.raises(PermissionError):
        read_bytes(outside, 0, 100)
    monkeypatch.setenv("ROLLOUT_BOARD_ALLOW_ANY_PATH", "1")
    assert b"secret" in read_bytes(outside, 0, 100)


def test_a_log_file_that_is_shown_alone_may_be_a_link(visible, monkeypatch):
    (visible / "link.jsonl").symlink_to(visible.parent / "outside" / "a.jsonl")
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(visible / "link.jsonl"))
    assert b"secret" in read_bytes(visible / "link.jsonl", 0, 100)


def test_of_a_file_named_for_its_metrics_none_beside_it_may_be_read(visible, monkeypatch):
    outside = visible.parent / "outside" / "a.jsonl"
    (outside.parent / "b.jsonl").write_text("beside")
    monkeypatch.setenv("ROLLOUT_BOARD_METRICS", str(outside))
    assert b"secret" in read_bytes(outside, 0, 100)
    with pytest.raises(PermissionError):
        read_bytes(outside.parent / "b.jsonl", 0, 100)
    monkeypatch.setenv("ROLLOUT_BOARD_METRICS", str(outside.parent))
    assert read_bytes(outside.parent / "b.jsonl", 0, 100) == b"beside"


def test_tables_are_opened_by_the_same_door(visible):
    for folder, text in (("shown/run", "answer"), ("outside", "secret")):
        pq.write_table(pa.table({"response": [text]}), visible.parent / folder / "t.parquet")
    path = visible / "run" / "t.parquet"
    assert "answer" in str(next(iter(PARQUET.lines(path))).record)
    swap(visible / "run", visible.parent / "outside")
    with pytest.raises(OSError, match="outside the root"):
        list(PARQUET.lines(path))


def test_a_run_that_was_opened_shows_no_rollout_of_a_file_that_was_swapped(visible):
    run = open_run(discover(visible).runs[0])
    assert open_rollout(run, 1, 0).record.texts["response"] == "answer"
    swap(visible / "run", visible.parent / "outside")
    with pytest.raises(UnreadableError, match="outside the root"):
        open_rollout(run, 1, 0)
