"""Of a filter over several steps: which share of the rollouts of each step passes it."""

from __future__ import annotations

import pandas as pd

from board.charts.curve_charts import shares_by_name
from board.charts.curves import light
from board.components.curve_grid import Card
from board.query.open_run import Run
from board.views.rollouts.filter_field import Listed, wanted
from board.views.shared import page_parts, state
from board.views.shared.text import one_line


def show(run: Run, listed: Listed) -> None:
    """The curve, where a filter is chosen and the list is over more than a step."""
    text, scope = wanted(run), listed.run.step_range
    if not text or state.get("rollouts_scope") == "step":
        return
    totals = {
        step: count
        for step, count in run.counts.items()
        if scope is None or scope[0] <= step <= scope[1]
    }
    steps = pd.Series([*totals])
    passing = steps.map(listed.run.counts).fillna(0)
    table = pd.DataFrame(
        {"step": steps, "n": steps.map(totals), "mean": passing / steps.map(totals)}
    )
    drawn = light(
        shares_by_name(
            {one_line(text, 60): table},
            dark=page_parts.dark(),
            smoothing=float(state.get("smooth")),
        )
    )
    about = [
        "Rollouts of the step that pass the filter, of all.",
        "Click a step to see its rollouts.",
    ]
    card = Card("passing", "Share that passes the filter", drawn, help=about)
    if clicked := page_parts.curves([card], "share_passing"):
        state.go("rollouts", rollouts_scope="step", step=clicked.step, page=0, **state.NO_ROLLOUT)
