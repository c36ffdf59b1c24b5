"""The findings of a run that are known so far: their count, the link to them, news of severe ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import streamlit as st

from board.analysis import findings
from board.analysis.findings import Diagnosis, OwnThresholds, own_thresholds
from board.analysis.reviewed_findings import read_reviewed
from board.core.findings.finding import SEVERITIES
from board.query.open_run import Run
from board.query.trainer.agreement import is_what_was_trained_on
from board.views.shared import cache, state, trainer
from board.views.shared.background import BackgroundTask
from board.views.shared.text import plain

ICONS: Final = {
    "severe": ":material/error:",
    "warning": ":material/warning:",
    "lead": ":material/search:",
}
COLOURS: Final[Mapping[str, Literal["red", "orange", "blue"]]] = {
    "severe": "red",
    "warning": "orange",
    "lead": "blue",
}
_COUNT_AT_ONCE_ROLLOUTS: Final = 100_000
"""Of more rollouts, which take some 0.1 s, the page is drawn first, and counted while it is read."""
_POLL_SECONDS: Final = 2.0
"""Counting begins at the first poll, when the page is drawn also where browser and server are new."""
_NEWS_SECONDS: Final = 1.0
_DRAWN: Final = "_badge_drawn"
_LAST: Final = "_badge_last"
_SEVERE: Final = "_severe_known"


def limits_of(run: Run) -> OwnThresholds:
    """The thresholds of a run: named on the command line, in its folder, or the board's own."""
    named = os.environ.get("ROLLOUT_BOARD_THRESHOLDS")
    return own_thresholds(run.info, Path(named) if named else None)


def task(run: Run, *, tokens: bool) -> BackgroundTask[Diagnosis]:
    """The check by all rules; without tokens by those that need nothing but the index."""
    return cache.findings(run, limits_of(run), tokens=tokens)


def known(run: Run) -> Diagnosis | None:
    """What the rules found so far, without muted findings; None before they have run. Nothing is computed
    for it.
    """
    diagnosis = task(run, tokens=True).result or task(run, tokens=False).result
    return None if diagnosis is None else without_muted(run, with_trainer(run, diagnosis))


def without_muted(run: Run, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without the findings that are muted for this run."""
    reviewed = read_reviewed(run.info)
    findings = tuple(one for one in diagnosis.findings if not reviewed.is_muted(one))
    return replace(diagnosis, findings=findings)


def with_trainer(run: Run, diagnosis: Diagnosis) -> Diagnosis:
    """The findings with those about the trainer's metrics, as far as these are read."""
    if not is_what_was_trained_on(run):
        return diagnosis
    compared = trainer.compared(run)
    thresholds = limits_of(run).thresholds
    return findings.with_trainer(diagnosis, compared, thresholds, trainer.changed_at(run))


def counted(count: int, severity: str) -> str:
    """A number of findings in words."""
    return f"{count} {severity}" + ("s" if count != 1 and severity != "severe" else "")


def badge(run: Run) -> str:
    """How many findings are neither seen nor muted, for a page's name: empty where there are none, and a
    mark while only the index was checked, which may not be all of them.
    """
    diagnosis, reviewed = known(run), read_reviewed(run.info)
    new = [one for one in diagnosis.findings if not reviewed.is_seen(one)] if diagnosis else []
    if not new:
        # While a run is followed findings come and go, and the tabs stay where they are.
        return " :small[:gray[●]]" if state.get("live") else ""
    worst = min(new, key=lambda one: SEVERITIES.index(one.severity)).severity
    is_all = task(run, tokens=True).result is not None and not state.get("live")
    return f" :small[:{COLOURS[worst]}[{len(new) if is_all else '●'}]]"


def link(run: Run) -> None:
    """A link to the findings with how many there are, of each severity."""
    every, index = task(run, tokens=True).result, task(run, tokens=False)
    if every is not None:
        _page_link(_summary(run, every))
    elif index.result is not None or run.rollout_count <= _COUNT_AT_ONCE_ROLLOUTS:
        _page_link(_summary(run, index.finish()) + " · open to check tokens and texts too")
    else:
        _link_while_counting(run)


def _summary(run: Run, diagnosis: Diagnosis) -> str:
    counts = without_muted(run, with_trainer(run, diagnosis)).counts
    parts = [f"{ICONS[name]} {counted(count, name)}" for name, count in counts.items() if count]
    words = f"Findings: {'  '.join(parts) or 'nothing stood out'}"
    st.session_state[_LAST] = (run.info.name, words)
    return words


@st.fragment(run_every=_POLL_SECONDS)
def _link_while_counting(run: Run) -> None:
    """Counting begins when the page is drawn, which it would delay."""
    counting = task(run, tokens=False)
    if counting.result is not None:
        st.rerun()
    counted_run, words = st.session_state.get(_LAST, ("", ""))
    if counting.error is not None:
        words = "Findings (can't be counted: open them to see why)"
    elif counted_run != run.info.name:
        words = "Findings: counting …"
    _page_link(words)
    if st.session_state.get(_DRAWN) == run.version:
        counting.start()
    st.session_state[_DRAWN] = run.version


def _page_link(label: str) -> None:
    state.link("findings", label, "flag")


@st.fragment(run_every=_NEWS_SECONDS)
def announce_severe(run: Run) -> None:
    """A message for each rule that has a severe finding now and had none before, on whichever page.

    What the first reading of a run finds, by the index or with its tokens, is not news.
    """
    index, every = task(run, tokens=False), task(run, tokens=True)
    index.start()
    rules: dict[tuple[str, str], set[str]] = st.session_state.setdefault(_SEVERE, {})
    for scope, diagnosis in (("index", index.result), ("tokens", every.result)):
        if diagnosis is None:
            continue
        unmuted = without_muted(run, diagnosis).findings
        severe = {one.rule: one for one in unmuted if one.severity == "severe"}
        is_first = (run.info.name, scope) not in rules
        before = {rule for (name, _), own in rules.items() if name == run.info.name for rule in own}
        rules.setdefault((run.info.name, scope), set()).update(severe)
        for rule in severe.keys() - before if not is_first else ():
            words = f"Severe: {plain(severe[rule].title)}"
            st.toast(words, icon=ICONS["severe"], duration="long")
