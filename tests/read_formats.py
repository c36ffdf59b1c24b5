"""Logs of this checkout as the board has them, for comparison with a plain reading of the same files."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from board.analysis.rollout import OpenRollout, open_rollout
from board.core.records import Record
from board.index.discovery.discovered_runs import RunInfo, discover
from board.query.open_run import Follower, Run, open_run

SAMPLES = Path(__file__).parents[1] / "rollout_samples"
DATA = Path(__file__).parent / "formats" / "data"
REAL_RUNS = [info for root in (SAMPLES, DATA) for info in discover(root).runs]


@cache
def real_run(info: RunInfo) -> Run:
    """One of REAL_RUNS, read once for all tests of a process."""
    return Follower().run(info)


def collection() -> Path:
    """Real files of other people's frameworks, beside the checkout or a folder above it."""
    beside = (folder.parent / "shared" / "formats" for folder in Path(__file__).resolve().parents)
    return next((folder for folder in beside if folder.is_dir()), Path("shared/formats"))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of lines."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def run_at(folder: Path) -> Run:
    """The one run at a folder, or below it."""
    (found,) = discover(folder).runs
    return open_run(found)


def opened(run: Run) -> list[OpenRollout]:
    """All rollouts of a run, each read again from its file, by step and index."""
    places = zip(run.rollouts["step"], run.rollouts["index"], strict=True)
    return [open_rollout(run, int(step), int(index)) for step, index in places]


def records(run: Run) -> list[Record]:
    """The records of `opened`."""
    return [rollout.record for rollout in opened(run)]


def reasons(run: Run) -> list[tuple[str, int]]:
    """What is said of the run: reason and count of each problem."""
    return [(problem.reason, problem.count) for problem in run.problems]
