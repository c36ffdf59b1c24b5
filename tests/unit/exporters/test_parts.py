import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opened_logs import lines
from read_formats import run_at

from exporters import RolloutExporter
from exporters.writing.files import RankFile
from exporters.writing.parts import Parts
from exporters.writing.sealing import compress

SMALLEST = 1 << 16
ROLLOUT = {"prompt_ids": [[1]], "response_ids": np.arange(4000)[None]}


def write_parts(folder: Path, steps: int, **options: Any) -> RolloutExporter:
    with RolloutExporter(folder, rotate_bytes=SMALLEST, **options) as exporter:
        for step in range(steps):
            exporter.log(step, **ROLLOUT)
            exporter.end_step(step)
    return exporter


def lines_of(text: bytes) -> list[dict[str, Any]]:
    return list(map(json.loads, text.splitlines()))


def test_a_full_file_is_followed_by_the_next_part_and_nothing_is_lost(tmp_path):
    write_parts(tmp_path, 20)
    paths = sorted(tmp_path.glob("*.jsonl"))
    assert all(path.stat().st_size <= SMALLEST for path in paths)
    parts = [lines_of(path.read_bytes()) for path in paths]
    assert len(parts) > 3
    assert [part[0]["type"] for part in parts] == ["header"] * len(parts)
    assert [part[0]["part"] for part in parts] == list(range(len(parts)))
    assert len({part[0]["attempt"] for part in parts}) == 1
    steps = [line["step"] for part in parts for line in part if line["type"] == "sample"]
    assert steps == list(range(20))
    assert parts[-1][-1]["type"] == "close"
    run = run_at(tmp_path)
    assert run.steps["step"].tolist() == steps
    assert run.steps["complete"].all()
    assert not run.problems


def test_a_line_bigger_than_a_part_is_written_whole(tmp_path):
    with RolloutExporter(tmp_path, rotate_bytes=SMALLEST) as exporter:
        for step in range(3):
            exporter.log(step, prompt_ids=[[1]], response_ids=np.arange(40_000)[None])
    sizes = [len(lines_of(path.read_bytes())) for path in tmp_path.glob("*.jsonl")]
    assert exporter.counts["records"] == 3
    assert sizes == [2, 2, 2, 2]  # a header and a rollout each, or the closing line


def test_full_parts_are_compressed_and_the_last_one_stays(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    exporter = write_parts(tmp_path, 20, compress="zstd")
    sealed, plain = sorted(tmp_path.glob("*.zst")), sorted(tmp_path.glob("*.jsonl"))
    assert plain == [exporter.path]
    assert len(sealed) > 2
    decompress = zstandard.ZstdDecompressor().decompress
    texts = [decompress(path.read_bytes()) for path in sealed] + [plain[0].read_bytes()]
    steps = [line["step"] for text in texts for line in lines_of(text) if line["type"] == "sample"]
    assert sorted(steps) == list(range(20))
    assert list(tmp_path.glob(".*")) == []


def test_a_part_that_cannot_be_compressed_stays_as_it_is(tmp_path, monkeypatch):
    pytest.importorskip("zstandard")
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("exporters.writing.sealing.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        compress(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]
    exporter = write_parts(tmp_path / "run", 20, compress="zstd")
    assert exporter.counts["errors:compress"] > 0
    assert exporter.counts["lost"] == 0
    assert not list((tmp_path / "run").glob("*.zst"))


def test_where_no_new_part_can_be_opened_the_old_one_takes_the_lines(tmp_path, monkeypatch):
    parts = Parts(tmp_path, lambda number: f"{number}.jsonl", None, 10)
    parts.append(b"first\n")

    def refused(self: RankFile, path: Path) -> None:
        raise OSError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(RankFile, "__init__", refused)
        parts.append(b"second\n")
    parts.append(b"third\n")
    parts.close()
    assert (tmp_path / "0.jsonl").read_bytes() == b"first\nsecond\n"
    assert (tmp_path / "1.jsonl").read_bytes() == b"third\n"


def test_a_part_whose_header_does_not_fit_leaves_no_empty_file(tmp_path, monkeypatch):
    def full(self: RankFile, line: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RankFile, "append", full)
    with pytest.raises(OSError, match="No space"):
        Parts(tmp_path, lambda number: f"{number}.jsonl", lambda _: b"header\n", 10)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_somebody_removed_is_followed_by_a_new_one(tmp_path):
    with RolloutExporter(tmp_path, mode="sync") as exporter:
        exporter.log(1, **ROLLOUT)
        exporter.path.unlink()
        exporter.log(2, **ROLLOUT)
    assert [line["type"] for line in lines(exporter)] == ["header", "sample", "close"]
