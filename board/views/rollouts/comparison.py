"""A rollout beside another one, or beside its own reference response or ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import streamlit as st

from board.analysis.rollout import OpenRollout, in_loss
from board.components.comparison import Comparison, Fact, Side, comparison
from board.components.token_data import ScaleSpan
from board.core.metrics.definitions import in_menu_order
from board.core.tokens.pieces import joined
from board.core.tokens.scales import shared_spans
from board.errors import BoardError, NotFoundError
from board.query.open_run import Run
from board.views.rollouts import token_content
from board.views.rollouts.comparison_targets import REFERENCE, TEXTS, choices, parse, run_named
from board.views.rollouts.rollout_facts import has_value
from board.views.shared import cache, state
from board.views.shared.text import number, one_line


@dataclass(frozen=True, slots=True)
class _Text:
    """A text to compare. opened: the rollout whose response it is; None for a text of its own."""

    title: str
    text: str
    numbers: dict[str, float] = field(default_factory=dict[str, float])
    group: str | None = None
    opened: OpenRollout | None = None

    @property
    def length(self) -> tuple[int, str]:
        """How long it is, and in which unit."""
        tokens = len(self.opened.tokens) if self.opened is not None else 0
        if tokens:
            return tokens, "tokens"
        is_whole = self.opened is None or self.text == self.opened.response_text
        return len(self.text), "chars" if is_whole else "chars compared"


def show(run: Run, opened: OpenRollout) -> bool:
    """Draws what the URL's `vs` asks for; False where it asks for nothing that there is."""
    if not state.get("reader_vs"):
        return False
    try:
        other = _other_text(run, opened)
    except BoardError as error:
        named = one_line(state.get("reader_vs"))
        state.notice(f"reader_vs={named} names nothing to compare with: {one_line(error, 300)}.")
        state.put(reader_vs="")
        return False
    _draw(run, opened, other)
    return True


@st.fragment
def _draw(run: Run, opened: OpenRollout, other: _Text) -> None:
    """Both texts; the menu and a metric's colours rerun only this."""
    own = _text_of(run, opened, "This rollout")
    opens = [text.opened for text in (own, other) if text.opened is not None]
    spans = shared_spans([in_loss(one.metrics) for one in opens])
    left, right = _side(own), _side(other, own)
    content = Comparison(
        left,
        right,
        cache.text_diff(own.text, other.text),
        token_content.specs_of({**left.metrics, **right.metrics}),
        {name: ScaleSpan(low, high, "p1–p99 of both") for name, (low, high) in spans.items()},
    )
    asked = comparison(
        content,
        key="comparison",
        signature=f"{token_content.signature_of(run, opened)}/{state.get('reader_vs')}",
        metric=str(state.get("reader_metric")),
        choices=menu_content(run, opened, "comparison"),
    )
    if asked.vs is not None:
        begin(asked.vs)
    if asked.metric is not None and asked.metric != state.get("reader_metric"):
        state.put(reader_metric=asked.metric)
        state.push()
        st.rerun(scope="fragment")


def begin(vs: str) -> NoReturn:
    """Compares with what `vs` names; "" ends the comparison. Does not return."""
    state.put(reader_vs=vs)
    state.push()
    st.rerun()


def menu_content(run: Run, opened: OpenRollout, key: str) -> dict[str, Any] | None:
    """What the open menu of the component with this key lists; None while it is closed."""
    clicked: Any = st.session_state.get(key) or {}
    wanted = clicked.get("picker")
    return choices(run, opened, wanted) if isinstance(wanted, Mapping) else None


def _other_text(run: Run, opened: OpenRollout) -> _Text:
    """What `vs` names. Raises BoardError."""
    vs = str(state.get("reader_vs"))
    if vs in TEXTS:
        name, title = TEXTS[vs]
        if name not in opened.record.texts:
            raise NotFoundError(f"this rollout has no {title.lower()}")
        scores = opened.record.scores
        has_reward = vs == REFERENCE and "ref_reward" in scores
        numbers = {"reward": scores["ref_reward"]} if has_reward else {}
        return _Text(title, opened.record.texts[name], numbers)
    target = parse(vs, run.info.name, opened.step)
    other_run = run_named(target.run, run)
    tokenizer = str(state.get("tokenizer"))
    other = cache.rollout(other_run, target.step, target.index, tokenizer)
    title = f"step {target.step} · rollout {target.index}"
    if target.run != run.info.name:
        title = f"{target.run} · {title}"
    elif target.step == opened.step:
        title = f"Rollout {target.index}"
    return _text_of(other_run, other, title)


def _text_of(run: Run, opened: OpenRollout, title: str) -> _Text:
    """The response as its tokens have it, else its messages under their roles, else its text."""
    row = run.row(opened.step, opened.index)
    has_tokens = opened.tokens and not opened.tokens_are_ids
    return _Text(
        one_line(title, 120),
        joined(opened.tokens) if has_tokens else opened.transcript,
        {name: float(row[name]) for name in ("reward", "advantage") if has_value(row, name)},
        str(row["group_id"]) if has_value(row, "group_id") else None,
        opened,
    )


def _side(text: _Text, other: _Text | None = None) -> Side:
    """A side of the comparison; other: what its facts are compared with."""
    facts, opened = _facts(text, other), text.opened
    if opened is None or opened.tokens_are_ids or not opened.tokens:
        return Side(text.title, facts)
    count = len(opened.tokens)
    metrics = {
        name: token_content.fitted(opened.metrics[name], count)
        for name in in_menu_order(opened.metrics)
    }
    return Side(text.title, facts, opened.tokens, metrics, metrics.get("loss_mask"))


def _facts(text: _Text, other: _Text | None) -> Sequence[Fact]:
    """Reward, advantage, length and group; with differences to the other text."""
    facts: list[Fact] = []
    before = {} if other is None else other.numbers
    for name, value in text.numbers.items():
        gap = _signed(value - before[name]) if name in before else ""
        facts.append((name, number(value), gap))
    length, unit = text.length
    gap = ""
    if other is not None and other.length[1] == unit:
        gap = _signed(length - other.length[0])
    facts.append(("", f"{length:,} {unit}", gap))
    if text.group is not None:
        facts.append(("group", one_line(text.group, 40), ""))
    return facts


def _signed(gap: float) -> str:
    """A difference with its sign, in brackets."""
    if not np.isfinite(gap):
        return ""
    size = number(abs(gap)) if isinstance(gap, float) else f"{abs(gap):,}"
    return "(equal)" if gap == 0 else f"({'+' if gap > 0 else '−'}{size})"
