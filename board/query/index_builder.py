"""Builds an index in a process of its own, so that the server stays small and quick."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from board.core.records import ReadOptions
from board.index.arrow_start import leave_pandas_out
from board.index.discovery.run_info import RunInfo
from board.query.open_run import Follower, OpenOptions


def start(info: RunInfo, options: ReadOptions) -> subprocess.Popen[bytes]:
    """Begins to build the index of a run; it is finished when the process has ended."""
    project = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", __name__]
    process = subprocess.Popen(
        command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    with process.stdin as its_input:
        pickle.dump((info, options), its_input)
    return process


if __name__ == "__main__":
    leave_pandas_out()
    info, options = pickle.load(sys.stdin.buffer)
    Follower(OpenOptions(options), persist=True).run(info)
