"""A severe finding that is new is announced, once in a session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import streamlit as st

from board.core.findings.finding import Finding
from board.store.run import Run
from board.views._text import plain

_KNOWN: Final = "_severe_known"


def announce(run: Run, findings: Iterable[Finding]) -> None:
    """Shows a message for each rule that has a severe finding now and had none before.

    What a run has when it is opened is no news: the count of findings says it.
    """
    severe = {finding.rule: finding for finding in findings if finding.severity == "severe"}
    known: dict[str, set[str]] = st.session_state.setdefault(_KNOWN, {})
    before = known.get(run.info.name)
    known[run.info.name] = (before or set()) | severe.keys()
    if before is None:
        return
    for rule in severe.keys() - before:
        st.toast(f"Severe: {plain(severe[rule].title)}", icon=":material/error:", duration="long")
