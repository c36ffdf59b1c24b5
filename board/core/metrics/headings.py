"""The words above a column of rollouts, and which column each of them means in an expression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

from board.core.column_names import Meanings, ends_of, meanings_of
from board.core.metrics.definitions import (
    MEAN_COLUMNS,
    REDUCTIONS,
    REWARD_PART,
    ROLLOUT_METRICS,
    TOKEN_METRICS,
    rollout_metric,
)
from board.core.metrics.own_metrics import own_metric
from board.core.texts.one_line import one_line
from board.core.typed_heads import typed_heads

# Words that a table has room for. A mean over a rollout's tokens is what its number is; max is said.
_SHORT: Final = {
    "index": "rollout",
    "group_id": "group",
    "finish_reason": "finish",
    "label_order": "order",
    "is_truncated": "truncated",
    "reward_gap": "gap to ref",
    "ref_reward": "ref reward",
    "mismatch_kl_mean": "mismatch KL",
    "mismatch_kl_max": "mismatch KL max",
    "importance_ratio_mean": "policy/old ratio",
    "mismatch_ratio_mean": "trainer/sampler ratio",
    "logprobs_mean": "policy logprob",
    "response_tokens": "length",
    "response_chars": "length",
    "prompt_tokens": "prompt length",
    "loss_tokens": "in the loss",
    "zero_std_group_fraction": "zero-std groups",
}
_NARROW: Final = {"index": "#", "response_tokens": "tokens", "response_chars": "chars"}
_METRIC_OF: Final = {column: metric for column, metric, _ in REDUCTIONS}


def heading(name: str, limit: int = 40) -> str:
    """The words above a column: of what the log alone knows, its name, cut."""
    if name.startswith(REWARD_PART):
        return one_line(f"reward: {name.removeprefix(REWARD_PART)}", limit)
    metric = ROLLOUT_METRICS.get(name)
    if metric is None:
        return one_line(_SHORT.get(name, name), limit)
    unit = "chars" if metric.unit == "characters" else metric.unit
    return f"{_short(name)}, {unit}" if unit not in ("", "share") else _short(name)


def narrow_headings(columns: Collection[str]) -> dict[str, str]:
    """The words above narrow columns, without units: by column, no two alike, and each can be typed in a
    filter. Where two would have the same, where another column is called so, and where a filter would
    take it for something else, the column's name stands there.
    """
    return dict(_headed(tuple(columns))[0])


@lru_cache(maxsize=64)
def _headed(columns: tuple[str, ...]) -> tuple[Mapping[str, str], Meanings]:
    """The words above these columns, and which of them each name means besides their own."""
    short = {name: _narrow(name) for name in columns}
    counts = Counter(map(str.casefold, short.values()))
    counts.update({name.casefold() for name in columns})
    heads = {
        name: words if counts[words.casefold()] == 1 + (words == name) else one_line(name, 200)
        for name, words in short.items()
    }
    others: dict[str, list[str]] = {}
    for name in columns:
        for words in (*_labels(name), *ends_of(name)):
            others.setdefault(words, []).append(name)
    meant = meanings_of(columns, ({words: [name] for name, words in heads.items()}, others))
    return typed_heads(heads, columns, meant), meant


def _narrow(name: str) -> str:
    if name.startswith(REWARD_PART):
        return one_line(name.removeprefix(REWARD_PART), 24)
    return one_line(_NARROW.get(name) or _short(name), 40)


def _short(name: str) -> str:
    return _SHORT.get(name) or " ".join(name.removesuffix("_mean").replace("_", " ").split())


def meanings(columns: tuple[str, ...]) -> Meanings:
    """By each name that means columns of rollouts, besides their own, which these are: headings of the
    list of rollouts first, then other headings, labels, and what a name ends with.
    """
    return _headed(columns)[1]


def _labels(name: str) -> Iterator[str]:
    yield heading(name)
    yield one_line(name, 200)
    metric = rollout_metric(name)
    if name not in ROLLOUT_METRICS and own_metric(name) is None:
        return
    yield from (metric.label, metric.label_with_unit)
    token = _METRIC_OF.get(name, "")
    if MEAN_COLUMNS.get(token) == name:
        yield from (token, TOKEN_METRICS[token].short)
