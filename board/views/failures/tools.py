"""Failed calls of tools: by tool how many there are, and their share of its results over the steps."""

from __future__ import annotations

import streamlit as st

from board.charts.curves import light
from board.charts.failure_charts import tool_errors_over_steps
from board.components.curve_grid import Card
from board.core.texts.messages import RULE
from board.query.failures import filter_of_tool
from board.query.open_run import Run
from board.views.shared import cache, page_parts, state, tables
from board.views.shared.tables import PERCENT, Column
from board.views.shared.text import one_line

_MOST_CURVES = 8


def show(run: Run) -> None:
    """The tools of the run, those with the most errors first; nothing where no result is recorded."""
    results = cache.tool_results(run)
    if results is None or not results["answered"].any():
        return
    sums = results.groupby("tool", as_index=False)[
        ["calls", "answered", "errors", "rollouts"]
    ].sum()
    sums = sums.sort_values(["errors", "calls"], ascending=False, ignore_index=True)
    words = "click one for the rollouts in which it failed"
    st.markdown(f"#### Failed tool calls :gray[{words}]", help=RULE)
    drawn = sums["tool"].head(_MOST_CURVES)
    of_drawn = results[results["tool"].isin(drawn)]
    of_drawn = of_drawn.assign(rank=of_drawn["tool"].map({t: n for n, t in enumerate(drawn)}))
    smoothing = float(state.get("smooth"))
    chart = tool_errors_over_steps(
        of_drawn.sort_values(["rank", "step"]), dark=page_parts.dark(), smoothing=smoothing
    )
    about = ["Results that are errors, of all results of the tool at the step."]
    about.append("Click a step to see its rollouts with errors.")
    left, right = st.columns(2, gap="small")
    with left:
        clicked = page_parts.curves(
            [Card("tool_errors", "Share of failed calls", light(chart), help=about)], "tool_errors"
        )
    with right:
        tool = tables.pick(
            {
                "tool": Column([one_line(name, 60) for name in sums["tool"]]),
                "calls": Column(sums["calls"].tolist(), "localized"),
                "errors": Column(sums["errors"].tolist(), "localized", "failed"),
                "share": Column(
                    (sums["errors"] / sums["answered"].where(sums["answered"] > 0)).tolist(),
                    PERCENT,
                    help="Of the calls whose result is recorded.",
                ),
                "rollouts": Column(
                    sums["rollouts"].tolist(),
                    "localized",
                    help="Rollouts with a failed call of it.",
                ),
            },
            [str(name) for name in sums["tool"]],
            key=f"tools_{run.info.name}",
            most_pixels=300,
        )
    if clicked:
        choices = {"rollouts_view": "list", "rollouts_scope": "step", "where": "tool_errors > 0"}
        state.go("rollouts", step=clicked.step, page=0, **state.NO_ROLLOUT, **choices)
    if tool is not None:
        page_parts.open_matching(filter_of_tool(tool))
