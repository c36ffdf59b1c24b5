"""Curves and the step's table by environment, and what the mean over all of them hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.curves import CurveOptions
from board.charts.env_charts import ALL
from board.components.curve_grid import Card, Mark, curve_grid
from board.core.groups.environments import EnvCurves
from board.core.groups.hidden_environments import ERRORS, Hidden, hidden
from board.core.metrics.definitions import REWARD_PART, rollout_metric
from board.core.metrics.rounding import without_residue
from board.query.env_table import table_of_step
from board.query.open_run import Run
from board.views.shared import (
    cache,
    curve_marks,
    page_parts,
    recording_hints,
    shortcuts,
    state,
    table_headings,
)
from board.views.shared.text import number, one_line, plain

_USUAL: Final = ("k3_mean", "response_tokens", "entropy_mean", "is_truncated")
_MOST_PARTS: Final = 2
_TABLE: Final = (
    *("reward", "advantage", "response_tokens", "is_truncated"),
    *("k3_mean", "entropy_mean", "mismatch_kl_mean"),
)
# Environments drawn unless others are asked for: more colours can't be told apart.
_MOST: Final = 8
_ACROSS: Final = 3


def _shown(found: EnvCurves) -> tuple[int, ...]:
    """Codes of the environments that are drawn: the chosen ones, else the largest."""
    chosen = list(state.get("env"))
    if chosen:
        return tuple(found.names.index(name) for name in chosen)
    largest = sorted(range(len(found.names)), key=lambda code: -int(found.counts[code].sum()))[
        :_MOST
    ]
    return tuple(sorted(largest))


def _metrics(run: Run) -> list[str]:
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)][:_MOST_PARTS]
    usual = [name for name in ("reward", *parts, *_USUAL) if name in run.metrics]
    return list(state.get("emetrics")) or usual or list(run.metrics[:2])


def options(run: Run) -> CurveOptions:
    """Menus of which curves are drawn by environment, and how."""
    chosen = state.keep("emetrics", run.metrics)
    label = f"Curves: {len(chosen)} chosen" if chosen else "Curves: default"
    with st.popover(label, key="menu_curves"):
        st.multiselect(
            "Curves",
            run.metrics,
            key="emetrics",
            placeholder="default",
            width=330,
            format_func=lambda name: one_line(rollout_metric(name).label),
            persist_state="session",
        )
    smoothing = page_parts.smoothing()
    if "env" in run.columns:
        _one_after_another(cache.environments_of(run))
    return CurveOptions(band="none", smoothing=smoothing, pick=True)


def _one_after_another(names: Sequence[str]) -> None:
    """Keys from one environment alone to the next, and to the rollouts of what is chosen."""
    chosen = list(state.get("env"))
    if len(names) > 1:
        one = chosen[0] if len(chosen) == 1 else None
        shortcuts.through("environment, alone", names, one, lambda name: state.put(env=[name]))
    if shortcuts.opens("the step's rollouts of what is chosen"):
        _open_step(int(state.get("step")))


def _warn(run: Run, found: EnvCurves, metrics: list[str]) -> None:
    """What the mean over all hides, in each of the metrics."""
    for metric in metrics:
        for one in hidden(cache.by_environment(run, metric))[:3]:
            st.warning(_told(one, found, metric), icon=":material/visibility_off:")


def _told(one: Hidden, found: EnvCurves, metric: str) -> str:
    label, unit = rollout_metric(metric).label, rollout_metric(metric).unit
    whole = f"from {number(one.all_before, unit)} to {number(one.all_after, unit)}"
    when = f"first against last {one.window} steps, by more than {ERRORS:g} standard errors"
    if one.kind == "mix":
        said = (
            f"{label} over {ALL} went {whole}, but in no single environment: the mix of environments "
            f"changed ({when})."
        )
        return plain(said, 500)
    own = f"from {number(one.before, unit)} to {number(one.after, unit)}"
    name = one_line(found.names[one.environment], 60)
    return plain(f"{label} of env {name} went {own}; over {ALL} it went {whole} ({when}).", 500)


def _overlaid(
    run: Run,
    found: EnvCurves,
    shown: tuple[int, ...],
    metrics: list[str],
    look: CurveOptions,
    marks: Sequence[Mark],
) -> None:
    """All in one chart; a click on the curve of an environment opens its rollouts of the step."""
    click = "Click the curve of an environment to see its rollouts of that step."
    cards = [
        page_parts.card(
            metric,
            cache.environment_curve(run, metric, shown, look, alone=False, dark=page_parts.dark()),
            click,
        )
        for metric in metrics
    ]
    picked = curve_grid(
        cards,
        step=state.get("step"),
        key=page_parts.chart_key("env"),
        across=_ACROSS,
        marks=marks,
        one_legend=True,
    )
    if picked and picked.mark:
        curve_marks.open_mark(picked.mark)
    if picked:
        _open_step(picked.step, [found.names[shown[picked.line - 1]]] if picked.line else None)


def _multiples(
    run: Run,
    found: EnvCurves,
    shown: tuple[int, ...],
    metrics: list[str],
    look: CurveOptions,
    marks: Sequence[Mark],
) -> None:
    """One small chart for each environment, of one metric, on one value axis."""
    state.ensure("emulti", ["", *run.metrics], "")
    metric = str(state.ensure("emulti", run.metrics, metrics[0]))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### One by one")
        st.space("stretch")
        st.selectbox(
            "Metric",
            list(run.metrics),
            key="emulti",
            width=280,
            format_func=lambda name: one_line(rollout_metric(name).label),
            label_visibility="collapsed",
            persist_state="session",
        )
    cards = [
        Card(
            f"{metric}-{code}",
            one_line(found.names[code], 40),
            cache.environment_curve(
                run, metric, (code,), look, alone=True, dark=page_parts.dark()
            ).chart,
            f"{int(found.counts[code].sum()):,} rollouts",
        )
        for code in shown
    ]
    key = page_parts.chart_key(f"one_{metric}")
    picked = curve_grid(cards, step=state.get("step"), key=key, across=_ACROSS, marks=marks)
    if picked and picked.mark:
        curve_marks.open_mark(picked.mark)
    if picked:
        _open_step(picked.step, [found.names[int(picked.chart.rpartition("-")[2])]])


def _open_step(step: int, envs: list[str] | None = None) -> None:
    chosen = list(state.get("env")) if envs is None else envs
    state.go("rollouts", step=step, env=chosen, index=None, token=None, scope="step")


def _table(run: Run) -> None:
    step = int(state.get("step"))
    parts = [name for name in run.metrics if name.startswith(REWARD_PART)][:4]
    names = [name for name in _TABLE if name in run.metrics]
    names[1:1] = parts
    frame = table_of_step(run.of_step(step), names)
    frame[names] = without_residue(frame[names].to_numpy(np.float64, na_value=np.nan))
    # Where an environment bears the name of the mean, the place tells: the mean is the first row.
    shown = frame.assign(env=frame["env"].where(frame["scope"] == "env", ALL))
    shares = ["without_gradient", *(n for n in names if rollout_metric(n).unit == "share")]
    shown = table_headings.written(table_headings.without_empty(shown), shares)
    st.markdown(f"#### Step {step}")
    event: Any = st.dataframe(
        shown,
        key=f"env_table_{run.info.name}_{step}_{len(frame)}",
        hide_index=True,
        row_height=36,
        height=min(36 * (len(frame) + 1) + 3, 420),
        placeholder="not recorded",
        on_select="rerun",
        selection_mode="single-cell",
        column_config=_table_columns(frame, names),
    )
    st.caption("Means over the step's rollouts · click a row to see its rollouts")
    if event.selection.cells:
        row = frame.iloc[int(event.selection.cells[0][0])]
        chosen = [str(row["env"])] if row["scope"] == "env" else []
        state.go("rollouts", env=chosen, scope="step")


def _table_columns(frame: pd.DataFrame, names: list[str]) -> dict[str, Any]:
    """How the means of `names` and the share of groups zero-std groups are headed."""
    found: dict[str, Any] = {
        "scope": None,  # not shown
        "env": st.column_config.TextColumn(width=112),
        "rollouts": st.column_config.NumberColumn(format="localized", width=70),
        "without_gradient": st.column_config.NumberColumn(
            "zero-std groups",
            format=table_headings.PERCENT,
            help="Share of groups of equal rewards.",
            width=table_headings.width("zero_std_group_fraction"),
        ),
    }
    return found | {name: table_headings.number_column(name, frame[name]) for name in names}


def show(run: Run, look: CurveOptions, marks: Sequence[Mark]) -> None:
    """The curves by environment, each environment alone, and the table of the step."""
    if "env" not in run.columns or not run.metrics:
        has_env = "env" in run.columns
        needs, lacking = (("reward",), "Step") if has_env else (("env",), "By environment")
        st.info(
            f"{page_parts.not_recorded(run.columns, needs)} {recording_hints.how_to_record(lacking)}",
            icon=":material/public_off:",
        )
        return
    # Every rollout has a step: what is counted by environment is all of its rollouts.
    found = cache.by_environment(run, "step")
    shown, metrics = _shown(found), _metrics(run)
    if len(found.names) == 1:
        st.caption(plain(f"This run has one environment: {found.names[0]}."))
    _warn(run, found, metrics)
    if not state.get("env") and len(found.names) > _MOST:
        st.caption(f"The largest {_MOST} of {len(found.names):,} environments are drawn.")
    _overlaid(run, found, shown, metrics, look, marks)
    _multiples(run, found, shown, metrics, look, marks)
    _table(run)
