"""Several of the compared runs as one: those that have the same settings, but for their seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from board.core.metrics.seeds import LEAST
from board.core.metrics.shares import with_interval
from board.core.metrics.trainer import PREFIX
from board.query.compare.seeds import EXPLAINED, SeedGroup, differing_settings, usual_keys
from board.query.open_run import Run
from board.views.shared import cache, page_parts, state, tables
from board.views.shared.tables import Column
from board.views.shared.text import counted, distinct_options, one_line, plain


def show(runs: tuple[Run, ...], offered: Sequence[str]) -> None:
    """A curve for each set of runs with equal settings, and their interquartile means."""
    settings = differing_settings(runs)
    if not settings:
        return
    usual = usual_keys(runs)
    metrics = [name for name in offered if not name.startswith(PREFIX)]
    state.keep("compare_by", settings)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Runs grouped by settings", width="content")
        st.multiselect(
            "Group runs by",
            [*settings],
            **state.bound("compare_by"),
            placeholder=one_line(", ".join(usual)) or "none: all runs in one group",
            width=420,
            format_func=distinct_options(settings),
            label_visibility="collapsed",
            help="Runs with the same values of these settings are one curve. By default all settings "
            "that differ, but seeds.",
        )
        state.ensure("compare_over_seeds", metrics, metrics[0])
        metric = str(
            page_parts.menu("Metric", "compare_over_seeds", metrics, page_parts.metric_label)
        )
    keys = tuple(state.get("compare_by") or usual)
    groups = cache.seed_groups(runs, keys, metric)
    if all(len(group.runs) == 1 for group in groups):
        st.caption("No two of these runs have the same values of these settings.")
        return
    card = page_parts.card(
        metric, cache.seed_curve(runs, keys, metric, dark=page_parts.dark()), "", _notes(groups)
    )
    page_parts.curves([card], "compare_seeds", across=1, one_legend=True)
    _summary(groups)
    _profiles(runs, keys, metric)


def _profiles(runs: tuple[Run, ...], keys: tuple[str, ...], metric: str) -> None:
    """Performance profiles, where there are scores of several runs to tell apart."""
    label = one_line(page_parts.metric_label(metric))
    figure = cache.seed_profiles(runs, keys, metric, label, dark=page_parts.dark())
    if figure is None:
        return
    with st.container(border=True):
        st.markdown(
            "**Performance profiles**",
            help="The share of all means of a prompt in a run that lie above each value, over the "
            "prompts that all of these runs saw: a curve above another one is better at that value. The "
            "band is the 95 % interval over runs at each value, for three runs or more. Source: "
            "Agarwal et al. 2021 (rliable).",
        )
        page_parts.draw_figure(figure, "compare_profiles")


def _notes(groups: Sequence[SeedGroup]) -> list[str]:
    few = sum(len(group.runs) < LEAST for group in groups)
    notes = ["The band is the 95 % interval of the mean over the runs (Student's t)."]
    if few:
        notes.append(
            f"{counted(few, 'line')} without: fewer than {LEAST} runs say nothing of a spread."
        )
    return notes


def _summary(groups: Sequence[SeedGroup]) -> None:
    prompts = groups[0].scores.shape[1]
    ends = [group.mean[np.isfinite(group.mean)] for group in groups]
    tables.draw(
        {
            "settings": Column([one_line(group.name, 120) for group in groups], width=330),
            "runs": Column([len(group.runs) for group in groups], "%d", width=60),
            "last": Column(
                [own[-1] if len(own) else None for own in ends], "%.4g", "mean at last step", 90
            ),
            "iqm": Column(
                [group.interquartile[0] for group in groups],
                "%.4g",
                "interquartile mean",
                130,
                "The mean of the middle half of all means of a prompt in a run (Agarwal et al. 2021), "
                "over the prompts that all of these runs saw; its interval is Student's t over that of "
                "each run.",
            ),
            "low": Column([group.interquartile[1] for group in groups], "%.4g", "95 % from", 85),
            "high": Column([group.interquartile[2] for group in groups], "%.4g", "to", 85),
            "gap": Column(
                [_gap(group) for group in groups], "", "minus the first", 190, EXPLAINED, "right"
            ),
        },
        most_pixels=260,
    )
    st.caption(plain(EXPLAINED, 400))
    if not prompts:
        st.caption(plain("The interquartile mean is not known: no prompt is in all of these runs."))


def _gap(group: SeedGroup) -> str | None:
    value = group.against_first[0]
    return with_interval(*group.against_first, signed=True) if np.isfinite(value) else None
