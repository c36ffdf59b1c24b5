"""Builds an index in a process of its own, so that whoever shows the run stays small and quick.

python -m board.query.index_builder ROOT RUN [--pads JSON] [--system-prompt-end TEXT]
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from pathlib import Path

from board.core.options import ReadOptions
from board.formats.io.locations import location_of
from board.index.discovery.discovered_runs import RunInfo, discover
from board.query.open_run import Follower, OpenOptions


def start(info: RunInfo, options: ReadOptions) -> subprocess.Popen[bytes]:
    """Begins to build the index of a run; it is finished when the process has ended."""
    root = info.path / info.only if info.only else info.root
    command = [sys.executable, "-m", __name__, str(root), info.name]
    command += ["--pads", json.dumps(options.pad_markers)]
    command += ["--system-prompt-end", options.system_prompt_end]
    project = str(Path(__file__).parents[2])
    return subprocess.Popen(
        command, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=location_of)
    parser.add_argument("run")
    parser.add_argument("--pads", type=json.loads, default=list(ReadOptions().pad_markers))
    parser.add_argument("--system-prompt-end", default="")
    args = parser.parse_args()
    gc.freeze()  # as a worker's; this process does nothing else
    read = ReadOptions(tuple(args.pads), args.system_prompt_end)
    Follower(OpenOptions(read), persist=True).run(discover(args.root).run(args.run))


if __name__ == "__main__":
    main()
