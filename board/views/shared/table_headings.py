"""How a table heads a column of rollouts: in few words, with its unit, and in full on hover."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.core.metrics.definitions import REWARD_PART, ROLLOUT_METRICS, rollout_metric
from board.core.metrics.shares import ROUNDING_NOISE, in_percent
from board.views.shared.text import one_line, plain

# Words that a table has room for. A mean over a rollout's tokens is what its number is; max is said.
_SHORT: Final = {
    "index": "rollout",
    "group_id": "group",
    "finish_reason": "finish",
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
_UNITS: Final = {"characters": "chars"}
PERCENT: Final = "%g %%"
"""Format of a column of shares that `written` made."""
# Below it a fixed number of digits is mostly zeros.
_TINY: Final = 1e-3


def heading(name: str) -> str:
    """The words above a column: of what the log alone knows, its own name."""
    if name.startswith(REWARD_PART):
        return one_line(f"reward: {name.removeprefix(REWARD_PART)}", 40)
    known = ROLLOUT_METRICS.get(name)
    if known is None:
        return one_line(_SHORT.get(name, name), 40)
    words = _SHORT.get(name) or name.removesuffix("_mean").replace("_", " ")
    unit = _UNITS.get(known.unit, known.unit)
    return f"{words}, {unit}" if unit not in ("", "share") else words


def short_heading(name: str) -> str:
    """The words above a narrow column, without the unit."""
    if name.startswith(REWARD_PART):
        return one_line(name.removeprefix(REWARD_PART), 24)
    words = _NARROW.get(name) or _SHORT.get(name) or name.removesuffix("_mean").replace("_", " ")
    return one_line(words, 40)


def definition(name: str) -> str:
    """The metric, its formula, and its name in filters, for a place that shows text as it is."""
    metric = rollout_metric(name)
    unit = f", in {metric.unit}" if metric.unit not in ("", "share") else ""
    formula = f" {metric.formula}" if metric.formula else ""
    return one_line(f"{metric.label}{unit}.{formula} In filters: {name}.", 600)


def explained(name: str) -> str:
    """What stands behind a heading: the metric, its formula, and its name in filters."""
    metric = rollout_metric(name)
    return plain(f"{metric.label}. {metric.formula} In filters: {name}.", 600)


def width(name: str, least: int = 60) -> int:
    """Pixels that the heading takes."""
    return max(least, round(6 * len(heading(name))) + 17)


def written(frame: pd.DataFrame, shares: Iterable[str] = ()) -> pd.DataFrame:
    """The frame with its numbers as pages write them: these columns in percent, rounding noise as 0."""
    shown = frame.copy()
    for name in shown.select_dtypes("float"):
        shown[name] = shown[name].mask(shown[name].abs() < ROUNDING_NOISE, 0.0)
    for name in shown.columns.intersection([*shares]):
        values = shown[name].astype(float)
        shown[name] = values.map(in_percent, na_action="ignore")
    return shown


def number_format(values: pd.Series[Any]) -> str:
    """Four significant digits; with an exponent where the largest value is tiny."""
    sizes = np.abs(pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan))
    known = sizes[np.isfinite(sizes)]
    return "%.2e" if len(known) and 0 < known.max() < _TINY else "%.4g"


def number_column(name: str, values: pd.Series[Any]) -> Any:
    """A column of means over rollouts, of a metric known or not; shares in percent."""
    share = rollout_metric(name).unit == "share"
    return st.column_config.NumberColumn(
        heading(name),
        help=explained(name),
        format=PERCENT if share else number_format(values),
        width=width(name),
    )


def without_empty(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in which at least one row says something: missing values and empty texts do not."""
    named = frame.notna() & frame.map(lambda value: not isinstance(value, str) or value != "")
    return frame.loc[:, named.any()]
