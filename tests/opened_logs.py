"""What the board reads of a log that a test had written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from board.analysis.rollout import open_rollout
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run


@dataclass(frozen=True)
class Opened:
    """A rollout as the board has it, as plain values; a token without a value is None.

    tokens: recorded per response token; fields: ids, texts, scores and extras together.
    """

    step: int
    prompt_ids: list[int] | None
    response_ids: list[int] | None
    tokens: Mapping[str, list[float | None]]
    fields: Mapping[str, Any]


def opened(folder: Path) -> list[Opened]:
    """All rollouts of a run that has no problem, in the board's order, by step and index."""
    (found,) = discover(folder).runs
    run = open_run(found)
    assert not run.problems
    places = zip(run.rollouts["step"], run.rollouts["index"], strict=True)
    records = [open_rollout(run, int(step), int(index)).record for step, index in places]
    return [
        Opened(
            record.step,
            _whole(record.prompt_ids),
            _whole(record.response_ids),
            {name: [_known(v) for v in a.values().tolist()] for name, a in record.tokens.items()},
            {**record.ids, **record.texts, **record.scores, **record.extras},
        )
        for record in records
    ]


def _whole(ids: Any) -> list[int] | None:
    return None if ids is None else [int(i) for i in ids.values()]


def _known(value: float) -> float | None:
    return None if value != value else value
