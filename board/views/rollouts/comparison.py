"""A rollout beside another one, or beside its own reference response or ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np
import pandas as pd
import streamlit as st

from board.analysis.rollout import OpenRollout
from board.analysis.step_spans import in_loss
from board.components.comparison import Comparison, Fact, Side, comparison
from board.components.token_data import ScaleSpan
from board.core.tokens.alignment import shared_spans
from board.core.tokens.pieces import joined
from board.errors import BoardError, NotFoundError
from board.query.open_run import Run
from board.views.rollouts import token_content
from board.views.rollouts.comparison_choices import choices
from board.views.rollouts.comparison_target import REFERENCE, TEXTS, TRUTH, parse, run_named
from board.views.shared import cache, state
from board.views.shared.text import number, one_line

_TITLES: Final = {REFERENCE: "Reference response", TRUTH: "Ground truth"}
_NUMBERS: Final = {"reward": "reward", "advantage": "advantage"}


@dataclass(frozen=True, slots=True)
class _Text:
    """A text to compare. opened: the rollout whose response it is; None for a text of its own."""

    title: str
    text: str
    numbers: dict[str, float] = field(default_factory=dict[str, float])
    names: dict[str, str] = field(default_factory=dict[str, str])
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
    """Draw what the URL's `vs` asks for; False where it asks for nothing that there is."""
    if not state.get("vs"):
        return False
    try:
        other = _other(run, opened)
    except BoardError as error:
        named = one_line(state.get("vs"))
        state.notice(f"vs={named} names nothing to compare with: {one_line(error, 300)}.")
        state.put(vs="")
        return False
    _show(run, opened, other)
    return True


@st.fragment
def _show(run: Run, opened: OpenRollout, other: _Text) -> None:
    """Both texts; the menu and a metric's colours rerun only this."""
    own = _of_rollout(run, opened, "This rollout")
    asked = comparison(
        _comparison(own, other),
        key="comparison",
        signature=f"{token_content.signature_of(run, opened)}/{state.get('vs')}",
        metric=str(state.get("metric")),
        choices=menu_content(run, opened, "comparison"),
    )
    if asked.vs is not None:
        begin(asked.vs)
    if asked.metric is not None and asked.metric != state.get("metric"):
        state.put(metric=asked.metric)
        state.push()
        st.rerun(scope="fragment")


def begin(vs: str) -> NoReturn:
    """Compares with what `vs` names; "" ends the comparison. Does not return."""
    state.put(vs=vs)
    state.push()
    st.rerun()


def menu_content(run: Run, opened: OpenRollout, key: str) -> dict[str, Any] | None:
    """What the open menu of the component with this key lists; None while it is closed."""
    clicked: Any = st.session_state.get(key) or {}
    wanted = clicked.get("picker")
    return choices(run, opened, wanted) if isinstance(wanted, Mapping) else None


def _other(run: Run, opened: OpenRollout) -> _Text:
    """What `vs` names. Raises BoardError."""
    vs = str(state.get("vs"))
    if vs in TEXTS:
        text = opened.record.texts.get(TEXTS[vs])
        if text is None:
            raise NotFoundError(f"this rollout has no {_TITLES[vs].lower()}")
        scores = opened.record.scores
        reward = {"reward": scores["ref_reward"]} if "ref_reward" in scores else {}
        return _Text(_TITLES[vs], text, reward if vs == REFERENCE else {})
    target = parse(vs, run.info.name, opened.step)
    other = run_named(target.run, run)
    found = cache.rollout(other, target.step, target.index, str(state.get("tokenizer")))
    place = f"step {target.step} · rollout {target.index}"
    is_here = target.run == run.info.name
    title = f"Rollout {target.index}" if is_here and target.step == opened.step else place
    return _of_rollout(other, found, title if is_here else f"{target.run} · {place}")


def _of_rollout(run: Run, opened: OpenRollout, title: str) -> _Text:
    row = run.row(opened.step, opened.index)
    numbers = {label: float(row[name]) for name, label in _NUMBERS.items() if _has(row, name)}
    names = {"group": str(row["group_id"])} if _has(row, "group_id") else {}
    return _Text(one_line(title, 120), _text_of(opened), numbers, names, opened)


def _has(row: pd.Series[Any], name: str) -> bool:
    return name in row and bool(pd.notna(row[name]))


def _text_of(opened: OpenRollout) -> str:
    """The response as its tokens have it, else its messages under their roles, else its text."""
    if opened.tokens and not opened.tokens_are_ids:
        return joined(opened.tokens)
    return opened.transcript


def _comparison(own: _Text, other: _Text) -> Comparison:
    both = [one.opened for one in (own, other) if one.opened is not None]
    spans = shared_spans([in_loss(side.metrics) for side in both])
    left, right = _side(own, other, is_other=False), _side(other, own, is_other=True)
    return Comparison(
        left,
        right,
        cache.text_diff(own.text, other.text),
        token_content.specs_of({name: None for side in (left, right) for name in side.metrics}),
        {name: ScaleSpan(low, high, "p1–p99 of both") for name, (low, high) in spans.items()},
    )


def _side(text: _Text, other: _Text, *, is_other: bool) -> Side:
    facts = _facts(text, other, is_other=is_other)
    opened = text.opened
    if opened is None or opened.tokens_are_ids or not opened.tokens:
        return Side(text.title, facts)
    count = len(opened.tokens)
    metrics = {name: token_content.fitted(values, count) for name, values in opened.metrics.items()}
    mask = metrics.get("loss_mask")
    ordered = {name: metrics[name] for name in token_content.fitted_metrics(opened)}
    return Side(text.title, facts, opened.tokens, ordered, mask)


def _facts(text: _Text, other: _Text, *, is_other: bool) -> Sequence[Fact]:
    """Reward, advantage, length and group; on the other side with the difference to this rollout."""
    facts: list[Fact] = []
    for name, value in text.numbers.items():
        gap = value - other.numbers[name] if is_other and name in other.numbers else None
        facts.append((name, number(value), _signed(gap)))
    (length, unit), (own, own_unit) = text.length, other.length
    gap = length - own if is_other and unit == own_unit else None
    facts.append(("", f"{length:,} {unit}", _signed(gap)))
    facts += [(name, one_line(value, 40), "") for name, value in text.names.items()]
    return facts


def _signed(gap: float | None) -> str:
    """A difference with its sign, in brackets; nothing where there is none to tell."""
    if gap is None or not np.isfinite(gap):
        return ""
    shown = number(abs(gap)) if isinstance(gap, float) else f"{abs(gap):,}"
    return "(equal)" if gap == 0 else f"({'+' if gap > 0 else '−'}{shown})"
