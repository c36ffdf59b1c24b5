"""A row for each environment: its mean with interval, its last steps, and its course."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.core.arrays import FloatArray
from board.core.groups.environments import EnvCurves
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.recent import WINDOW, recent
from board.query.open_run import Run
from board.views.shared import cache, page_parts, state, tables
from board.views.shared.tables import PERCENT, Column
from board.views.shared.text import one_line, plain

_MOST_PIXELS: Final = 620
_LINE_POINTS: Final = 60


def show(run: Run, names: tuple[str, ...] = ()) -> None:
    """Draws the table of one metric. names: of the environments, by default all."""
    metric = str(state.ensure("overview_metric", run.metrics, _usual(run)))
    curves = cache.by_environment(run, metric)
    table = cache.means_by_environment(run, metric)
    if names:
        table = table[table["env"].isin(names)]
    table = table.sort_values("mean", kind="stable", na_position="last", ignore_index=True)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown(f"#### Environments :gray[{len(table):,}, the lowest first]", width="content")
        st.space("stretch")
        label = page_parts.metric_label
        page_parts.menu("Metric", "overview_metric", run.metrics, label, width=280)
    env = tables.pick(
        _columns(metric, table, curves),
        table["env"].astype(str).tolist(),
        key=f"environments_{run.info.name}_{metric}",
        most_pixels=_MOST_PIXELS,
        placeholder="–",
    )
    several = len(curves.steps) > 1
    words = "Click a row to see the rollouts of an environment, a head to sort."
    if several:
        words += f" Last and change: the {WINDOW} steps up to step {state.get('step')}, and those before."
    st.caption(words)
    if env is not None:
        scope = "run" if several else "step"
        state.go("rollouts", **state.NO_ROLLOUT, env=[env], rollouts_scope=scope)


def _usual(run: Run) -> str:
    return "reward" if "reward" in run.metrics else run.metrics[0]


def _columns(metric: str, table: pd.DataFrame, curves: EnvCurves) -> dict[str, Column]:
    is_share = rollout_metric(metric).unit == "share"
    number = PERCENT if is_share else "%.3g"
    interval = "95 % interval of the mean, by an error clustered by group; none of too few groups."
    about = plain(tables.definition(metric), 600)
    columns = {
        "env": Column([one_line(name, 80) for name in table["env"]], width=220),
        "rollouts": Column(table["rollouts"], "localized", width=80),
        "n": Column(table["n"], "localized", "with a value", 90),
        "mean": Column(table["mean"], number, f"mean {tables.heading(metric)}", 120, about),
        "low": Column(table["low"], number, "95 % from", 84, interval),
        "high": Column(table["high"], number, "to", 72, interval),
    }
    if (table["n"] == table["rollouts"]).all():
        del columns["n"]
    if len(curves.steps) < 2:
        return columns
    return columns | _course(table, curves, number)


def _course(table: pd.DataFrame, curves: EnvCurves, number: str) -> dict[str, Column]:
    """The last steps, the change to them with its error, and a line of all steps."""
    places = {name: place for place, name in enumerate(curves.names)}
    means = [curves.means[places[name]] for name in table["env"]]
    now = [recent(curves.steps, own, int(state.get("step"))) for own in means]
    lines = [_thinned(own) for own in means]
    values = np.concatenate([*map(np.array, lines), np.zeros(0)])
    ends = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    floats = {
        name: pd.Series([getattr(one, name) for one in now], dtype=float)
        for name in ("mean", "change", "error")
    }
    noise = "Error of the change, over steps that wander; within two of them it is noise."
    return {
        "last": Column(floats["mean"], number, f"last {WINDOW} steps", 104),
        "change": Column(floats["change"], number, "change", 80),
        "error": Column(floats["error"], number, "±", 70, noise),
        "line": Column(lines, "", "over the steps", 170, line=ends),
    }


def _thinned(means: FloatArray) -> list[float]:
    """The recorded means of steps, in as many stretches of equal length as a small chart has room for."""
    known = means[np.isfinite(means)]
    stretches = np.array_split(known, min(len(known), _LINE_POINTS)) if len(known) else []
    return [float(one.mean()) for one in stretches]
