"""The trainer's own curves, below those of the rollouts and on the same steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import streamlit as st

from board.analysis.utterances import compiled
from board.charts.curve_data import CurveOptions
from board.components.curve_grid import Card, Mark
from board.core.metrics.trainer import PREFIX, TOPICS
from board.errors import ChoiceError
from board.query.open_run import Run
from board.query.trainer.metrics import TrainerMetrics
from board.views.overview import curves
from board.views.shared import cache, page_parts, state, trainer
from board.views.shared.text import counted, number, one_line, plain

_ACROSS: Final = 4
_MOST_SEARCHED: Final = 24
"""Curves that a search draws; more can't be looked at."""
_MOST_NAMED: Final = 12
_MOST_UNREAD: Final = 3


def show(run: Run, options: CurveOptions, marks: Sequence[Mark]) -> None:
    """The section of the trainer; nothing where it logged nothing beside the rollouts."""
    metrics = trainer.metrics(run)
    unread = [problem for problem in metrics.problems if problem.severity == "lost"]
    if metrics.curves or unread:
        _heading(run, metrics)
    trainer.show_reading(run)
    for problem in unread[:_MOST_UNREAD]:
        st.caption(f":material/warning: {plain(problem.path, 80)}: {plain(problem.reason, 300)}")
    if not metrics.curves:
        return
    names = [*metrics.curves]
    charts = [own for topic in TOPICS if (own := topic.of(names))]
    titles = {own[0]: topic.title for topic in TOPICS if (own := topic.of(names))}
    drawn = {name for own in charts for name in own}
    cards = [_card(metrics, own, titles[own[0]], options) for own in charts]
    if clicked := curves.draw(cards, marks, "trainer", across=_ACROSS):
        _open_step(run, clicked.step)
    others = [name for name in names if name not in drawn]
    matching = _search(others)
    cards = [_card(metrics, [name], "", options) for name in matching]
    if clicked := curves.draw(cards, marks, "trainer_found", across=_ACROSS):
        _open_step(run, clicked.step)
    _name_others(metrics, [name for name in others if name not in matching])


def _heading(run: Run, metrics: TrainerMetrics) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Trainer", width="content")
        for source in metrics.sources[:2]:
            st.badge(plain(source.name, 60), color="gray", help=plain(source.summary, 400))
        if len(metrics.sources) > 2:
            st.caption(f"and {counted(len(metrics.sources) - 2, 'more file')}", width="content")
        count, steps = counted(len(metrics.curves), "metric"), counted(metrics.step_count, "step")
        st.caption(f"{count}, {steps}", width="content")
        for source in metrics.sources:
            if source.shift:
                words = f"steps {source.shift:+d}"
                st.badge(words, icon=":material/arrow_range:", help=plain(source.summary, 400))
        st.space("stretch")
        _warn_of_differences(run)


def _warn_of_differences(run: Run) -> None:
    differing = [one for one in trainer.compared(run) if one.differs.any()]
    if not differing:
        return
    worst = max(differing, key=lambda one: float(one.differs.mean()))
    place = int(np.flatnonzero(worst.differs)[-1])
    words = f"Step {worst.steps[place]}, {worst.column}: {worst.words(place)}."
    st.badge(plain(words, 200), icon=":material/warning:", color="orange")
    state.link("findings", "Log health", findings_part="health")


def _search(others: Sequence[str]) -> list[str]:
    """A field for a regular expression over the names of the other metrics; those that match."""
    if not others:
        return []
    st.text_input(
        "More curves of the trainer",
        **state.bound("overview_trainer"),
        placeholder="Add curves by name, such as entropy|time",
        icon=":material/search:",
        label_visibility="collapsed",
        help="A regular expression over the names of the metrics, without case.",
    )
    text = str(state.get("overview_trainer")).strip()
    if not text:
        return []
    try:  # RE2 takes no longer than the names are long, whatever the expression is
        counts = compiled(text, regex=True).counts(others)
    except ChoiceError as error:
        st.error(plain(str(error), 300))
        return []
    matching = [name for name, count in zip(others, counts, strict=True) if count]
    if not matching:
        st.caption("No metric of the trainer has such a name.")
    if len(matching) > _MOST_SEARCHED:
        st.caption(f"The first {_MOST_SEARCHED} of {len(matching):,} metrics are drawn.")
    return matching[:_MOST_SEARCHED]


def _card(metrics: TrainerMetrics, names: Sequence[str], title: str, options: CurveOptions) -> Card:
    own = metrics.curves[names[0]]
    sources = dict.fromkeys(metrics.curves[name].source for name in names)
    ranks = ["The band is from the lowest to the highest rank."] if own.low is not None else []
    return Card(
        own.name,
        one_line(own.name, 60) if len(names) == 1 else title,
        cache.trainer_curve(metrics, tuple(names), options, dark=page_parts.dark()),
        "",
        [
            *([title] if title and len(names) == 1 else []),
            f"{one_line(', '.join(names), 200)}, as the trainer logged it",
            f"from {one_line(', '.join(sources), 200)}",
            *ranks,
            "Click a step to see what contributes most to it.",
        ],
    )


def _open_step(run: Run, step: int) -> None:
    """Opens what contributes to the step, by the metric of its rollouts that stands out most."""
    if step not in run.counts:
        st.toast(f"No rollout of step {step} is in the log.", icon=":material/info:")
        return
    metric = trainer.explaining_metric(run, step)
    choice = {"step_part": "contributions", "step_metric": metric, "step_only": ""}
    state.go("step", step=step, **state.NO_ROLLOUT, **choice, step_order="highest")


def _name_others(metrics: TrainerMetrics, others: Sequence[str]) -> None:
    if not others:
        return
    named = [
        f"{name.removeprefix(PREFIX)} {number(metrics.curves[name].last)}"
        for name in others[:_MOST_NAMED]
    ]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    st.caption(plain(f"Also recorded: {' · '.join(named)}{more}", 900))
