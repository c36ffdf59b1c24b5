"""What is said of a rollout beside its text, in the reader as on static pages: scores, place, notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from board.analysis.rollout import OpenRollout
from board.core.metrics.definitions import Metric, reward_parts, rollout_metric
from board.query.open_run import Run

TEXTS: Final = {"ground_truth": "Ground truth", "ref_response": "Reference response"}
"""Texts of a record besides prompt and response, with their headings."""
_SCORES: Final = (
    *("reward", "ref_reward", "reward_gap", "valid_reward", "ref_valid_reward", "advantage"),
    *("k1_mean", "k3_mean", "k3_max", "mismatch_kl_mean", "entropy_mean", "response_tokens"),
    "response_chars",
)


def has_value(row: Mapping[str, Any], name: str) -> bool:
    """Whether a row of the table of rollouts has something in this column."""
    value = row.get(name)
    return value is not None and value == value


def scores_of(row: Mapping[str, Any]) -> list[tuple[Metric, float]]:
    """The scores and lengths that a row of the table of rollouts has, parts of the reward last."""
    names = [name for name in (*_SCORES, *reward_parts(row.keys())) if has_value(row, name)]
    return [(rollout_metric(name), float(row[name])) for name in names]


def has_text(opened: OpenRollout) -> bool:
    """Whether the log has a response as text or as messages."""
    return bool(opened.record.messages or opened.record.texts.get("response"))


def notes_of(opened: OpenRollout) -> Iterator[str]:
    """Arrays that are not as long as the response, and what else was wrong with the record."""
    length = len(opened.tokens)
    others: dict[int, list[str]] = defaultdict(list)
    for name, values in opened.metrics.items():
        if len(values) != length:
            others[len(values)].append(name)
    for count, names in others.items():
        verb = "has" if len(names) == 1 else "have"
        missing = "tokens have no value" if count < length else "values have no token"
        yield (
            f"{', '.join(names)} {verb} {count:,} entries for {length:,} tokens: "
            f"the last {abs(count - length):,} {missing}."
        )
    for remark in opened.remarks:
        if remark.severity != "note":
            yield "; ".join(filter(None, (remark.reason, remark.hint)))


def place_of(run: Run, row: Mapping[str, Any]) -> str:
    """Where a rollout is in the log, as FILE:LINE; file relative to the run."""
    return f"{run.info.path_of(run.info.files[int(row['file'])])}:{int(row['line'])}"
