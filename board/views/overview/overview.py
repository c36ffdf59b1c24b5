"""Overview: how the run went. Tiles for the steps up to the chosen one, curves over all steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import streamlit as st

from board.charts.curves import CurveOptions
from board.charts.palette import EVALUATIONS, colour, dash
from board.components.curve_grid import Card, LineName, Mark, Picked, curve_bar, curve_grid
from board.core.metrics.definitions import REWARD_PART, ROLLOUT_METRICS, Metric, rollout_metric
from board.query import splits
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.overview import curve_controls, environments, expression_curve, tiles
from board.views.shared import cache, curve_marks, finding_counts, page_parts, state
from board.views.shared.text import counted, one_line, plain

_PER_STEP: Final = "zero_std_group_fraction"
_MAIN: Final = (
    "response_tokens",
    "response_chars",
    "entropy_mean",
    "is_truncated",
    "mismatch_kl_mean",
    _PER_STEP,
    "reward_gap",
)
_CURVES: Final = "curves"
_ACROSS: Final = 3
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


@dataclass(frozen=True, slots=True)
class _Chart:
    """One chart: the metric it is named by, the columns it draws, and words behind its name."""

    metric: Metric
    columns: tuple[str, ...]
    words: str = ""


def _has(run: Run, column: str) -> bool:
    if column == _PER_STEP:  # groups of one rollout each have none
        return column in run.steps and bool(run.steps[column].notna().any())
    return column in run.columns


def _charts(run: Run) -> tuple[list[_Chart], list[_Chart]]:
    """The charts that say how a run goes, what only this run logs included; and the others."""
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)]
    rewards = tiles.reward_columns(run)
    wanted = [_kl_column(), *_MAIN]
    wanted += [name for name in run.metrics if not (name in ROLLOUT_METRICS or name in parts)]
    main = [_Chart(rollout_metric(name), (name,)) for name in wanted if _has(run, name)]
    if rewards:
        words = "and its parts" if parts and rewards[0] == "reward" else ""
        main.insert(0, _Chart(rollout_metric(rewards[0]), rewards, words))
    drawn = {chart.metric.name for chart in main} | {*rewards, *curve_controls.KL.values()} - {
        *parts
    }
    others = [_Chart(rollout_metric(name), (name,)) for name in run.metrics if name not in drawn]
    return main, others


def _kl_column() -> str:
    return curve_controls.KL[state.get("kl")]


def _draw(
    run: Run, charts: list[_Chart], options: CurveOptions, marks: list[Mark], *, key: str
) -> None:
    cards = [_card_of(run, chart, options) for chart in charts]
    picked = curve_grid(
        cards, step=state.get("step"), key=page_parts.chart_key(key), across=_ACROSS, marks=marks
    )
    if picked and picked.mark:
        curve_marks.open_mark(picked.mark)
    if picked:
        _open(next(chart for chart in charts if chart.metric.name == picked.chart), picked)


def _open(chart: _Chart, picked: Picked) -> None:
    """Opens the step that was clicked, of the split whose curve it was."""
    others = _beside(chart)[max(picked.line - len(chart.columns), 0) :]
    if picked.line < len(chart.columns) or not others:
        column = chart.columns[min(picked.line, len(chart.columns) - 1)]
        _open_step(picked.step, column, str(state.get("split")))
    else:
        _open_step(picked.step, chart.metric.name, splits.written(others[0].split or ""))


def _beside(chart: _Chart) -> tuple[Run, ...]:
    """The splits that are drawn beside training's: of the chart's own metric, where they record it."""
    if not state.get("evals") or chart.metric.name == _PER_STEP:
        return ()
    return tuple(run for run in sidebar.evaluations() if chart.metric.name in run.metrics)


def _card_of(run: Run, chart: _Chart, options: CurveOptions) -> Card:
    metric = chart.metric
    if metric.kind == "flag":  # mean ± std of a share would leave 0 to 1 and say nothing more
        options = replace(options, band="none")
    beside = _beside(chart)
    drawn = cache.light_curve(
        run,
        chart.columns,
        options,
        dark=page_parts.dark(),
        beside=beside,
        among=tiles.reward_columns(run),
    )
    click = "Click a step to see what contributes most to it; drag to zoom all curves."
    is_parts = len(chart.columns) > 1 and metric.name.startswith(REWARD_PART)
    title = "Reward parts" if is_parts else ""
    return page_parts.card(
        metric.name, drawn, click, title=title, columns=chart.columns, unit=chart.words
    )


def _open_step(step: int, column: str, split: str) -> None:
    place: dict[str, Any] = {"step": step, "index": None, "token": None, "zoom": None}
    state.go(
        "step", part="contributions", **place, of=column, only="", order="highest", split=split
    )


def _more(others: list[_Chart]) -> None:
    names = ", ".join(chart.metric.label for chart in others)
    st.toggle(
        counted(len(others), "more curve"),
        key="more",
        help=plain(names, 600),
        persist_state="session",
    )


def _not_recorded(run: Run) -> None:
    missing = [
        f"{rollout_metric(name).label} (needs {needs})"
        for name, needs in _NEEDS.items()
        if not _has(run, name)
    ]
    if missing:
        st.caption(plain("Not recorded in this run: " + "; ".join(missing) + ".", 900))


def _bar(run: Run, marks: list[Mark], others: Sequence[Run]) -> None:
    """What the marks and the lines of `others`, the evaluations, are, and which steps are shown."""
    steps = run.steps["step"]
    lines = [
        LineName(one_line(one.split or "", 40), colour(key, dark=page_parts.dark()), dash(key))
        for one, key in zip(others, EVALUATIONS, strict=False)
    ]
    curve_bar(
        int(steps.min()),
        int(steps.max()),
        key=page_parts.chart_key("bar"),
        marks=marks,
        lines=lines,
    )


def _all(run: Run, options: CurveOptions, marks: list[Mark]) -> None:
    main, others = _charts(run)
    _draw(run, main, options, marks, key=_CURVES)
    if others:
        _more(others)
        if state.get("more"):
            _draw(run, others, options, marks, key=f"{_CURVES}_more")
    expression_curve.show(run, options, marks)
    _not_recorded(run)


def _render() -> None:
    run = sidebar.narrowed()
    page_parts.header(run, aside=tiles.caption(run))
    finding_counts.link(sidebar.current())
    tiles.show(run, tiles.columns_of(run, _kl_column()))
    marks = curve_marks.of_run()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if by_environment := curve_controls.switch(run):
            options = environments.options(sidebar.current())
        else:
            options = curve_controls.options(run)
        is_drawn = state.get("evals") and not by_environment
        _bar(run, marks, sidebar.evaluations() if is_drawn else ())
    if by_environment:
        environments.show(sidebar.current(), options, marks)
    else:
        _all(run, options, marks)


_render()
