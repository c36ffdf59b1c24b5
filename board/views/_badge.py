"""How many findings a run has, in one line, and in which colours severities are shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import streamlit as st

from board.core.findings.finding import SEVERITIES
from board.store.own_thresholds import OwnThresholds, own_thresholds
from board.store.run import Run
from board.views import _cached_looks, _state

ICONS: Final = {
    "severe": ":material/error:",
    "warning": ":material/warning:",
    "lead": ":material/search:",
}
_COUNTED_AT_ONCE: Final = 10_000_000
"""Of more the page would wait for seconds until rules have read what is kept of each step."""
_READ_AT_ONCE: Final = 1_000_000
"""The same with at most N rollouts of a step: what is kept of steps is then made at each opening."""
COLOURS: Final = {"severe": "red", "warning": "orange", "lead": "blue"}


def limits_of(run: Run) -> OwnThresholds:
    """The thresholds of a run: named on the command line, in its folder, or the board's own."""
    named = os.environ.get("ROLLOUT_BOARD_THRESHOLDS")
    return own_thresholds(run.info, Path(named) if named else None)


def counted(count: int, severity: str) -> str:
    """A number of findings in words."""
    return f"{count} {severity}" + ("s" if count != 1 and severity != "severe" else "")


def link(run: Run) -> None:
    """A link to the findings with how many there are, of each severity."""
    limits = limits_of(run)
    done = _cached_looks.findings(run, limits).finished
    is_kept = run.options.max_per_step is None
    most = _COUNTED_AT_ONCE if is_kept else _READ_AT_ONCE
    if done is None and run.rollout_count > most:
        _link("Findings (not counted yet: open them to count)")
        return
    found = (done or _cached_looks.index_findings(run, limits)).findings
    counts = {name: sum(f.severity == name for f in found) for name in SEVERITIES}
    told = [f"{ICONS[n]} {counted(count, n)}" for n, count in counts.items() if count]
    so_far = "" if done else " so far · the rules of tokens run there"
    _link(f"Findings: {'  '.join(told) or 'nothing stood out'}{so_far}")


def _link(label: str) -> None:
    st.page_link(
        _state.VIEWS / "findings.py",
        label=label,
        icon=":material/flag:",
        query_params=_state.encoded(),
    )
