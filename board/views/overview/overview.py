"""Overview: how the run went. Tiles for the steps up to the chosen one, curves over all steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import streamlit as st

from board.charts.curve_data import CurveOptions, mean_column, together
from board.charts.curves import last_means
from board.charts.palette import EVALUATIONS, colour, colour_key, dash
from board.components.curve_grid import Card, LineName, Mark, curve_bar
from board.components.small_charts import Tile, Tone, tiles
from board.core.metrics.definitions import (
    REWARD_PART,
    ROLLOUT_METRICS,
    Metric,
    base_name,
    reward_parts,
    rollout_metric,
)
from board.core.metrics.recent import ERRORS, WINDOW, Recent, recent, window_of
from board.core.metrics.shares import interval
from board.errors import BoardError
from board.export.file_names import file_of
from board.export.run_pages import overview_page
from board.query import splits
from board.query.compare.ends import mean_at_end
from board.query.open_run import Run
from board.query.outlines import is_outline
from board.views.frame import sidebar
from board.views.overview import curves, environments, single_step, trainer
from board.views.shared import (
    cache,
    examples,
    known_findings,
    opened_runs,
    page_export,
    page_parts,
    state,
)
from board.views.shared.text import counted, number, one_line, plain
from board.views.shared.trainer import metrics as trainer_metrics

_PER_STEP: Final = "zero_std_group_fraction"
_MAIN: Final = (
    *("response_tokens", "response_chars", "entropy_mean", "is_truncated", "mismatch_kl_mean"),
    *(_PER_STEP, "reward_gap"),
    *("is_masked_mean", "is_masked_high_mean", "is_masked_low_mean", "clipped_mean"),
)
# Main metric -> what a log must hold for it.
_NEEDS: Final = {
    "reward": "reward",
    "k3_mean": "logprobs and ref_logprobs",
    "response_tokens": "response_ids, response_tokens or token arrays",
    "entropy_mean": "entropy",
    "mismatch_kl_mean": "logprobs and sampling_logprobs",
    "is_truncated": "is_truncated or finish_reason",
    _PER_STEP: "group_id and reward of two rollouts a group",
}
_EXPRESSION_HELP: Final = (
    "An expression over the rollouts, averaged by step: columns, numbers, + - * / // % **, comparisons, "
    'contains "a text", in (a, b), and, or, not, abs, log, exp, sqrt, min, max, missing, '
    'col("odd name"), col("trainer/loss"). A comparison is 1 or 0, so its mean is a share. Texts are '
    "whole. Missing values stay missing."
)
# What a chart draws; it is named by the first of them.
_Columns = tuple[str, ...]
_MOST_TILES: Final = 6
_MOST_PARTS: Final = 2
_REWARDS: Final = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
_USUAL: Final = ("response_tokens", "response_chars", "is_truncated", "entropy_mean", "reward_gap")
_MOST_PARTS_DRAWN: Final = 7  # more colours can't be distinguished
_COMPARED_STEPS: Final = 2 * WINDOW


def _caption(run: Run) -> str:
    """What the tiles compare, said once for all of them."""
    steps, until = run.steps["step"].to_numpy(np.int64), int(state.get("step"))
    window = window_of(steps, until)
    if not len(window):
        return ""
    if len(window) > 1:
        words = f"Mean of the last {len(window)} steps ({window[0]}–{window[-1]})"
    else:
        words = f"Mean of step {window[0]}"
    if len(steps) == 1:
        return f"{words}, 95 % interval."
    if np.count_nonzero(steps <= until) < _COMPARED_STEPS:
        return f"{words}, 95 % interval. The change is shown from {_COMPARED_STEPS} steps on."
    change = f"its change from the {WINDOW} before"
    chance = f"Grey: within {ERRORS:g} of these, as 95 % of changes by chance are."
    return f"{words}, 95 % interval, and {change}, ± standard error. {chance}"


def _show_tiles(run: Run, kl: str) -> None:
    """Draws a tile for each of the first columns that are recorded: the reward, its parts, and others."""
    parts = reward_parts(run.metrics)[:_MOST_PARTS]
    columns = [name for name in ("reward", *parts, kl, *_USUAL) if name in run.columns]
    chart_colours = {one.stem: one.colour for one in together(_reward_columns(run))}
    row: list[Tile] = []
    for column in columns[:_MOST_TILES]:
        stem = base_name(column)
        key = chart_colours.get(stem, colour_key(stem))
        row.append(_tile(run, rollout_metric(column), colour(key, dark=page_parts.dark())))
    if row:
        tiles(row, key="tiles")


def _reward_columns(run: Run) -> tuple[str, ...]:
    """The columns of the chart of rewards: totals first, then their parts."""
    totals = (name for name in _REWARDS if name in run.columns)
    return (*totals, *reward_parts(run.metrics)[:_MOST_PARTS_DRAWN])


def _tile(run: Run, metric: Metric, ink: str) -> Tile:
    stem, step = base_name(metric.name), int(state.get("step"))
    steps = run.steps["step"].to_numpy(np.int64)
    values = mean_column(run.steps, stem)
    now = Recent(None) if values is None else recent(steps, values, step)
    if metric.name.startswith(REWARD_PART):
        label, unit = metric.name.removeprefix(REWARD_PART), "part"
    else:
        label, unit = metric.label, metric.unit_after_label
    is_enough = int(np.count_nonzero(steps <= step)) >= _COMPARED_STEPS
    change, note = _change(now, metric.unit, is_enough=is_enough)
    return Tile(
        one_line(label, 60),
        one_line(unit, 20),
        number(now.mean, metric.unit),
        _interval(run, metric),
        change,
        note,
        _tone(metric, now),
        last_means(run.steps, stem, step),
        ink,
        one_line(f"{metric.label}: {metric.formula}", 600),
    )


def _interval(run: Run, metric: Metric) -> str:
    """The 95 % interval of the mean over the last steps; empty where there is none."""
    steps = window_of(run.steps["step"].to_numpy(np.int64), int(state.get("step")))
    mean = mean_at_end(run, metric.name, steps)
    if not np.isfinite(mean.high - mean.low):
        return ""
    return interval(mean.low, mean.high, metric.unit)


def _change(now: Recent, unit: str, *, is_enough: bool) -> tuple[str, str]:
    """The change in words, and a note on it. A share that goes from 10 to 15 % grows by 5 points."""

    def size(value: float) -> str:
        return (
            f"{100 * abs(value):.1f} points"
            if unit == "share"
            else number(float(f"{abs(value):.2g}"))
        )

    if now.mean is None:
        return "", ""
    if now.change is None or now.error is None:
        return "", "not enough values" if is_enough else ""
    if now.change == 0:
        return "", "no change"
    sign = "−" if now.change < 0 else "+"
    return f"{sign}{size(now.change)}", f"± {size(now.error)}"


def _tone(metric: Metric, now: Recent) -> Tone:
    if not now.change or now.is_noise:
        return "none"
    if metric.better == "neither":
        return "change"
    return "good" if (now.change > 0) == (metric.better == "up") else "bad"


def _has(run: Run, column: str) -> bool:
    if column == _PER_STEP:  # groups of one rollout each have none
        return column in run.steps and bool(run.steps[column].notna().any())
    return column in run.columns


def _charts(run: Run) -> tuple[list[_Columns], list[_Columns]]:
    """Columns of the charts that say how a run goes, what only it logs included; and of the others."""
    parts, rewards = reward_parts(run.metrics), _reward_columns(run)
    wanted = [curves.KL[state.get("overview_kl")], *_MAIN]
    wanted += [name for name in run.metrics if not (name in ROLLOUT_METRICS or name in parts)]
    main = [rewards] if rewards else []
    main += [(name,) for name in wanted if _has(run, name)]
    drawn = {columns[0] for columns in main} | {*rewards, *curves.KL.values()} - {*parts}
    return main, [(name,) for name in run.metrics if name not in drawn]


def _evaluations(column: str) -> tuple[Run, ...]:
    """The splits that are drawn with training's: of a chart's first column, where they record it."""
    if not state.get("overview_evals") or column == _PER_STEP:
        return ()
    return tuple(run for run in sidebar.evaluations() if column in run.metrics)


def _card(run: Run, columns: _Columns, options: CurveOptions) -> Card:
    metric = rollout_metric(columns[0])
    if metric.kind == "flag":  # mean ± std of a share would leave 0 to 1 and say nothing more
        options = replace(options, band="mean" if options.band in ("std", "mean") else "none")
    lines = {"evaluations": _evaluations(metric.name), "among": _reward_columns(run)}
    drawn = cache.light_curve(run, columns, options, dark=page_parts.dark(), **lines)
    has_parts = len(columns) > 1 and columns[-1].startswith(REWARD_PART)
    return page_parts.card(
        metric.name,
        drawn,
        "Click a step to see what contributes most to it; drag to zoom all curves.",
        title="Reward parts" if has_parts and metric.name.startswith(REWARD_PART) else "",
        columns=columns,
        unit="and its parts" if has_parts and metric.name == "reward" else "",
    )


def _draw(
    run: Run, charts: list[_Columns], options: CurveOptions, marks: list[Mark], *, key: str
) -> None:
    """Draws charts; a click opens what contributes to the step, of the split whose curve it was."""
    clicked = curves.draw([_card(run, columns, options) for columns in charts], marks, key)
    if not clicked:
        return
    columns = next(columns for columns in charts if columns[0] == clicked.chart)
    column, split = columns[0], str(state.get("split"))
    others = _evaluations(column)[max(clicked.line - len(columns), 0) :]
    if clicked.line < len(columns) or not others:
        column = columns[min(clicked.line, len(columns) - 1)]
    else:
        split = splits.written(others[0].split or "")
    choice = {"step_part": "contributions", "step_metric": column}
    place = {"step": clicked.step, **state.NO_ROLLOUT, "split": split}
    state.go("step", **place, **choice, step_only="", step_order="highest")


def _expression_curve(run: Run, options: CurveOptions, marks: Sequence[Mark]) -> None:
    """A field for an expression over the columns of the rollouts, and its curve."""
    st.text_input(
        "Own curve",
        **state.bound("overview_expression"),
        placeholder=f"an expression, e.g. {one_line(examples.curve_over(run.metrics), 120)}",
        icon=":material/function:",
        help=plain(_EXPRESSION_HELP, 500),
    )
    text = str(state.get("overview_expression")).strip()
    if not text:
        return
    try:
        labels = cache.labels_of(run) if "label" in text else ""
        trainer = trainer_metrics(run)
        drawn = cache.own_curve(run, text, trainer, options, labels, dark=page_parts.dark())
    except BoardError as error:
        st.error(plain(error, 400), icon=":material/function:")
        return
    card = Card("own", one_line(text, 100), drawn)
    if clicked := curves.draw([card], marks, "curve_own", across=2):
        curves.open_rollouts(clicked.step)


def _all(run: Run, options: CurveOptions, marks: list[Mark]) -> None:
    main, others = _charts(run)
    _draw(run, main, options, marks, key="curves")
    _draw_so_far(run, main, options, marks)
    if others:
        st.toggle(
            counted(len(others), "more curve"),
            **state.bound("overview_more"),
            help=plain(", ".join(rollout_metric(name).label for (name,) in others), 600),
        )
        if state.get("overview_more"):
            _draw(run, others, options, marks, key="curves_more")
    trainer.show(run, options, marks)
    _expression_curve(run, options, marks)
    _say_missing(run)


def _draw_so_far(run: Run, drawn: list[_Columns], options: CurveOptions, marks: list[Mark]) -> None:
    """Of an outline the curves that it lacks, over the steps that the index has by now."""
    so_far = opened_runs.read_so_far(sidebar.whole())
    if so_far is sidebar.whole() or not len(so_far.steps):
        return
    chosen = cache.of_split(so_far, str(state.get("split"))) or so_far
    charts = [columns for columns in _charts(chosen)[0] if columns not in drawn]
    if charts and len(chosen.steps) > 1:
        st.caption(f"Read by now: {len(so_far.steps):,} of {len(run.steps):,} steps.")
        _draw(chosen, charts, options, marks, key="curves_read")


def _say_missing(run: Run) -> None:
    """What a run lacks that most have, and what it would take; of an outline nothing is known to lack."""
    if is_outline(run):
        return
    needs = {name: needed for name, needed in _NEEDS.items() if not _has(run, name)}
    missing = [f"{rollout_metric(name).label} (needs {one})" for name, one in needs.items()]
    if missing:
        st.caption(plain(f"Not recorded in this run: {'; '.join(missing)}.", 900))


def _show_curves(run: Run) -> None:
    """The menus of the curves, and the curves: of all rollouts, or by environment."""
    marks = curves.marks()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if by_environment := curves.choose_grouping(run):
            options = environments.choose_options(sidebar.current())
        else:
            options = curves.choose_options(run)
        has_evaluations = state.get("overview_evals") and not by_environment
        evaluations = sidebar.evaluations() if has_evaluations else ()
        lines = [
            LineName(one_line(one.split or "", 40), colour(key, dark=page_parts.dark()), dash(key))
            for one, key in zip(evaluations, EVALUATIONS, strict=False)
        ]
        steps, key = run.steps["step"], page_parts.chart_key("bar")
        if not (by_environment and environments.are_many(sidebar.current())):
            curve_bar(int(steps.min()), int(steps.max()), key=key, marks=marks, lines=lines)
    if by_environment:
        environments.show(sidebar.current(), options, marks)
    else:
        _all(run, options, marks)


def _render() -> None:
    run = sidebar.narrowed()
    page_parts.header(run)
    page_export.offer(file_of(run, "overview"), partial(overview_page, run, int(state.get("step"))))
    with st.container(key="overview_lines", horizontal=True, vertical_alignment="center"):
        if not is_outline(run):
            known_findings.link(sidebar.current())
            page_parts.failures_line(sidebar.current())
        st.space("stretch")
        st.caption(plain(_caption(run)), width="content")
    _show_tiles(run, curves.KL[state.get("overview_kl")])
    if len(run.steps) == 1:
        single_step.show(run)
        trainer.show(run, CurveOptions(band="none"), curves.marks())
        _say_missing(run)
    else:
        _show_curves(run)


_render()
