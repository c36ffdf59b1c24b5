"""Log health: what was read, what was not, and where it stands."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from board.core.problems import count_of
from board.store.build import shown_path
from board.store.run import Run
from board.views import _page, _sidebar, _state
from board.views._text import plain, size

_OLD_COLUMNS: Final = (
    *("step", "rank", "file", "line", "reward", "advantage", "response_tokens", "response_chars"),
    *("k3_mean", "entropy_mean", "group_id", "finish_reason", "prompt", "response"),
)
_MOST_OLD: Final = 2000
_WORDS = {
    "lost": "not shown",
    "partial": "shown, a value left out",
    "note": "shown, for your information",
}


def _verdict(run: Run) -> None:
    lost, partial = count_of(run.problems, "lost"), count_of(run.problems, "partial")
    if not lost and not partial:
        st.success("Every line of the log was read.", icon=":material/check_circle:")
        return
    st.warning(
        f"{lost:,} lines or files are not shown; {partial:,} rollouts are shown with a value left out.",
        icon=":material/warning:",
    )


def _problems(run: Run) -> None:
    if not run.problems:
        return
    rows = [
        {
            "effect": _WORDS[problem.severity],
            "where (first)": problem.where,
            "field": problem.field,
            "what was found": problem.reason,
            "expected, or what to do": problem.hint,
            "lines": problem.count,
        }
        for problem in run.problems
    ]
    st.markdown("#### What was found")
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        placeholder="–",
        column_config={
            "what was found": st.column_config.TextColumn(width="large"),
            "expected, or what to do": st.column_config.TextColumn(width="large"),
        },
    )


def _left_out(run: Run) -> None:
    told = []
    if run.superseded:
        told.append(
            f"{run.superseded:,} rollouts were written again after a resume; the later are shown."
        )
    if run.over_cap:
        told.append(
            f"{run.over_cap:,} rollouts are beyond the cap of {run.options.max_per_step} a step."
        )
    if "pad_tokens" in run.columns:
        told.append(f"{int(run.total('pad_tokens')):,} padding tokens were left out.")
    if missing := int(run.total("missing_values")):
        told.append(f"{missing:,} token values are null, NaN or infinite and enter no mean.")
    for text in told:
        st.text(text)


def _superseded(run: Run) -> None:
    """The rollouts that a resume wrote again: read, and shown, only when somebody asks for them."""
    if not run.superseded:
        return
    st.toggle(
        "Show the rollouts that were written again",
        key="old",
        help="As they were before the resume. No mean and no curve has them.",
        persist_state="session",
    )
    if not _state.get("old"):
        return
    rows = run.superseded_rollouts()
    names = [shown_path(run.info, file) for file in run.info.files]
    rows = rows.assign(file=[names[number] for number in rows["file"]])
    columns = [name for name in _OLD_COLUMNS if name in rows and rows[name].notna().any()]
    st.dataframe(rows[columns].head(_MOST_OLD), hide_index=True, placeholder="–")
    if len(rows) > _MOST_OLD:
        st.caption(f"The first {_MOST_OLD:,} of {len(rows):,}.")


def _growing(run: Run) -> None:
    """Steps that are still written, and by whom; the newest first."""
    if not run.missing_ranks:
        return
    steps = sorted(run.missing_ranks, reverse=True)
    st.markdown("#### Steps that still grow")
    rows = [
        {"step": step, "not ended by rank": ", ".join(map(str, run.missing_ranks[step]))}
        for step in steps[:_MOST_OLD]
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True)


def _files(run: Run) -> None:
    shown = run.files_shown()
    rows: list[dict[str, object]] = []
    for file in run.info.files:
        path = shown_path(run.info, file)
        count, first, last = shown.get(path, (0, None, None))
        rows.append(
            {
                "file": path,
                "format": file.reader,
                "size": size(file.size),
                "rollouts shown": count,
                "first step": first,
                "last step": last,
            }
        )
    st.markdown("#### Files")
    st.text(str(run.info.path))
    st.dataframe(pd.DataFrame(rows), hide_index=True, placeholder="–")


def _settings(run: Run) -> None:
    if not run.settings:
        return
    st.markdown("#### Settings of the run, as the exporter wrote them")
    for name, content in run.settings.items():
        with st.expander(plain(name)):
            st.json(dict(content), expanded=1)


def _render() -> None:
    run = _sidebar.current()
    _page.header(run)
    _verdict(run)
    _left_out(run)
    _superseded(run)
    _problems(run)
    _growing(run)
    _files(run)
    _settings(run)


_render()
