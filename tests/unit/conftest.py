"""What the tests of the store share: files of a run, written by hand, and the run opened from them."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from board.index.discovery.discovered_runs import discover
from board.query.open_run import OpenOptions, Run, open_run

WriteLog = Callable[..., Path]
OpenFolder = Callable[..., Run]


@pytest.fixture
def write_log(tmp_path) -> WriteLog:
    """Writes one log file: dicts as JSON lines, bytes as they are; at rest for an hour."""

    def write(name: str, *lines: dict | bytes, fresh: bool = False) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            b"".join(
                line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
                for line in lines
            )
        )
        if not fresh:
            an_hour_ago = time.time() - 3600
            os.utime(path, (an_hour_ago, an_hour_ago))
        return path

    return write


@pytest.fixture
def opened(tmp_path) -> OpenFolder:
    """Opens the only run there is under the test's folder."""

    def open_only(**options) -> Run:
        (info,) = discover(tmp_path).runs
        return open_run(info, OpenOptions(**options))

    return open_only
