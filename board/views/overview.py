"""Overview: how the run went. Cards for the chosen step, curves over all steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import streamlit as st

from board.charts.curves import CurveOptions, change, last_means
from board.components.curve_grid import Card, curve_grid
from board.components.sparkline import Tone, sparkline
from board.core.metrics import REWARD_PART, ROLLOUT_METRICS, Metric, rollout_metric
from board.store import splits
from board.store.narrowed import NarrowedRun
from board.store.run import Run
from board.store.steps import base_name
from board.views import _badge, _cached, _own_curve, _page, _sidebar, _state
from board.views._text import counted, number, plain

_BACK: Final = 20
_PER_STEP: Final = "zero_std_group_fraction"
_KL: Final = {"k1": "k1_mean", "k2": "k2_mean", "k3": "k3_mean"}
_BANDS: Final = {
    "std": "mean ± std",
    "quantiles": "5–95 % and 25–75 %",
    "minmax": "min–max",
    "none": "no band",
}
_MAIN: Final = (
    "response_tokens",
    "response_chars",
    "entropy_mean",
    "mismatch_kl_mean",
    "is_truncated",
    _PER_STEP,
    "reward_gap",
)
# The cards beside reward and KL, most telling first: more than five would cut their labels.
_CARDS: Final = (
    "response_tokens",
    "response_chars",
    "entropy_mean",
    "is_truncated",
    _PER_STEP,
    "reward_gap",
)
_MOST_CARDS: Final = 5
_CURVES: Final = "curves"
_REWARDS: Final = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
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
    """One chart: the metric it is named by, and the columns it draws."""

    metric: Metric
    columns: tuple[str, ...]


def _has(run: Run, column: str) -> bool:
    if column == _PER_STEP:  # groups of one rollout each have none
        return column in run.steps and bool(run.steps[column].notna().any())
    return column in run.columns


def _charts(run: Run) -> tuple[list[_Chart], list[_Chart]]:
    """The charts that tell how a run goes, what only this run logs included; and the others."""
    rewards = tuple(name for name in _REWARDS if _has(run, name))
    wanted: list[tuple[str, ...]] = [rewards] if rewards else []
    wanted.append((_KL[_state.get("kl")],))
    wanted += [(name,) for name in _MAIN]
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)]
    wanted += [(name,) for name in parts]
    wanted += [(name,) for name in run.metrics if not (name in ROLLOUT_METRICS or name in parts)]
    main = [_Chart(rollout_metric(c[0]), c) for c in wanted if _has(run, c[0])]
    shown = {column for chart in main for column in chart.columns} | set(_KL.values())
    others = [_Chart(rollout_metric(c), (c,)) for c in run.metrics if c not in shown]
    return main, others


def _cards(run: Run) -> None:
    columns = ["reward", _KL[_state.get("kl")], *_CARDS]
    held = [column for column in columns if _has(run, column)][:_MOST_CARDS]
    if not held:
        return
    with st.grid(max(len(held), 4), min_column_width=170, gap="small"):
        for place, column in enumerate(held):
            _card(run, rollout_metric(column), place)


def _card(run: Run, metric: Metric, place: int) -> None:
    stem, step = base_name(metric.name), int(_state.get("step"))
    value, delta, back = change(run.steps, stem, step, _BACK)
    history = last_means(run.steps, stem, step)
    colour = {"up": "normal", "down": "inverse", "neither": "off"}[metric.better]
    with st.container(border=True, height="stretch", gap="xsmall"):
        # A share is shown in percent: its unit stands beside the number.
        told = metric.unit in ("", "share") or metric.unit in metric.label
        unit = "" if told else f" :gray[{plain(metric.unit)}]"
        st.metric(
            f"{plain(metric.label)}{unit}",
            number(value, metric.unit),
            None if delta is None else _signed(delta, metric.unit),
            delta_color=colour if delta else "off",  # type: ignore[arg-type]
            delta_arrow="off" if not delta else "auto",
            delta_description=f"in {back} steps" if back else None,
            help=plain(f"{metric.formula} Mean over the rollouts of step {step}.", 600),
        )
        if len(history) > 1:
            sparkline(history, tone=_tone(metric, delta), key=f"card-{place}")


def _tone(metric: Metric, delta: float | None) -> Tone:
    if not delta or metric.better == "neither":
        return "gray"
    return "green" if (delta > 0) == (metric.better == "up") else "red"


def _signed(delta: float, unit: str) -> str:
    if delta == 0:
        return "no change"
    # A share that goes from 10 to 15 % has grown by five points, and by half of itself.
    shown = f"{100 * abs(delta):.1f} points" if unit == "share" else number(abs(delta), unit)
    return f"{'-' if delta < 0 else '+'}{shown}"


def _controls(run: Run) -> CurveOptions:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if _has(run, "k3_mean"):
            _choose_estimator()
        _choose_band()
        smoothing = _page.smoothing()
        _choose_scale()
    return CurveOptions(
        band=_state.get("band"),
        std_scale=float(_state.get("scale")),
        smoothing=smoothing,
        shift_to_zero=bool(_state.get("shift")),
        log=bool(_state.get("log")),
    )


def _choose_estimator() -> None:
    st.segmented_control(
        "KL estimator",
        list(_KL),
        key="kl",
        required=True,
        help="KL(policy‖reference). k1 = d, k2 = d²/2, k3 = exp(-d) - 1 + d, with "
        "d = logprobs - ref_logprobs (Schulman 2020).",
        persist_state="session",
    )


def _choose_band() -> None:
    st.selectbox(
        "Band",
        list(_BANDS),
        key="band",
        format_func=lambda name: _BANDS[name],
        width=190,
        help="Spread over the rollouts of a step. mean ± std ends at the smallest and the largest of "
        "them: what is never negative is never drawn so.",
        persist_state="session",
    )
    st.number_input(
        "Band, × std",
        0.1,
        3.0,
        step=0.1,
        key="scale",
        width=120,
        disabled=_state.get("band") != "std",
        persist_state="session",
    )


def _choose_scale() -> None:
    """Where curves begin, which scale they are on, and whether other splits stand beside them."""
    st.toggle(
        "Start at zero",
        key="shift",
        help="Subtracts the first recorded mean from every curve.",
        persist_state="session",
    )
    if others := _sidebar.evaluations():
        names = plain(", ".join(one.split or "" for one in others), 40)
        st.toggle(
            f"Points of {names}",
            key="evals",
            help="Means of the other splits' rollouts, dotted, beside training's. A click on one "
            "opens its step in its own split.",
            persist_state="session",
        )
    st.toggle(
        "Log scale",
        key="log",
        help="Values at or below zero have no place on it; how many is said at the chart.",
        persist_state="session",
    )


def _draw(run: Run, charts: list[_Chart], options: CurveOptions, *, key: str) -> None:
    cards = [_card_of(run, chart, options) for chart in charts]
    picked = curve_grid(cards, step=_state.get("step"), key=_page.chart_key(key))
    if picked:
        chart = next(chart for chart in charts if chart.metric.name == picked.chart)
        others = _beside(chart)[max(picked.line - len(chart.columns), 0) :]
        if picked.line < len(chart.columns) or not others:
            column = chart.columns[min(picked.line, len(chart.columns) - 1)]
            _open_step(picked.step, column, str(_state.get("split")))
        else:
            _open_step(picked.step, chart.metric.name, splits.written(others[0].split or ""))


def _beside(chart: _Chart) -> tuple[NarrowedRun, ...]:
    """The splits that are drawn beside training's: of the chart's own metric, where they record it."""
    if not _state.get("evals") or chart.metric.name == _PER_STEP:
        return ()
    return tuple(run for run in _sidebar.evaluations() if chart.metric.name in run.metrics)


def _card_of(run: Run, chart: _Chart, options: CurveOptions) -> Card:
    metric = chart.metric
    if metric.kind == "flag":  # mean ± std of a share would leave 0 to 1 and say nothing more
        options = replace(options, band="none")
    beside = _beside(chart)
    drawn = _cached.light_curve(run, chart.columns, options, dark=_page.dark(), beside=beside)
    click = "Click a step to see what carries it; drag to zoom."
    return _page.card(metric.name, drawn, click, columns=chart.columns)


def _open_step(step: int, column: str, split: str) -> None:
    place: dict[str, Any] = {"step": step, "index": 0, "token": None, "zoom": None}
    _state.go("spike", **place, of=column, only="", order="highest", split=split)


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


def _render() -> None:
    run = _sidebar.narrowed()
    _page.header(run)
    _badge.link(_sidebar.current())
    _cards(run)
    options = _controls(run)
    main, others = _charts(run)
    _draw(run, main, options, key=_CURVES)
    if others:
        _more(others)
        if _state.get("more"):
            _draw(run, others, options, key=f"{_CURVES}_more")
    _own_curve.show(run, options)
    _not_recorded(run)


_render()
