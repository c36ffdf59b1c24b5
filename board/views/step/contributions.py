"""What contributes to a metric at one step: rollouts, single tokens in context, types of tokens."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.charts.curve_data import mean_column
from board.core.metrics.definitions import base_name, rollout_metric
from board.core.tokens.spike import TOKEN_SOURCES
from board.query.open_run import Run
from board.views.shared import cache, shortcuts, state, tokenizer_field
from board.views.shared.background import show_progress
from board.views.shared.cache import Spike
from board.views.shared.text import number, one_line, plain
from board.views.step import contribution_headline, contribution_tables

_OF_GROUPS: Final = "zero_std_group_fraction"
_FIRST: Final = ("k3_mean", "mismatch_kl_mean", "entropy_mean", "reward")


def _choose_metric(run: Run) -> str | None:
    """The column that is looked at; None where the run has none."""
    offered = [*run.metrics, *([_OF_GROUPS] if _OF_GROUPS in run.steps else [])]
    if not offered:
        return None
    usual = next((name for name in _FIRST if name in offered), offered[0])
    state.ensure("of", offered, usual)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.selectbox(
            "Metric",
            offered,
            key="of",
            format_func=lambda name: one_line(rollout_metric(name).label),
            width=330,
            persist_state="session",
        )
        shortcuts.through("metric", offered, state.get("of"), lambda name: state.put(of=name))
        value = _mean_at(run, state.get("of"))
        metric = rollout_metric(state.get("of"))
        unit = "" if metric.unit == "share" else metric.unit
        st.markdown(
            f"at step {state.get('step')}: **{plain(number(value, metric.unit))}** {plain(unit)}",
            width="content",
            help=plain(f"{metric.formula} Mean over the rollouts of the step.", 600),
        )
        st.space("stretch")
        st.page_link(
            state.page_file("rollouts"),
            label=f"All rollouts of step {state.get('step')}",
            icon=":material/table_rows:",
            query_params=state.encoded(scope="step", index=None, token=None),
        )
    return str(state.get("of"))


def _mean_at(run: Run, column: str) -> float | None:
    rows = run.steps[run.steps["step"] == state.get("step")]
    means = mean_column(rows, base_name(column))
    return None if means is None or not len(means) else float(means[0])


def _tokens_of(run: Run, column: str) -> Spike | None:
    """What the tokens of the step say; None where there is nothing of them, which is said."""
    metric = rollout_metric(column)
    if column not in TOKEN_SOURCES:
        st.info(
            f"{plain(metric.label)} is recorded per rollout, not per token: only rollouts "
            "are ranked.",
            icon=":material/info:",
        )
        return None
    tokenizer = tokenizer_field.choose(run) if run.vocabulary is None else ""
    step = int(state.get("step"))
    label = f"Reading the tokens of {run.counts.get(step, 0):,} rollouts"
    reading = cache.spike(run, step, column, tokenizer)
    found = show_progress(reading, label, "contributions")
    if found is None or found.headline is None:
        if not reading.was_stopped:
            st.info(_nothing_carried(found, plain(metric.label), step), icon=":material/info:")
        return None
    if found.found.tokens.left_out:
        st.caption(f"{found.found.tokens.left_out:,} rollouts could not be read and are left out.")
    return found


def _nothing_carried(found: Spike | None, label: str, step: int) -> str:
    if found is not None and found.found.counted.any():
        return (
            f"{label} is 0 at every token of step {step}: no token contributes more than another."
        )
    return f"No token of step {step} has a value of {label}."


def show(run: Run) -> None:
    """The metric to take apart, its headline, and its tokens, types and rollouts."""
    column = _choose_metric(run)
    if column is None:
        st.info("This run records no metric to break down.")
        return
    if column == _OF_GROUPS:
        st.info(
            "This curve counts groups whose rewards are all equal: no single rollout accounts for it.",
            icon=":material/info:",
        )
        return
    spike = _tokens_of(run, column)
    if spike is None or spike.headline is None:
        contribution_tables.rollouts_table(run, column, None)
        return
    contribution_headline.show(spike, spike.headline, rollout_metric(column))
    contribution_tables.tokens_table(spike.found)
    left, right = st.columns([1, 1], gap="small")
    with left:
        contribution_tables.types_table(spike)
    with right:
        contribution_tables.rollouts_table(run, column, spike)
