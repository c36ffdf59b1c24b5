"""What a page needs from a log, and how to record it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from board.query.open_run import Run


@dataclass(frozen=True, slots=True)
class Need:
    """columns: of the table of rollouts, all of them needed, with their words; how: to record them."""

    columns: dict[str, str]
    how: str


_OF_PAGE: Final = {
    "Step": Need(
        {"reward": "reward"},
        "Pass rewards= to RolloutExporter.log.",
    ),
    "Prompts": Need(
        {"prompt": "prompt", "reward": "reward"},
        "Pass prompt_ids= (or the texts of the prompts) and rewards= to RolloutExporter.log.",
    ),
    "Groups": Need(
        {"group_id": "group_id", "reward": "reward"},
        'Pass rewards= and meta={"group_id": ...} to RolloutExporter.log.',
    ),
    "By environment": Need({"env": "env"}, 'Pass meta={"env": ...} to RolloutExporter.log.'),
    "Mismatch": Need(
        {"mismatch_kl_mean": "sampling_logprobs"},
        "Pass sampling_logprobs=, the log-probabilities of the engine that sampled, and logprobs= "
        "to RolloutExporter.log.",
    ),
}


def lacking(title: str, run: Run) -> str:
    """What a page needs and the run does not hold, as names; empty where it holds all."""
    need = _OF_PAGE.get(title)
    # Any number of a step is enough for Step.
    if need is None or (title == "Step" and run.metrics):
        return ""
    return ", ".join(words for column, words in need.columns.items() if column not in run.columns)


def how_to_record(title: str) -> str:
    """What to do so that later logs hold what the page needs."""
    return _OF_PAGE[title].how
