"""Builds an index in a process of its own, so that the server stays small and quick: of a log of which
nothing is read yet the outline first.

The process ends with its server, however that ends: the server holds the other end of its standard input,
which the system closes. What is built of an index by then is kept, and the next process goes on from it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from board.core.records import ReadOptions
from board.index.arrow_start import leave_pandas_out
from board.index.discovery.run_info import RunInfo
from board.query.open_run import Follower, OpenOptions
from board.query.outlines import outlined, pays


def start(info: RunInfo, options: ReadOptions) -> subprocess.Popen[bytes]:
    """Begin to build the index of a run; it is finished when the process has ended.

    The process is ended where the returned object is no longer held.
    """
    project = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", __name__]
    reading_end, writing_end = os.pipe()
    try:
        process = subprocess.Popen(
            command, cwd=project, stdin=reading_end, stdout=subprocess.DEVNULL
        )
    finally:
        os.close(reading_end)
    weakref.finalize(process, os.close, writing_end)
    with open(writing_end, "wb", closefd=False) as file:  # a descriptor has no path
        pickle.dump((info, options), file)
    return process


def _exit_with_server() -> None:
    """End this process once its standard input has ended."""
    while os.read(sys.stdin.fileno(), 1 << 16):
        pass
    os._exit(1)


if __name__ == "__main__":
    leave_pandas_out()
    info, read_options = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_exit_with_server, daemon=True).start()
    options = OpenOptions(read_options)
    follower = Follower(options, persist=True)
    if follower.so_far(info).done == 0 and pays(info, follower.unread(info)):
        Follower(outlined(options), persist=True).run(info)
    follower.run(info)
