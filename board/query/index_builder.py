"""Builds an index in a process of its own, so that the server stays small and quick: of a log of which
nothing is read yet the outline first.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from board.core.records import ReadOptions
from board.index.discovery.run_info import RunInfo
from board.query.open_run import Follower, OpenOptions
from board.query.outlines import outlined, pays


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
    info, read_options = pickle.load(sys.stdin.buffer)
    options = OpenOptions(read_options)
    follower = Follower(options, persist=True)
    if follower.so_far(info).done == 0 and pays(info, follower.unread(info)):
        Follower(outlined(options), persist=True).run(info)
    follower.run(info)
