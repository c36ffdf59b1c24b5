"""Confirming or overruling the cause of failures that are alike, here and as a rule for other runs."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.core.failures.causes import BASES, CAUSES, Cause
from board.errors import BoardError
from board.index.cause_rules import FILE, add_rule, rules_text
from board.query.failures import Clusters
from board.query.labels.matching import usual_author
from board.query.open_run import Run
from board.views.shared import state
from board.views.shared.text import distinct_options, one_line, plain

_MOST: Final = 20


def show(run: Run, similar: Clusters) -> None:
    """A choice of a cluster and of its cause, and the rules that the run has so far."""
    rows = similar.table.head(_MOST)
    with st.popover("Confirm or overrule a cause", icon=":material/gavel:"):
        label = distinct_options(
            list(range(len(rows))),
            lambda at: f"{rows.iloc[at]['cause']}: {one_line(rows.iloc[at]['evidence'], 90)}",
            100,
        )
        at = st.selectbox(
            "Failures", range(len(rows)), format_func=label, key="failures_verdict_of"
        )
        chosen = rows.iloc[at or 0]
        st.caption(
            plain(f"Told as {chosen['cause']} ({chosen['basis']}): {_basis(chosen['basis'])}.", 300)
        )
        causes: list[Cause] = [*CAUSES]
        cause = st.selectbox(
            "What is it?",
            causes,
            index=causes.index(chosen["cause"]),
            format_func=lambda one: f"{one}: {CAUSES[one]}",
            key=f"failures_verdict_{at}",
        )
        if st.button("Save for this run", key="failures_verdict_save", type="primary"):
            _save(run, cause, str(chosen["pattern"]))
        if text := rules_text(run.info):
            st.caption(
                f"Rules of this run, in {FILE}. Copy them into a causes.toml for other runs."
            )
            st.code(text, language=None, height=200)


def _basis(basis: object) -> str:
    return next((about for name, about in BASES.items() if name == basis), "")


def _save(run: Run, cause: Cause, alike: str) -> None:
    try:
        add_rule(run.info, cause, alike, usual_author())
    except (BoardError, OSError) as error:
        state.notice(f"That can't be saved: {error}")
    st.rerun()
