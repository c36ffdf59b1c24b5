"""Failures: why rollouts failed, what the failures have in common, and what they did to training."""

from __future__ import annotations

from functools import partial
from typing import Final

import pandas as pd
import streamlit as st

from board.charts.curves import light
from board.charts.failure_charts import causes_by_value, causes_over_steps
from board.components.curve_grid import Card
from board.core.failures.causes import BASES, CLASSES, PLUMBING, CauseClass
from board.core.metrics.shares import percent
from board.export.file_names import file_of
from board.export.run_pages import failures_page
from board.query.failures import (
    KINDS,
    Clusters,
    Headline,
    RunEffect,
    filter_of_cluster,
    headline,
    shares_by_step,
)
from board.query.open_run import Run
from board.views.failures import tools, verdicts
from board.views.shared import cache, page_export, page_parts, state, tables
from board.views.shared.tables import Column
from board.views.shared.text import number, one_line, plain

_KIND_NAMES: Final = {"env": "environment", "tool": "tool", "rank": "rank"}
_HELP: Final = (
    "In this order: what the log records of a failure, a limit that cut the rollout, a missing reward; "
    "then, where the reward is 0 or less, the last output of a tool, a response without a token, and an "
    "output that many prompts ended with. What is left is the policy's."
)


def _show_cards(counts: pd.DataFrame, effect: RunEffect | None) -> None:
    head = headline(counts)
    totals = counts.dropna().groupby("cause")["rollouts"].sum()
    cards = [
        (title, percent(head.by_class[name] / head.rollouts), _counts_of(name, totals, head), about)
        for name, title, about in _CLASS_CARDS
    ]
    if effect is not None:
        share, groups = effect.effect.weight_share, effect.effect
        words = f"{groups.changed:,} of {groups.groups:,} groups changed"
        about = "Their part of the sum of |advantage| over all rollouts, by the rewards as trained."
        cards.append(("Weight of failures", number(share, "share"), words, about))
    tables.cards(cards)


_BASIS_HELP: Final = "How the cause was told. " + " ".join(
    f"{name}: {about}." for name, about in BASES.items()
)


def _counts_of(name: CauseClass, totals: pd.Series[int], head: Headline) -> str:
    """How many of the rollouts are of a class, by cause."""
    causes = [cause for cause in CLASSES[name] if cause in totals.index]
    by_cause = ", ".join(f"{totals[cause]:,} {cause}" for cause in causes)
    return f"{head.by_class[name]:,} of {head.rollouts:,}" + (f": {by_cause}" if causes else "")


_CLASS_CARDS: Final[tuple[tuple[CauseClass, str, str], ...]] = (
    (
        "infrastructure",
        "Infrastructure failed",
        f"Causes {', '.join(PLUMBING)}: failures that the policy can't cause.",
    ),
    (
        "unclear",
        "Unclear",
        "Recorded as failed, aborted or without a reward, and the log does not say whose it is: see the "
        "evidence below.",
    ),
    ("policy", "The model's own", _HELP),
    ("limit", "At a limit", "A budget of tokens, turns or time ran out."),
)


def _show_steps(run: Run, counts: pd.DataFrame) -> None:
    shares = shares_by_step(counts)
    st.markdown("#### Causes by step", help=_HELP)
    smoothing = page_parts.smoothing()
    other = shares.drop(columns="policy", errors="ignore")
    cards = [
        Card(
            key,
            title,
            light(causes_over_steps(own, dark=page_parts.dark(), smoothing=smoothing)),
            help=[about, "Click a step to see its rollouts."],
        )
        for key, title, own, about in (
            ("failures", "Failures and limits", other, "Shares of all rollouts of the step."),
            ("policy", "All causes", shares, "Wrong answers (policy) included."),
        )
        if len(own.columns) and (key == "failures" or "policy" in own)
    ]
    if clicked := page_parts.curves(cards, "failures", across=2):
        where = "cause != ''" if clicked.chart == "policy" else "cause != '' and cause != 'policy'"
        _open_rollouts(clicked.step, where)


def _open_rollouts(step: int, where: str) -> None:
    choices = {"rollouts_view": "list", "rollouts_scope": "step", "where": where}
    state.go("rollouts", step=step, **state.NO_ROLLOUT, **choices)


def _show_kinds(run: Run) -> None:
    tables_of = {kind: cache.failures_by(run, kind) for kind in KINDS}
    known = {kind: one for kind, one in tables_of.items() if one is not None and len(one)}
    known = {kind: one for kind, one in known.items() if one["cause"].notna().any()}
    if not known:
        return
    with st.container(border=True, height="stretch"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**By what they have in common**", width="content")
            st.space("stretch")
            state.ensure("failures_by", list(known), next(iter(known)))
            chosen = page_parts.segments("By", "failures_by", _KIND_NAMES, list(known))
        figure = causes_by_value(known[chosen], dark=page_parts.dark())
        page_parts.draw_figure(figure, f"failures_{chosen}")


def _show_clusters(run: Run, similar: Clusters) -> None:
    listed = len(similar.table)
    if not listed:
        st.caption("No failure other than limits and wrong answers.")
        return
    words = (
        f"the first {listed:,} of {similar.total:,}" if similar.total > listed else "all of them"
    )
    st.markdown(
        f"#### Equal failures :gray[{words} · click one for its rollouts]",
        help="Rollouts of one cause whose evidence is the same but for numbers.",
    )
    table = similar.table
    cluster = tables.pick(
        {
            "cause": Column(table["cause"].tolist(), width=90),
            "rollouts": Column(table["rollouts"].tolist(), "localized", width=80),
            "prompts": Column(table["prompts"].tolist(), "localized", width=80),
            "steps": Column(_spans(table), width=110),
            "basis": Column(table["basis"].tolist(), width=90, help=_BASIS_HELP),
            "evidence": Column([one_line(text, 240) for text in table["evidence"]]),
        },
        [*zip(table["cause"], table["pattern"], strict=True)],
        key=f"failures_{run.info.name}",
        most_pixels=320,
    )
    if cluster is not None:
        page_parts.open_matching(filter_of_cluster(*cluster))
    verdicts.show(run, similar)


def _spans(table: pd.DataFrame) -> list[str]:
    pairs = zip(table["first_step"], table["last_step"], strict=True)
    return [str(low) if low == high else f"{low} to {high}" for low, high in pairs]


def _show_effect(effect: RunEffect | None) -> None:
    own = None if effect is None else effect.effect
    if effect is None or own is None:
        st.caption(
            "No rollout with a group and a reward failed by infrastructure, or with an unclear cause: "
            "there is no effect on training to show."
        )
        return
    with st.container(border=True, height="stretch"):
        recognized = "as the recorded advantages tell" if effect.is_recognized else "assumed"
        st.markdown(
            "**What they did to training**",
            help=plain(
                f"Advantages by {effect.convention}, {recognized}: as trained, where a failed rollout "
                "counts with its reward, and without failed rollouts.",
                400,
            ),
        )
        pairs = [
            ("reward", own.trained.reward, own.without.reward, ""),
            ("solve rate", own.trained.solve_rate, own.without.solve_rate, "share"),
            *(
                (f"pass@{k}", value, own.without.pass_at.get(k, float("nan")), "share")
                for k, value in own.trained.pass_at.items()
                if k > 1
            ),
            ("zero-std groups", own.trained.zero_std, own.without.zero_std, "share"),
        ]
        tables.draw(
            {
                "measure": Column([name for name, *_ in pairs]),
                "trained": Column(
                    [number(a, unit) for _, a, _, unit in pairs],
                    label="as trained",
                    alignment="right",
                ),
                "without": Column(
                    [number(b, unit) for _, _, b, unit in pairs],
                    label="without failures",
                    alignment="right",
                ),
            }
        )
        st.caption(plain(_effect_words(effect), 800))


def _effect_words(effect: RunEffect) -> str:
    own = effect.effect
    words = [
        f"{own.changed:,} of {own.groups:,} groups changed; {own.only_failed:,} have failures only."
    ]
    if own.changed:
        moved = number(own.baseline_shift)
        words.append(f"The baseline of the changed ones moved by {moved} on average.")
    if own.compared:
        words.append(
            f"The advantages of their other rollouts moved by {number(own.moved)}; {own.too_large:,} of "
            f"{own.compared:,} were too large."
        )
    if own.weight_share == own.weight_share:
        part = f"{percent(own.weight_share)} of the sum of |advantage| came from failures"
        words.append(f"{part} ({effect.convention}).")
    return " ".join(words)


def show(run: Run) -> None:
    """The part of the page Findings. run: its rollouts of the chosen environments."""
    if page_parts.lacking("Failures", run):
        page_parts.say_lacking("Failures", run, "plumbing")
        return
    counts = cache.cause_counts(run)
    if counts.empty:
        st.info("No rollout of these environments.", icon=":material/public_off:")
        return
    page_export.offer(file_of(run, "failures"), partial(failures_page, run))
    effect = cache.failure_effect(run)
    _show_cards(counts, effect)
    tools.show(run)
    if not len(shares_by_step(counts).columns):
        st.caption("No failure, no limit reached, and no reward of 0 or less.")
        return
    _show_steps(run, counts)
    left, right = st.columns(2, gap="small")
    with left:
        _show_kinds(run)
    with right:
        _show_effect(effect)
    _show_clusters(run, cache.failure_clusters(run))
    st.caption("Causes, patterns and their limits: docs/failures.md.")
