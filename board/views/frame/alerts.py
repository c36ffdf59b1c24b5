"""While a log is followed, a severe finding that is new is announced, once, on whichever page is open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import streamlit as st

from board.analysis.own_thresholds import OwnThresholds
from board.core.findings.finding import Finding
from board.query.open_run import Run
from board.views.shared import cache, finding_counts
from board.views.shared.text import plain

_CHECK_SECONDS: Final = 1.0
_KNOWN: Final = "_severe_known"


def watch(run: Run) -> None:
    """Announces the severe findings that come up from now on. Called when the page is drawn: finding
    them runs behind it.
    """
    _announce(run, finding_counts.limits_of(run))


@st.fragment(run_every=_CHECK_SECONDS)
def _announce(run: Run, limits: OwnThresholds) -> None:
    index = cache.index_findings(run, limits)
    index.start()
    every = cache.findings(run, limits)
    known: dict[tuple[str, str], set[str]] = st.session_state.setdefault(_KNOWN, {})
    for scope, found in (("index", index.result), ("tokens", every.result)):
        if found is not None:
            _say_new(known, (run.info.name, scope), found.findings)


def _say_new(
    known: dict[tuple[str, str], set[str]], place: tuple[str, str], findings: Iterable[Finding]
) -> None:
    """A message for each rule that has a severe finding now and had none before.

    known: by run and by what was read (the index, or tokens too), the rules that had one. What is there
    at the first reading of a run is not news: the count of findings says it.
    """
    severe = {finding.rule: finding for finding in findings if finding.severity == "severe"}
    said = {rule for (run, _), rules in known.items() if run == place[0] for rule in rules}
    is_first = place not in known
    known.setdefault(place, set()).update(severe)
    for rule in severe.keys() - said if not is_first else ():
        st.toast(f"Severe: {plain(severe[rule].title)}", icon=":material/error:", duration="long")
