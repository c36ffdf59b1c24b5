"""What is worth searching for, by the run itself: phrases that rise or fall over training."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from board.query.open_run import Run
from board.views.shared import cache, page_parts, state, table_headings
from board.views.shared.text import counted, one_line

_QUARTERS: Final = (
    "Share in the {} of two quarters of the sampled steps: those where it is largest and smallest."
)
_COLUMNS: Final = {
    "phrase": st.column_config.TextColumn(width=280),
    "share over training": st.column_config.LineChartColumn(
        y_min=0, y_max=1, width=260, help="Of the rollouts sampled from each step, from 0 to 1."
    ),
    **{
        name: st.column_config.NumberColumn(name, format=table_headings.PERCENT, help=told)
        for name, told in (
            ("before", _QUARTERS.format("earlier")),
            ("after", _QUARTERS.format("later")),
        )
    },
    "change": st.column_config.NumberColumn(
        "change, points", format="%+.1f", help="From before to after, in percentage points."
    ),
}


def suggested(run: Run, by: str, *, regex: bool) -> list[str]:
    """What can be chosen of it: phrases, or the patterns that find them as whole words."""
    found = cache.said_more(run, by).phrases
    return [one.pattern if regex else one.phrase for one in found]


def render(run: Run, by: str) -> None:
    """Draws the phrases; a click follows one through the run."""
    found = cache.said_more(run, by)
    if not found.rollouts:
        return
    sampled = (
        f"{counted(found.rollouts, 'rollout')} sampled from {counted(len(found.steps), 'step')}"
    )
    if not found.phrases:
        st.caption(f"No phrase clearly rises or falls over training, in {sampled}.")
        return
    st.markdown(f"#### Rising and falling phrases :gray[in {sampled} · click one to follow it]")
    rows = [
        {
            "phrase": one_line(one.phrase),
            "share over training": [share for share in one.shares if share == share],
            "before": one.before,
            "after": one.after,
            "change": 100 * one.change,
        }
        for one in found.phrases
    ]
    key = f"said_more_{run.info.name}_{by}"
    shown = table_headings.written(pd.DataFrame(rows), ("before", "after"))
    picked = page_parts.picked_row(shown, _COLUMNS, key=key)
    if picked is not None:
        state.go("rollouts", view="words", words=[found.phrases[picked].phrase], regex=False)
