"""Curves and the step's table by environment, and what the mean over all of them hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import streamlit as st

from board.charts.curve_charts import ALL
from board.charts.curve_data import CurveOptions
from board.components.curve_grid import Card, Mark
from board.core.groups.environments import RATE, EnvCurves, Hidden, hidden
from board.core.metrics.definitions import reward_parts, rollout_metric
from board.core.metrics.shares import without_residue
from board.query.environments import table_of_step
from board.query.open_run import Run
from board.views.overview import curves, environment_table
from board.views.shared import cache, page_parts, shortcuts, state, tables
from board.views.shared.tables import Column
from board.views.shared.text import number, one_line, plain

_USUAL: Final = ("k3_mean", "response_tokens", "entropy_mean", "is_truncated")
_MOST_PARTS: Final = 2
_TABLE: Final = (
    *("reward", "advantage", "response_tokens", "is_truncated"),
    *("k3_mean", "entropy_mean", "mismatch_kl_mean"),
)
_MOST_TABLE_PARTS: Final = 4
_MOST_ENVIRONMENTS: Final = 8
"""Drawn in one chart: more colours can't be distinguished, and are a table."""


def are_many(run: Run) -> bool:
    """Whether the environments that are chosen are too many for curves, and are a table."""
    return len(state.get("env") or cache.environments_of(run)) > _MOST_ENVIRONMENTS


def choose_options(run: Run) -> CurveOptions:
    """Menus of which curves are drawn by environment, and how."""
    smoothing = 0.0
    if not are_many(run):
        page_parts.choose_metrics("overview_metrics", run.metrics)
        smoothing = page_parts.smoothing()
    if "env" in run.columns:
        names, chosen = cache.environments_of(run), list(state.get("env"))
        if len(names) > 1:
            one = chosen[0] if len(chosen) == 1 else None
            shortcuts.through("environment, alone", names, one, lambda name: state.put(env=[name]))
        if shortcuts.opens("the step's rollouts of what is chosen"):
            curves.open_rollouts(int(state.get("step")))
    return CurveOptions(band="none", smoothing=smoothing)


def _hidden_words(one: Hidden, names: Sequence[str], metric: str) -> str:
    """What the mean over all environments hides of a metric."""
    label, unit = rollout_metric(metric).label, rollout_metric(metric).unit
    whole = f"from {number(one.all_before, unit)} to {number(one.all_after, unit)}"
    when = f"first against last {one.window} steps, more than chance in {RATE:.0%} of runs"
    if one.kind == "mix":
        words = f"{label} over {ALL} went {whole}, but in no single environment"
        words += ": the mix of environments changed"
    else:
        own = f"from {number(one.before, unit)} to {number(one.after, unit)}"
        name = one_line(names[one.environment], 60)
        words = f"{label} of env {name} went {own}; over {ALL} it went {whole}"
    return plain(f"{words} ({when}).", 500)


def _multiples(
    run: Run,
    counts: EnvCurves,
    codes: tuple[int, ...],
    default: str,
    options: CurveOptions,
    marks: Sequence[Mark],
) -> None:
    """One small chart for each environment, of one metric, on one value axis."""
    state.ensure("overview_metric", ["", *run.metrics], "")
    metric = str(state.ensure("overview_metric", run.metrics, default))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### One by one")
        st.space("stretch")
        words = page_parts.metric_label
        page_parts.menu("Metric", "overview_metric", run.metrics, words, width=280)
    dark = page_parts.dark()
    cards = [
        Card(
            f"{metric}-{code}",
            one_line(counts.names[code], 40),
            cache.environment_curve(run, metric, (code,), options, alone=True, dark=dark),
            f"{int(counts.counts[code].sum()):,} rollouts",
        )
        for code in codes
    ]
    if clicked := curves.draw(cards, marks, f"one_{metric}"):
        code = int(clicked.chart.rpartition("-")[2])
        curves.open_rollouts(clicked.step, env=[counts.names[code]])


def _table(run: Run) -> None:
    step = int(state.get("step"))
    names = [name for name in _TABLE if name in run.metrics]
    names[1:1] = reward_parts(run.metrics)[:_MOST_TABLE_PARTS]
    frame = table_of_step(run.of_step(step), names)
    frame[names] = without_residue(frame[names].to_numpy(np.float64, na_value=np.nan))
    st.markdown(f"#### Step {step}")
    is_env = (frame["scope"] == "env").tolist()
    names_of_rows = zip(frame["env"].astype(str), is_env, strict=True)
    targets = [(step, [name] if alone else []) for name, alone in names_of_rows]
    target = tables.pick(
        {
            # An environment may bear the name of the mean, which is the first row.
            "env": Column(frame["env"].where(frame["scope"] == "env", ALL), width=112),
            "rollouts": Column(frame["rollouts"], "localized", width=70),
            **{name: tables.metric_column(name, frame[name]) for name in names},
            "without_gradient": Column(
                frame.get("without_gradient", np.nan),
                tables.PERCENT,
                "zero-std groups",
                tables.width("zero_std_group_fraction"),
                "Share of groups of equal rewards.",
            ),
        },
        targets,
        key=f"env_table_{run.info.name}",
        most_pixels=420,
        placeholder="not recorded",
    )
    st.caption("Means over the step's rollouts · click a row to see its rollouts")
    if target is not None:
        step, envs = target
        state.go("rollouts", step=step, env=envs, rollouts_scope="step")


def show(run: Run, options: CurveOptions, marks: Sequence[Mark]) -> None:
    """The curves by environment, each environment alone, and the table of the step."""
    if "env" not in run.columns or not run.metrics:
        lacks = "Step" if "env" in run.columns else "By environment"
        page_parts.say_lacking(lacks, run, "public_off")
        return
    # Every rollout has a step: what is counted by environment is all of its rollouts.
    counts = cache.by_environment(run, "step")
    chosen = [counts.names.index(name) for name in state.get("env")]
    codes = tuple(chosen or range(len(counts.names)))
    parts = reward_parts(run.metrics)[:_MOST_PARTS]
    usual = [name for name in ("reward", *parts, *_USUAL) if name in run.metrics]
    metrics = list(state.get("overview_metrics")) or usual or list(run.metrics[:2])
    if len(counts.names) == 1:
        st.caption(plain(f"This run has one environment: {counts.names[0]}."))
    for metric in metrics:
        for one in hidden(cache.by_environment(run, metric))[:3]:
            words = _hidden_words(one, counts.names, metric)
            st.warning(words, icon=":material/visibility_off:")
    if are_many(run):
        environment_table.show(run, tuple(counts.names[code] for code in codes))
        _table(run)
        return
    look = {"alone": False, "dark": page_parts.dark()}
    click = "Click the curve of an environment to see its rollouts of that step."
    drawn = {one: cache.environment_curve(run, one, codes, options, **look) for one in metrics}
    cards = [page_parts.card(metric, chart, click) for metric, chart in drawn.items()]
    if clicked := curves.draw(cards, marks, "env", one_legend=True):
        of_line = {"env": [counts.names[codes[clicked.line - 1]]]} if clicked.line else {}
        curves.open_rollouts(clicked.step, **of_line)
    _multiples(run, counts, codes, metrics[0], options, marks)
    _table(run)
