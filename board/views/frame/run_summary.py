"""The open run in a few lines of the sidebar: how large it is, and what of its log is not shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import streamlit as st

from board.core.problems import count_of
from board.query.open_run import Run
from board.views.shared import state
from board.views.shared.text import counted, plain, size

_MOST_NAMED: Final = 3


def show(run: Run) -> None:
    """Size and counts, ranks that stopped, and what was left out with where to read why."""
    st.caption(
        f"{plain(size(run.info.bytes))} · {counted(run.rollout_count, 'rollout')} · "
        f"{counted(len(run.steps), 'step')}"
    )
    for icon, text in _unfinished(run):
        st.caption(f":material/{icon}: {plain(text, 300)}")
    behind = run.info.bytes - run.done
    if behind:
        share = run.done / run.info.bytes
        st.progress(share, text=f"{plain(size(behind))} of the log not read yet")
    beside = [problem for problem in run.problems if problem.is_of_file]
    lost = count_of(run.problems, "lost")
    partial = count_of(run.problems, "partial") - count_of(beside, "partial")
    told = [
        (lost, "line", "not used", "error"),
        (partial, "value", "left out", "warning"),
        (len(beside), "file", "in the folder that can't be used", "description"),
        (run.superseded, "rollout", "superseded by a resume", "restart_alt"),
        (run.repeated, "repeat", "of rollouts, shown once", "content_copy"),
        (_alone(run), "row", "without a match in another log", "link_off"),
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
            state.page_file("findings"),
            label="What and where",
            icon=":material/arrow_forward:",
            query_params=state.encoded(health=True),
        )


def _unfinished(run: Run) -> Iterator[tuple[str, str]]:
    """Ranks that have ended no step since one that others ended, and the step that is being written."""
    if not run.missing_ranks:
        return
    newest = max(run.missing_ranks)
    since: dict[int, list[int]] = {}
    for rank, first in silent_ranks(run.missing_ranks, run.counts).items():
        since.setdefault(first, []).append(rank)
    for first, ranks in sorted(since.items()):
        yield "warning", f"{_ranks(ranks)} silent since step {first}"
    silent = {rank for ranks in since.values() for rank in ranks}
    writing = [rank for rank in run.missing_ranks[newest] if rank not in silent]
    if writing:
        yield "hourglass_top", f"step {newest} not ended yet by {_ranks(writing).lower()}"


def silent_ranks(missing: Mapping[int, Sequence[int]], steps: Iterable[int]) -> dict[int, int]:
    """Rank -> the last step it ended, of the ranks that have ended none of the later steps; where it
    ended none at all, the first step. The newest step does not count: it may still be written.

    missing: by step, the ranks that have not ended it. steps: all that the log holds.
    """
    ordered = sorted(steps)
    absent = {*missing.get(ordered[-1], ())}
    found: dict[int, int] = {}
    for before, step in reversed([*zip([ordered[0], *ordered], ordered[:-1], strict=False)]):
        absent &= {*missing.get(step, ())}
        found |= dict.fromkeys(absent, before)
    return found


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks[:_MOST_NAMED])) + (", …" if len(ranks) > _MOST_NAMED else "")
    return f"Rank{'s' if len(ranks) > 1 else ''} {named}"


def _alone(run: Run) -> int:
    """Rows of each log that could have been joined with one of another, and were not."""
    return sum(max(join.rollouts - join.joined, 0) + join.rows - join.joined for join in run.joins)


def _padding(run: Run) -> int:
    return int(run.total("pad_tokens"))
