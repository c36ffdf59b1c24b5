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

_MOST_TILES: Final = 6
_MOST_PARTS: Final = 2
_REWARDS: Final = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
_USUAL: Final = ("response_tokens", "response_chars", "is_truncated", "entropy_mean", "reward_gap")
_MOST_PARTS_DRAWN: Final = 7
"""More colours can't be told apart."""
_COMPARED_STEPS: Final = 2 * WINDOW


def caption(run: Run) -> str:
    """What the tiles compare, said once for all of them."""
    steps = run.steps["step"].to_numpy(np.int64)
    until = int(state.get("step"))
    window = window_of(steps, until)
    if not len(window):
        return ""
    if len(window) > 1:
        words = f"Mean of the last {len(window)} steps ({window[0]}–{window[-1]})"
    else:
        words = f"Mean of step {window[0]}"
    if len(steps) == 1:
        return f"{words}."
    if np.count_nonzero(steps <= until) < _COMPARED_STEPS:
        return f"{words}. The change is shown from {_COMPARED_STEPS} steps on."
    return f"{words}, and its change from the {WINDOW} before. Grey: within {ERRORS:g} standard errors."


def show(run: Run, kl: str) -> None:
    """Draws a tile for each of the first columns that are recorded: the reward, its parts, and others."""
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)][:_MOST_PARTS]
    columns = [name for name in ("reward", *parts, kl, *_USUAL) if name in run.columns]
    chart_colours = {one.stem: one.colour for one in together(reward_columns(run))}
    row: list[Tile] = []
    for column in columns[:_MOST_TILES]:
        stem = base_name(column)
        key = chart_colours.get(stem, colour_key(stem))
        row.append(_tile(run, rollout_metric(column), colour(key, dark=page_parts.dark())))
    if row:
        tiles(row, key="tiles")


def reward_columns(run: Run) -> tuple[str, ...]:
    """The columns of the chart of rewards: totals first, then their parts."""
    totals = (name for name in _REWARDS if name in run.columns)
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)]
    return (*totals, *parts[:_MOST_PARTS_DRAWN])


def _tile(run: Run, metric: Metric, ink: str) -> Tile:
    stem, step = base_name(metric.name), int(state.get("step"))
    steps = run.steps["step"].to_numpy(np.int64)
    values = mean_column(run.steps, stem)
    now = Recent(None) if values is None else recent(steps, values, step)
    if metric.name.startswith(REWARD_PART):
        label, unit = metric.name.removeprefix(REWARD_PART), "part"
    else:
        has_unit = metric.unit not in ("", "share") and metric.unit not in metric.label
        label, unit = metric.label, metric.unit if has_unit else ""
    is_enough = int(np.count_nonzero(steps <= step)) >= _COMPARED_STEPS
    change, note = _change(now, metric.unit, is_enough=is_enough)
    return Tile(
        one_line(label, 60),
        one_line(unit, 20),
        number(now.mean, metric.unit),
        change,
        note,
        _tone(metric, now),
        last_means(run.steps, stem, step),
        ink,
        one_line(f"{metric.label}: {metric.formula}", 600),
    )


def _change(now: Recent, unit: str, *, is_enough: bool) -> tuple[str, str]:
    """The change in words, and a note on it."""
    if now.mean is None:
        return "", ""
    if now.change is None or now.error is None:
        return "", "not enough values" if is_enough else ""
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
