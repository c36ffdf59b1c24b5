"""Disks that are full, folders that cannot be written, and writes that fail in between."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opened_logs import lines
from read_formats import run_at

from exporters import RolloutExporter

MEGABYTES = 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB; skipped where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={MEGABYTES}m"
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
        )
    except OSError:
        pytest.skip("no mount command")
    if done.returncode:
        pytest.skip("a tmpfs may only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def log(exporter: RolloutExporter, step: int) -> None:
    values = np.random.default_rng(step).standard_normal((4, 8000))
    exporter.log(step, prompt_ids=[[1]] * 4, response_ids=[[2] * 8000] * 4, logprobs=values)
    exporter.end_step(step, loss=0.5)


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_on_a_full_disk_training_goes_on_losses_are_counted_and_writing_recovers(small_disk, mode):
    exporter = RolloutExporter(small_disk / "run", mode=mode)
    for step in range(12):
        log(exporter, step)
    assert exporter.flush()
    lost = exporter.counts["lost"]
    assert lost > 0
    assert exporter.counts["records"] + lost == 48
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    for step in range(12, 15):
        log(exporter, step)
    exporter.close()
    samples, ends = lines(exporter, "sample"), lines(exporter, "step_end")
    assert len(samples) == exporter.counts["records"] == 60 - lost
    assert [s["step"] for s in samples[-12:]] == [s for s in (12, 13, 14) for _ in range(4)]
    assert [end["step"] for end in ends] == [*range(15)], "what was owed came when there was room"
    assert sum(end["dropped"] for end in ends) == lines(exporter)[-1]["lost"] == lost
    run = run_at(small_disk)
    assert len(run.rollouts) == 60 - lost


def full(*_: Any) -> int:
    raise OSError(28, "No space left on device")


def test_a_write_that_stops_in_the_middle_of_a_line_leaves_no_part_of_it(tmp_path, monkeypatch):
    real = os.write
    room = [150_000]

    def limited(descriptor: int, data: Any) -> int:
        if not room[0]:
            return full()
        written = real(descriptor, data[: room[0]])
        room[0] -= written
        return written

    exporter = RolloutExporter(tmp_path, mode="sync")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", limited)
        log(exporter, 1)
        assert room[0] == 0
    log(exporter, 2)
    exporter.close()
    steps = [sample["step"] for sample in lines(exporter, "sample")]
    assert 0 < steps.count(1) < 4
    assert steps.count(2) == 4
    assert exporter.counts["lost"] == 4 - steps.count(1)


def test_where_even_the_closing_line_does_not_fit_close_does_not_raise(tmp_path, monkeypatch):
    exporter = RolloutExporter(tmp_path)
    monkeypatch.setattr(os, "write", full)
    exporter.close()
    assert exporter.counts["errors:close"] == 1


def test_a_folder_that_cannot_be_written_is_an_error_of_the_constructor_that_says_what_to_do(
    tmp_path,
):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file") as caught:
        RolloutExporter(tmp_path / "file" / "run")
    assert any("out_dir" in note for note in caught.value.__notes__)


def test_a_read_only_disk_is_an_error_of_the_constructor(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(OSError, match="Read-only"):
        RolloutExporter(small_disk / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_error_of_the_constructor(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        RolloutExporter(tmp_path / "run")


def test_a_folder_that_becomes_read_only_loses_nothing_of_the_open_file(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    exporter = RolloutExporter(tmp_path / "run", rotate_bytes=1 << 16)
    (tmp_path / "run").chmod(0o500)
    for step in range(3):
        log(exporter, step)
    exporter.close()
    (tmp_path / "run").chmod(0o700)
    assert exporter.counts["records"] == 12
    assert exporter.counts["lost"] == 0
