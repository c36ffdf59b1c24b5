"""Winners vs. losers: what the better rollouts of a group have that the others have not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import streamlit as st

from board.analysis.contrasts import KINDS, NUMBERS, PARTS, WORDS
from board.core.groups.contrasts import LEAST_GROUPS, Contrast
from board.core.metrics.definitions import rollout_metric
from board.export.file_names import file_of
from board.export.pages import PageOptions
from board.export.run_pages import PageTable, tables_page
from board.export.sheet import StaticPage
from board.query.open_run import Run
from board.views.shared import cache, page_export, page_parts, state, tables
from board.views.shared.tables import PERCENT, Column
from board.views.shared.text import counted, one_line, plain

_MOST: Final = 200
_NUMBERS: Final = ("winners", "losers", "difference", "low", "high", "groups", "rate")
_TITLES: Final = {
    WORDS: "Words and phrases :gray[share of responses that say them · click one to follow it]",
    NUMBERS: "Numbers :gray[means over rollouts]",
    PARTS: "Parts of the reward :gray[means over rollouts]",
}


def show(run: Run) -> None:
    """The contrasts within groups, a table for each kind."""
    compared = cache.within_groups(run)
    if compared is None:
        page_parts.say_lacking("Groups", run, "groups")
        return
    if not compared.groups:
        st.info("In no group do the rewards differ: nobody won.", icon=":material/balance:")
        return
    st.caption(
        plain(
            f"Winners have a reward above the mean of their group, losers below: "
            f"{counted(compared.rollouts, 'rollout')} in {counted(compared.groups, 'group')} of "
            f"{counted(len(compared.steps), 'step')}. All differences are within a group, so neither "
            "the prompt nor the step explains them. Rates are by shuffling who won within groups. A "
            "difference is not a cause.",
            600,
        )
    )
    page_export.offer(file_of(run, "winners"), partial(_page, run, compared.contrasts))
    for kind in KINDS:
        own = [one for one in compared.contrasts if one.kind == kind]
        st.markdown(f"#### {_TITLES[kind]}")
        if own:
            _table(run, kind, own)
        else:
            st.caption(f"Nothing is recorded in {LEAST_GROUPS} groups or more on both sides.")


def _page(run: Run, contrasts: Sequence[Contrast], options: PageOptions) -> StaticPage:
    heads = (
        "feature",
        "winners",
        "losers",
        "difference",
        "95 % from",
        "to",
        "groups",
        "false discovery rate",
    )
    drawn: list[PageTable] = []
    for kind in KINDS:
        unit = "share" if kind == WORDS else ""
        own = [one for one in contrasts if one.kind == kind]
        rows = [(one.feature, *(getattr(one, name) for name in _NUMBERS)) for one in own]
        drawn.append(PageTable(kind, heads, (None, *[unit] * 5, "", ""), rows))
    words = "Winners have a reward above the mean of their group, losers below. A difference is no cause."
    return tables_page(run, "Winners and losers", words, drawn, options)


def _table(run: Run, kind: str, own: Sequence[Contrast]) -> None:
    # Those that winners have more of, then those that losers have: the most certain of both.
    drawn = [*own[: _MOST // 2], *own[max(len(own) - _MOST // 2, _MOST // 2) :]]
    is_word = kind == WORDS
    values = PERCENT if is_word else "%.4g"
    names = [one.feature if is_word else rollout_metric(one.feature).label for one in drawn]
    factor = 100 if is_word else 1
    unit = ", points" if is_word else ""
    columns = {
        "feature": Column([one_line(name, 80) for name in names], label=kind, width=240),
        "winners": Column([one.winners for one in drawn], values, width=85),
        "losers": Column([one.losers for one in drawn], values, width=85),
        "difference": Column(
            [factor * one.difference for one in drawn], "%+.4g", f"difference{unit}", 125
        ),
        "low": Column([factor * one.low for one in drawn], "%+.4g", "95 % from", 90),
        "high": Column([factor * one.high for one in drawn], "%+.4g", "to", 90),
        "groups": Column([one.groups for one in drawn], "localized", width=75),
        "rate": tables.rate_column((one.rate for one in drawn), "all of its kind"),
    }
    phrase = None
    if is_word:
        phrases = [one.feature for one in drawn]
        key = f"winners_{run.info.name}"
        phrase = tables.pick(columns, phrases, key=key, most_pixels=390)
    else:
        tables.draw(columns, most_pixels=390)
    if len(drawn) < len(own):
        st.caption(f"The {len(drawn):,} most certain of {len(own):,}.")
    if phrase is not None:
        state.go("rollouts", rollouts_view="words", words_phrases=[phrase], words_regex=False)
