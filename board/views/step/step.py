"""Step: what contributes to a metric at the step, the groups of its rollouts, or its mismatch."""

from __future__ import annotations

from functools import partial
from typing import Final

import streamlit as st

from board.analysis.spike import Spike
from board.charts.curve_data import mean_column
from board.charts.palette import colour_key
from board.charts.step_charts import Share, shares_chart
from board.components.small_charts import share_bars
from board.core.metrics.definitions import Metric, base_name, rollout_metric, token_metric
from board.core.metrics.shares import percent
from board.core.tokens.contributions import TOKEN_SOURCES, Headline, TokenShare, whole
from board.export.file_names import file_of
from board.export.pages import step_page
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.mismatch import mismatch
from board.views.shared import cache, page_export, page_parts, pages, run_options, shortcuts, state
from board.views.shared.background import show_progress
from board.views.shared.text import (
    counted,
    distinct_options,
    number,
    one_line,
    plain,
    visible_token,
)
from board.views.step import contribution_tables, groups
from board.views.step.contribution_tables import in_context, open_token

_EXPORTED: Final = 8  # rollouts of an exported page
_OF_GROUPS: Final = "zero_std_group_fraction"
_FIRST: Final = ("k3_mean", "mismatch_kl_mean", "entropy_mean", "reward")
_MARKERS: Final = frozenset(("end of text", "template", "tool tag", "thinking tag"))
_KIND_WORDS: Final = {
    "word": "words",
    "end of text": "end-of-text",
    "template": "chat template",
    "tool tag": "tool tags",
    "thinking tag": "thinking tags",
}
_PLURAL: Final = frozenset(("digits", "words", "tool tags", "thinking tags"))


def _read_spike(run: Run, step: int, column: str) -> Spike | None:
    """What the tokens of the step contribute; where there is nothing of them, says why."""
    label = plain(rollout_metric(column).label)
    if column not in TOKEN_SOURCES:
        words = f"{label} is recorded per rollout, not per token: only rollouts are ranked."
        st.info(words, icon=":material/info:")
        return None
    tokenizer = run_options.choose_tokenizer(run) if run.vocabulary is None else ""
    task = cache.spike(run, step, column, tokenizer)
    count = run.counts.get(step, 0)
    spike = show_progress(task, f"Reading the tokens of {count:,} rollouts", "contributions")
    if spike is None or spike.headline is None:
        words = f"No token of step {step} has a value of {label}."
        if spike is not None and spike.contributions.counted.any():
            words = f"{label} is 0 at every token of step {step}: no token contributes more than another."
        if not task.was_stopped:
            st.info(words, icon=":material/info:")
        return None
    if left_out := spike.contributions.tokens.left_out:
        st.caption(f"{left_out:,} rollouts could not be read and are left out.")
    return spike


def _show_headline(spike: Spike, headline: Headline, metric: Metric) -> None:
    """One sentence of what contributes how much, the largest token, and each kind's share."""
    left, right = st.columns([1, 1], gap="small")
    with left, st.container(border=True, height="stretch"):
        with st.container(key="headline"):
            st.markdown(f"### {_sentence(headline)}")
        st.markdown(_whole_words(spike, headline, metric))
        # The text of a token type is of the log: never in the sentence, which is Markdown.
        if headline.what == "piece" and headline.type is not None:
            st.text(f"⟦{visible_token(headline.type.name)}⟧")
        _show_top_token(spike, headline, headline.token)
    with right, st.container(border=True, height="stretch"):
        words = (
            "A bar longer than its tick: these tokens contribute more than their count suggests."
        )
        st.markdown("**By kind of token**", help=words)
        total, count = whole(spike.contributions), max(int(spike.contributions.counted.sum()), 1)
        shares = [Share(t.name, t.contribution / total, t.count / count) for t in spike.kinds]
        colour = colour_key(base_name(metric.name))
        bars = shares_chart(shares, one_line(metric.label), colour, dark=page_parts.dark())
        share_bars(bars, key="kinds")


def _sentence(headline: Headline) -> str:
    share = percent(headline.share)
    if headline.what == "token":
        return f"One token contributes {share}"
    if headline.what == "spread":
        return "No token or type stands out"
    assert headline.type is not None
    if headline.what == "piece" and headline.type.kind not in _MARKERS:
        return f"One token type contributes {share}"
    kind, verb, _ = _in_words(headline.type.kind)
    return f"{kind[:1].upper()}{kind[1:]} {verb} {share}"


def _in_words(kind: str) -> tuple[str, str, str]:
    """A kind of tokens with its verbs: words contribute, are."""
    name = _KIND_WORDS.get(kind, kind)
    return (name, "contribute", "are") if name in _PLURAL else (name, "contributes", "is")


def _whole_words(spike: Spike, headline: Headline, metric: Metric) -> str:
    """What the share is of, and of how many tokens."""
    count = int(spike.contributions.counted.sum())
    of = f"of {plain(metric.label)} at step {spike.contributions.tokens.step}"
    if headline.what == "token":
        rollouts = counted(spike.contributions.rollouts, "rollout")
        return f"{of} :gray[· 1 of {counted(count, 'token')}, {rollouts}]"
    assert headline.type is not None
    of_tokens = percent(headline.of_tokens)
    if headline.what == "spread":
        (kind, verb, be), share = _in_words(headline.type.kind), percent(headline.share)
        return f"{of}: {plain(kind)} {verb} {share} and {be} {of_tokens} of the tokens"
    return f"{of} :gray[· {headline.type.count:,} of {count:,} tokens ({of_tokens})]"


def _show_top_token(spike: Spike, headline: Headline, token: TokenShare) -> None:
    metric, place = spike.contributions.metric, f"rollout {token.index}, token {token.position}"
    words = f"{place}, {number(token.value)} {token_metric(metric).unit}"
    if headline.what != "token":
        share = percent(token.contribution / whole(spike.contributions))
        words = f"largest: {words}, {share} alone"
    st.text(words)
    if headline.what != "piece":
        before, piece, after = in_context(spike.contributions, token)
        st.text(f"{before}⟦{piece}⟧{after}")
    is_clicked = st.button(
        f"Open token {token.position} of rollout {token.index}",
        icon=":material/gradient:",
        key="open_largest",
        type="tertiary",
        help="Key: O",
    )
    if shortcuts.opening(is_clicked):
        open_token(spike.contributions.tokens.step, token.index, token.position, metric)


def _offered(run: Run) -> list[str]:
    return [*run.metrics, *([_OF_GROUPS] if _OF_GROUPS in run.steps else [])]


def _chosen_metric(run: Run) -> str:
    """The column to break down, the usual one before one is chosen; "" where the run has none."""
    offered = _offered(run)
    if not offered:
        return ""
    usual = next((name for name in _FIRST if name in offered), offered[0])
    return str(state.ensure("step_metric", offered, usual))


def _choose_metric(run: Run, step: int) -> str:
    """Draws the menu of the column to break down; the column, "" where the run has none."""
    column, offered = _chosen_metric(run), _offered(run)
    if not column:
        return ""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        look = {"format_func": distinct_options(offered, page_parts.metric_label), "width": 330}
        st.selectbox("Metric", offered, **state.bound("step_metric"), **look)
        shortcuts.through("metric", offered, column, lambda name: state.put(step_metric=name))
        metric = rollout_metric(column)
        unit = "" if metric.unit == "share" else metric.unit
        means = mean_column(run.steps[run.steps["step"] == step], base_name(column))
        mean = number(None if means is None or not len(means) else means[0], metric.unit)
        explained = plain(f"{metric.formula} Mean over the rollouts of the step.", 600)
        words = f"at step {step}: **{plain(mean)}** {plain(unit)}"
        st.markdown(words, width="content", help=explained)
        st.space("stretch")
        choices = {"rollouts_scope": "step", "index": None, "token": None, "reader_over": "step"}
        state.link("rollouts", f"All rollouts of step {step}", "table_rows", **choices)
    return column


def _show_contributions(run: Run, step: int) -> None:
    """The metric to break down, its headline, and its tokens, types and rollouts."""
    column = _choose_metric(run, step)
    if not column:
        st.info("This run records no metric to break down.")
        return
    if column == _OF_GROUPS:
        words = "This curve counts groups whose rewards are all equal: no single rollout"
        st.info(f"{words} accounts for it.", icon=":material/info:")
        return
    spike = _read_spike(run, step, column)
    if spike is None or spike.headline is None:
        contribution_tables.rollouts_table(run, column, None)
        return
    _show_headline(spike, spike.headline, rollout_metric(column))
    contribution_tables.tokens_table(spike.contributions)
    left, right = st.columns([1, 1], gap="small")
    with left:
        contribution_tables.types_table(spike)
    with right:
        contribution_tables.rollouts_table(run, column, spike)


def _first_part(run: Run) -> str:
    """What the page begins with: of a log without values per token, its groups."""
    has_groups = not page_parts.lacking("Groups", run)
    return (
        "groups" if has_groups and TOKEN_SOURCES.keys().isdisjoint(run.columns) else "contributions"
    )


def _render() -> None:
    run = sidebar.narrowed()
    part = state.ensure("step_part", pages.page_of("step").part_names, _first_part(run))
    page_parts.header(run, page="step")
    if not page_parts.has_step(run):
        return
    step = int(state.get("step"))
    if part == "mismatch":
        mismatch.show(run, step)
        return
    column = _chosen_metric(run)
    make = partial(step_page, run, step, _EXPORTED, column=column)
    # The page is of the step, whichever of its parts is looked at.
    file = file_of(run, "_".join(filter(None, ("page", column))), step=step)
    page_export.offer(file, make, of_step=True)
    if part == "groups":
        groups.show(run, step)
    else:
        _show_contributions(run, step)


_render()
