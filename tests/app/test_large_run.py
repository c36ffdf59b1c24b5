"""A large run is read by a process of its own: the page shows what there is, and reads nothing itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from board.index import build
from board.index.discovery.discovered_runs import discover
from board.query import open_run
from board.query.open_run import Follower, OpenOptions
from board.views.shared import opened_runs


class Builder:
    """A process that has not begun, until it is told to build and to end."""

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


def test_a_page_reads_nothing_of_a_run_while_a_process_does_and_all_that_it_left(
    tmp_path: Path, monkeypatch: Any
) -> None:
    line = {"input": "ask", "output": "say", "score": 1.0, "step": 1}
    (tmp_path / "1.jsonl").write_text(f"{json.dumps(line)}\n" * 3)
    builder, read = Builder(), list[str]()
    real = build.extend

    def extend(*args: Any, **options: Any) -> Any:
        read.append("here")
        return real(*args, **options)

    monkeypatch.setattr(opened_runs, "_OTHER_PROCESS_BYTES", 1)
    monkeypatch.setattr(opened_runs, "start", lambda info, options: builder)
    monkeypatch.setattr(open_run, "extend", extend)
    (info,) = discover(tmp_path).runs
    seen = [opened_runs.opened(info, OpenOptions()).rollout_count for _ in range(2)]
    assert (seen, read, opened_runs.is_building(info, OpenOptions())) == ([0, 0], [], True)
    Follower(persist=True).run(info)
    assert read.pop() == "here"
    assert (opened_runs.opened(info, OpenOptions()).rollout_count, read) == (3, [])
    with (tmp_path / "1.jsonl").open("a") as file:
        file.write(f"{json.dumps(line)}\n" * 2)
    (info,) = discover(tmp_path).runs
    builder.code = 1
    assert opened_runs.opened(info, OpenOptions()).rollout_count == 5
    assert (read, opened_runs.is_building(info, OpenOptions())) == (["here"], False)
