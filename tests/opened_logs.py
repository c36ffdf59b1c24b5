"""What the board reads of a log that a test had written."""

from __future__ import annotations

from pathlib import Path

from board.store.discovery import discover
from board.store.rollout import OpenRollout, open_rollout
from board.store.run import open_run


def opened(folder: Path) -> list[OpenRollout]:
    """All rollouts of a run that has no problem, in the board's order, by step and index."""
    (found,) = discover(folder).runs
    run = open_run(found)
    assert not run.problems
    places = zip(run.rollouts["step"], run.rollouts["index"], strict=True)
    return [open_rollout(run, int(step), int(index)) for step, index in places]
