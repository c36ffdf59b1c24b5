"""The glance of the page Spike: what carries how much of a step's mean, and the kinds beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import streamlit as st

from board.charts.palette import colour_key
from board.charts.share_charts import Share, shares_chart
from board.components.share_bars import share_bars
from board.core.metrics.definitions import Metric, base_name, token_metric
from board.core.metrics.shares import percent
from board.core.tokens.contributions import Contributions, TokenShare, TypeShare
from board.core.tokens.spike import Headline, whole
from board.views.shared import page_parts, state
from board.views.shared.cache import Spike
from board.views.shared.text import counted, number, one_line, piece_shown, plain
from board.views.step.contribution_tables import in_context


def show(spike: Spike, headline: Headline, metric: Metric) -> None:
    """One sentence of what carries the step's mean, its largest token, and each kind's share."""
    left, right = st.columns([1, 1], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.markdown(f"## {_sentence(headline)}")
        st.markdown(_whole_words(spike.found, headline, metric))
        if headline.what == "piece" and headline.type is not None:
            st.text(f"⟦{piece_shown(headline.type.name)}⟧")
        if headline.token is not None:
            _show_top_token(spike.found, headline, headline.token)
    with right, st.container(border=True, height="stretch"):
        st.markdown(
            "**By kind of token**",
            help="A bar longer than its tick: these tokens contribute more than their count suggests.",
        )
        bars = shares_chart(
            _shares(spike.found, spike.kinds),
            one_line(metric.label),
            colour_key(base_name(metric.name)),
            dark=page_parts.dark(),
        )
        share_bars(asdict(bars), key="kinds")


def _sentence(headline: Headline) -> str:
    """The glance: what carries how much. A piece's own text stands below, as text."""
    share = f"{percent(headline.share)}"
    if headline.what == "token":
        return f"One token contributes {share}"
    kind = "" if headline.type is None else _KIND_WORDS.get(headline.type.kind, headline.type.kind)
    if headline.what == "spread":
        return "No token or type stands out"
    assert headline.type is not None
    if headline.what == "piece" and headline.type.kind not in _MARKERS:
        return f"One token type contributes {share}"
    verb = "contribute" if kind in _PLURAL else "contributes"
    return f"{kind[:1].upper()}{kind[1:]} {verb} {share}"


def _whole_words(found: Contributions, headline: Headline, metric: Metric) -> str:
    """What the share is of, and how many tokens stand behind it."""
    count = int(found.counted.sum())
    of = f"of {plain(metric.label)} at step {found.tokens.step}"
    if headline.what == "token":
        return f"{of} :gray[· 1 of {counted(count, 'token')}, {counted(found.rollouts, 'rollout')}]"
    assert headline.type is not None
    if headline.what == "spread":
        kind = _KIND_WORDS.get(headline.type.kind, headline.type.kind)
        verb, be = ("contribute", "are") if kind in _PLURAL else ("contributes", "is")
        of_tokens = f"{be} {percent(headline.of_tokens)} of the tokens"
        return f"{of}: {plain(kind)} {verb} {percent(headline.share)} and {of_tokens}"
    part = f"{headline.type.count:,} of {count:,} tokens ({percent(headline.of_tokens)})"
    return f"{of} :gray[· {part}]"


_MARKERS: Final = frozenset(("end of text", "template", "tool tag", "thinking tag"))
_KIND_WORDS: Final = {
    "word": "words",
    "end of text": "end-of-text",
    "template": "chat template",
    "tool tag": "tool tags",
    "thinking tag": "thinking tags",
}
_PLURAL: Final = frozenset(("digits", "words", "tool tags", "thinking tags"))


def _show_top_token(found: Contributions, headline: Headline, token: TokenShare) -> None:
    before, piece, after = in_context(found, token)
    unit = token_metric(found.metric).unit
    share = token.contribution / whole(found)
    alone = "" if headline.what == "token" else f", {percent(share)} alone"
    st.text(
        f"{'' if headline.what == 'token' else 'largest: '}rollout {token.index}, "
        f"token {token.position}, {number(token.value)} {unit}{alone}"
    )
    if headline.what != "piece":
        st.text(f"{before}⟦{piece}⟧{after}")
    place = {"index": token.index, "token": token.position, "metric": found.metric, "vs": ""}
    if st.button(
        f"Open token {token.position} of rollout {token.index}",
        icon=":material/gradient:",
        key="open_largest",
        type="tertiary",
        shortcut="O",
    ):
        state.go("rollouts", **place)


def _shares(found: Contributions, types: Sequence[TypeShare]) -> list[Share]:
    total, count = whole(found), max(int(found.counted.sum()), 1)
    return [Share(t.name, t.contribution / total, t.count / count) for t in types]
