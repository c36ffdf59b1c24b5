"""Expressions that stand in empty fields: each can be read over the columns that there are."""

from __future__ import annotations

from collections.abc import Collection

from board.core.metrics.definitions import ROLLOUT_METRICS, reward_parts, rollout_metric


def filter_over(columns: Collection[str]) -> str:
    """A filter of rollouts with these columns."""
    names = _plain(("reward", *reward_parts(columns), *ROLLOUT_METRICS), columns)
    text = 'response contains "I think"'
    if not names:
        return text
    bound = "500" if rollout_metric(names[0]).unit in ("tokens", "characters") else "0.5"
    return f"{names[0]} < {bound} and {text}"


def curve_over(metrics: Collection[str]) -> str:
    """A number of rollouts with these metrics."""
    first, *others = [*_plain((*reward_parts(metrics), *metrics), metrics), "index"]
    return f"{first} - 0.1 * is_truncated" if "is_truncated" in others else f"{first} > 0.5"


def _plain(names: Collection[str], known: Collection[str]) -> list[str]:
    """Those of the names that are known, and need no quotes."""
    plain = (name for name in dict.fromkeys(names) if name.replace(".", "").isidentifier())
    return [name for name in plain if name in known]
