"""How many findings a run has, in one line, and in which colours severities are shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import streamlit as st

from board.analysis.findings import Diagnosis
from board.analysis.own_thresholds import OwnThresholds, own_thresholds
from board.core.findings.finding import SEVERITIES
from board.query.open_run import Run
from board.views.shared import cache, state

ICONS: Final = {
    "severe": ":material/error:",
    "warning": ":material/warning:",
    "lead": ":material/search:",
}
_COUNTED_AT_ONCE: Final = 100_000
"""Of more rollouts, which take some 0.1 s, the page is drawn first, and counted while it is read."""
_LOOK_SECONDS: Final = 2.0
"""Counting begins at the first look, when the page is drawn also where browser and server are new."""
_DRAWN: Final = "_badge_drawn"
_LAST: Final = "_badge_last"
COLOURS: Final = {"severe": "red", "warning": "orange", "lead": "blue"}


def limits_of(run: Run) -> OwnThresholds:
    """The thresholds of a run: named on the command line, in its folder, or the board's own."""
    named = os.environ.get("ROLLOUT_BOARD_THRESHOLDS")
    return own_thresholds(run.info, Path(named) if named else None)


def counted(count: int, severity: str) -> str:
    """A number of findings in words."""
    return f"{count} {severity}" + ("s" if count != 1 and severity != "severe" else "")


def count(run: Run) -> str:
    """How many findings are known by now, for a page's name: empty where there are none.

    Nothing is computed for it.
    """
    limits = limits_of(run)
    diagnosis = cache.findings(run, limits).result or cache.index_findings(run, limits).result
    found = [finding.severity for finding in diagnosis.findings] if diagnosis else []
    if not found:
        return ""
    colour = next(COLOURS[severity] for severity in SEVERITIES if severity in found)
    return f" :small[:{colour}[{len(found)}]]"


def link(run: Run) -> None:
    """A link to the findings with how many there are, of each severity."""
    limits = limits_of(run)
    done = cache.findings(run, limits).result
    counting = cache.index_findings(run, limits)
    if done is not None:
        _link(_told(run, done))
    elif counting.result is not None or run.rollout_count <= _COUNTED_AT_ONCE:
        _link(_told(run, counting.finish()) + " · open to check tokens and texts too")
    else:
        _count(run, limits)


def _told(run: Run, found: Diagnosis) -> str:
    counts = {name: sum(f.severity == name for f in found.findings) for name in SEVERITIES}
    told = [f"{ICONS[n]} {counted(count, n)}" for n, count in counts.items() if count]
    words = f"Findings: {'  '.join(told) or 'nothing stood out'}"
    st.session_state[_LAST] = (run.info.name, words)
    return words


@st.fragment(run_every=_LOOK_SECONDS)
def _count(run: Run, limits: OwnThresholds) -> None:
    """The link while findings are counted. That begins when the page is drawn, which it would hold up."""
    counting = cache.index_findings(run, limits)
    if counting.result is not None:
        st.rerun()
    of, words = st.session_state.get(_LAST, ("", ""))
    if counting.error is not None:
        words = "Findings (can't be counted: open them to see why)"
    elif of != run.info.name:
        words = "Findings: counting …"
    _link(words)
    if st.session_state.get(_DRAWN) == run.version:
        counting.start()
    st.session_state[_DRAWN] = run.version


def _link(label: str) -> None:
    st.page_link(
        state.page_file("findings"),
        label=label,
        icon=":material/flag:",
        query_params=state.encoded(health=False),
    )
