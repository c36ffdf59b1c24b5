"""A vocab.json that can't be used is called so, and is read again when it changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

from shown import OpenApp, texts

from board.index.discovery.discovered_runs import discover
from board.query.open_run import OpenOptions
from board.views.shared import cache, opened_runs

LINE = {"step": 1, "prompt_ids": [0], "response_ids": [1, 0], "reward": 1.0}


def log(folder: Path, vocabulary: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.jsonl").write_text(json.dumps(LINE) + "\n")
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return folder


def test_the_page_and_log_health_say_why_it_cannot_be_used(
    tmp_path: Path, open_app: OpenApp
) -> None:
    log(tmp_path / "run", {"x": "a"})
    for page, choice in (("rollout", {}), ("findings", {"findings_health": "1"})):
        words = texts(open_app(tmp_path, page, **choice))
        assert "vocab.json" in words.replace("\\", "")
        assert "has no vocab.json" not in words.replace("\\", "")
        assert "can't be used" in words
    assert "value left out" not in words


def test_it_is_read_again_when_it_changes(tmp_path: Path) -> None:
    log(tmp_path, {"x": "a"})
    (info,) = discover(tmp_path).runs
    broken = opened_runs.opened(info, OpenOptions())
    assert (broken.vocabulary, bool(broken.sidecars.vocabulary_error)) == (None, True)
    (tmp_path / "vocab.json").write_text(json.dumps({"0": "yes", "1": " no"}))
    os.utime(tmp_path / "vocab.json", (1e9, 1e9))
    mended = opened_runs.opened(info, OpenOptions())
    assert mended.vocabulary is not None
    assert (mended.sidecars.vocabulary_error, mended.version == broken.version) == ("", False)
    assert "".join(cache.rollout(mended, 1, 0).tokens) == " noyes"
    assert mended.rollouts["response"].tolist() == [" noyes"]
