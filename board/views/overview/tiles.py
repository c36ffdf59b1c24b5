"""The tiles of the Overview: where the metrics stand around the chosen step, and whether that is news."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.charts.curve_data import mean_column, together
from board.charts.curves import last_means
from board.charts.palette import colour, colour_key
from board.components.tiles import Tile, Tone, tiles
from board.core.metrics.definitions import REWARD_PART, Metric, base_name, rollout_metric
from board.core.metrics.recent import ERRORS, WINDOW, Recent, recent, window_of
from board.query.open_run import Run
from board.views.shared import page_parts, state
from board.views.shared.text import number, one_line

_MOST: Final = 6
_MOST_PARTS: Final = 2
_REWARDS: Final = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
# More colours can't be told apart.
_MOST_PARTS_DRAWN: Final = 7
_WINDOW_AND_BEFORE: Final = 2 * WINDOW


def caption(run: Run) -> str:
    """What the tiles compare, said once for all of them."""
    steps = run.steps["step"].to_numpy(np.int64)
    upto = int(state.get("step"))
    window = window_of(steps, upto)
    if not len(window):
        return ""
    ends = f"{window[0]}–{window[-1]}" if len(window) > 1 else f"{window[0]}"
    said = (
        f"Mean of the last {len(window)} steps ({ends})"
        if len(window) > 1
        else f"Mean of step {ends}"
    )
    if len(steps) == 1:
        return f"{said}."
    if np.count_nonzero(steps <= upto) < _WINDOW_AND_BEFORE:
        return f"{said}. The change is shown from {_WINDOW_AND_BEFORE} steps on."
    return (
        f"{said}, and its change from the {WINDOW} before. Grey: within {ERRORS:g} standard errors."
    )


def show(run: Run, columns: list[str]) -> None:
    """Draws a tile for each of the first columns that are recorded."""
    of_chart = {one.stem: one.colour for one in together(reward_columns(run))}
    row: list[Tile] = []
    for column in columns[:_MOST]:
        key = of_chart.get(base_name(column), colour_key(base_name(column)))
        row.append(_tile(run, rollout_metric(column), colour(key, dark=page_parts.dark())))
    if row:
        tiles(row, key="tiles")


def reward_columns(run: Run) -> tuple[str, ...]:
    """The columns of the chart of rewards: totals first, then their parts."""
    totals = (name for name in _REWARDS if name in run.columns)
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)]
    return (*totals, *parts[:_MOST_PARTS_DRAWN])


def columns_of(run: Run, kl: str) -> list[str]:
    """The columns of the tiles: the reward, its parts, and what tells most about a training."""
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)][:_MOST_PARTS]
    usual = ("response_tokens", "response_chars", "is_truncated", "entropy_mean", "reward_gap")
    return [name for name in ("reward", *parts, kl, *usual) if name in run.columns]


def _tile(run: Run, metric: Metric, ink: str) -> Tile:
    stem, step = base_name(metric.name), int(state.get("step"))
    steps = run.steps["step"].to_numpy(np.int64)
    values = mean_column(run.steps, stem)
    now = Recent(None) if values is None else recent(steps, values, step)
    is_part = metric.name.startswith(REWARD_PART)
    unit = "part" if is_part else metric.unit
    has_unit = is_part or (unit not in ("", "share") and unit not in metric.label)
    change, note = _change(
        now, metric.unit, enough=int(np.count_nonzero(steps <= step)) >= 2 * WINDOW
    )
    return Tile(
        one_line(metric.name.removeprefix(REWARD_PART) if is_part else metric.label, 60),
        one_line(unit, 20) if has_unit else "",
        number(now.mean, metric.unit),
        change,
        note,
        _tone(metric, now),
        last_means(run.steps, stem, step),
        ink,
        one_line(f"{metric.label}: {metric.formula}", 600),
    )


def _change(now: Recent, unit: str, *, enough: bool) -> tuple[str, str]:
    """The change in words, and what is said of it."""
    if now.mean is None:
        return "", ""
    if now.change is None or now.error is None:
        return "", "not enough values" if enough else ""
    if now.change == 0:
        return "", "no change"
    sign = "−" if now.change < 0 else "+"
    return f"{sign}{_size(now.change, unit)}", f"± {_size(now.error, unit)}"


def _size(value: float, unit: str) -> str:
    """How large a change is. A share that goes from 10 to 15 % grows by five points."""
    return f"{100 * abs(value):.1f} points" if unit == "share" else f"{abs(value):.2g}"


def _tone(metric: Metric, now: Recent) -> Tone:
    if not now.change or now.is_noise:
        return "none"
    if metric.better == "neither":
        return "change"
    return "good" if (now.change > 0) == (metric.better == "up") else "bad"
