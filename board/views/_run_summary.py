"""The open run in a few lines of the sidebar: how large it is, and what of its log is not shown."""

from __future__ import annotations

import time
from typing import Final

import streamlit as st

from board.core.problems import count_of
from board.store.run import Run
from board.views import _state
from board.views._text import ago, counted, plain, size

_MOST_NAMED: Final = 3


def show(run: Run) -> None:
    """Size, counts and age; and where lines or values were left out, how many and where to read why."""
    updated = ago(max(time.time() - run.info.mtime, 0.0))
    st.caption(
        f"{plain(size(run.info.bytes))} · {counted(run.rollout_count, 'rollout')} · "
        f"{counted(len(run.steps), 'step')}  \nchanged {updated} ago"
    )
    if run.missing_ranks:
        st.caption(f":material/hourglass_top: {plain(_growing(run), 300)}")
    behind = run.info.bytes - run.done
    if behind:
        share = run.done / run.info.bytes
        st.progress(share, text=f"{plain(size(behind))} of the log not read yet")
    lost, partial = count_of(run.problems, "lost"), count_of(run.problems, "partial")
    told = [
        (lost, "line", "not used", "error"),
        (partial, "value", "left out", "warning"),
        (run.superseded, "rollout", "superseded by a resume", "restart_alt"),
        (run.repeated, "repeat", "of rollouts, shown once", "content_copy"),
        (_alone(run), "row", "that no other log tells of", "link_off"),
        (run.over_cap, "rollout", "beyond the cap", "filter_alt"),
        (_padding(run), "padding token", "left out", "space_bar"),
    ]
    lines = [
        f":material/{icon}: {counted(count, noun)} {text}"
        for count, noun, text, icon in told
        if count
    ]
    if lines:
        st.caption("  \n".join(lines))
        st.page_link(
            _state.VIEWS / "health.py",
            label="What and where",
            icon=":material/arrow_forward:",
            query_params=_state.encoded(),
        )


def _growing(run: Run) -> str:
    """The newest steps that are not ended, with the ranks that may still write them, or have stopped."""
    steps = sorted(run.missing_ranks, reverse=True)
    told = [f"{step} (rank {_listed(run.missing_ranks[step])})" for step in steps[:_MOST_NAMED]]
    more = f" and {len(steps) - _MOST_NAMED} more" if len(steps) > _MOST_NAMED else ""
    return f"not ended yet: step {', '.join(told)}{more}"


def _listed(ranks: tuple[int, ...]) -> str:
    more = ", …" if len(ranks) > _MOST_NAMED else ""
    return ", ".join(map(str, ranks[:_MOST_NAMED])) + more


def _alone(run: Run) -> int:
    """Rows of each log that could have been joined with one of another, and were not."""
    return sum(max(join.rollouts - join.joined, 0) + join.rows - join.joined for join in run.joins)


def _padding(run: Run) -> int:
    return int(run.total("pad_tokens"))
