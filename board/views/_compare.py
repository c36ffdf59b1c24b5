"""Two rollouts side by side: of one group, of one prompt at two steps, or response and reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.components.token_data import Link, ScaleSpan
from board.components.token_view import token_view
from board.core.alignment import (
    Divergence,
    first_difference,
    first_difference_in_text,
    shared_spans,
    words,
)
from board.errors import BoardError
from board.store.rollout import OpenRollout
from board.store.run import Run
from board.store.spans import in_loss
from board.views import _cached, _state, _tokens
from board.views._text import number, one_line

REFERENCE: Final = "ref"
_MOST_CHOICES: Final = 200
_MOST_ROLLOUTS: Final = 100_000
_TITLES: Final = {"left": "This rollout", "right": "Compared with"}


def choose(run: Run, opened: OpenRollout) -> None:
    """The field that says what to compare with; empty: nothing."""
    choices = {"": "Compare with …", **_choices(run, opened)}
    _state.ensure("vs", choices, "")
    st.selectbox(
        "Compare with",
        list(choices),
        key="vs",
        format_func=lambda name: str(choices.get(name, name)),
        # In one line with its own first option: the tokens below are what the page is for.
        label_visibility="collapsed",
        width=420,
        disabled=len(choices) == 1,
        persist_state="session",
    )


def _choices(run: Run, opened: OpenRollout) -> dict[str, str]:
    """What there is to compare with: name in the URL -> words."""
    found: dict[str, str] = {}
    if "ref_response" in opened.record.texts:
        found[REFERENCE] = "the reference response"
    row = run.row(opened.step, opened.index)
    for _, other in _relatives(run, row).head(_MOST_CHOICES).iterrows():
        step, index = int(other["step"]), int(other["index"])
        near = "same group" if step == opened.step else f"same prompt, step {step}"
        reward = number(float(other["reward"])) if pd.notna(other.get("reward")) else "not recorded"
        found[f"{step}.{index}"] = one_line(f"rollout {index} · {near} · reward {reward}")
    return found


def _relatives(run: Run, row: pd.Series[Any]) -> pd.DataFrame:
    """Rollouts of the same group and step first, then those of the same prompt at other steps.

    In a run of more than _MOST_ROLLOUTS other steps are not looked at: that takes the whole table.
    """
    is_small = run.rollout_count <= _MOST_ROLLOUTS
    rows = run.rollouts if is_small else run.of_step(int(row["step"]))
    in_step = rows["step"] == row["step"]
    group = in_step & False
    if "group_id" in rows and pd.notna(row.get("group_id")):
        group = in_step & (rows["group_id"] == row["group_id"])
    prompt = in_step & False
    if "prompt" in rows and isinstance(row.get("prompt"), str):
        same = rows["prompt"] == row["prompt"]
        if "prompt_tokens" in rows and pd.notna(row.get("prompt_tokens")):
            same &= rows["prompt_tokens"] == row["prompt_tokens"]
        prompt = same & ~in_step
        group = group | (same & in_step)
    group &= rows["index"] != row["index"]
    return pd.concat([rows[group], rows[prompt]])


@st.fragment
def show(run: Run, opened: OpenRollout) -> None:
    """Both sides, each a token view; a metric chosen on one is taken over on the other."""
    other = _other(run, opened)
    sides = [opened] if other is None else [opened, other]
    metrics = [_tokens.fitted_metrics(side) for side in sides]
    names = dict.fromkeys(name for side in metrics for name in side)
    _state.ensure("metric", ["", *names], "")
    spans = _spans(sides)
    parting = _parting(opened, other)
    height = max(_tokens.height_of(side) for side in sides)
    columns = st.columns(2, gap="small")
    before = _state.get("metric")
    for column, name, side in zip(columns, ("left", "right"), (opened, other), strict=True):
        with column:
            _heading(run, opened, side, name)
            at = parting.left if name == "left" else parting.right
            event = (
                _reference(run, opened, at)
                if side is None
                else _side(run, side, name, at, spans, height)
            )
        if side is not None and event.metric and event.metric != (before or next(iter(names))):
            _state.put(metric=event.metric)
    _state.push()
    if _state.get("metric") != before:
        st.rerun(scope="fragment")


def _other(run: Run, opened: OpenRollout) -> OpenRollout | None:
    """The rollout on the right; None for the reference response. Raises BoardError."""
    name = str(_state.get("vs"))
    if name == REFERENCE:
        return None
    step, _, index = name.partition(".")
    return _cached.rollout(run, int(step), int(index), str(_state.get("tokenizer")))


def _parting(opened: OpenRollout, other: OpenRollout | None) -> Divergence:
    if other is None:
        reference = words(opened.record.texts["ref_response"])
        return first_difference_in_text(opened.tokens, reference)
    ids = opened.record.response_ids, other.record.response_ids
    if ids[0] is not None and ids[1] is not None:
        return first_difference(ids[0].values().tolist(), ids[1].values().tolist())
    return first_difference(opened.tokens, other.tokens)


def _spans(sides: list[OpenRollout]) -> dict[str, ScaleSpan]:
    found = shared_spans([in_loss(side) for side in sides])
    return {name: ScaleSpan(low, high, "p1–p99 of both") for name, (low, high) in found.items()}


def _heading(run: Run, opened: OpenRollout, side: OpenRollout | None, name: str) -> None:
    if side is None:
        st.markdown(f"**{_TITLES[name]}** the reference response :gray[(a text without tokens)]")
        return
    row = run.row(side.step, side.index)
    reward = f" · reward {number(float(row['reward']))}" if pd.notna(row.get("reward")) else ""
    st.markdown(f"**{_TITLES[name]}** step {side.step}, rollout {side.index}{reward}")


def _side(
    run: Run,
    side: OpenRollout,
    name: str,
    at: int | None,
    spans: Mapping[str, ScaleSpan],
    height: int,
) -> Any:
    return _tokens.draw(
        side,
        _tokens.fitted_metrics(side),
        key=f"compare_{name}",
        signature=f"{_tokens.signature_of(run, side)}/{name}/{_state.get('vs')}/{at}",
        shared_spans=spans,
        link=Link("compare", at),
        height=height,
    )


def _reference(run: Run, opened: OpenRollout, at: int | None) -> Any:
    """The reference response: words, since its tokens are not recorded and are not guessed."""
    return token_view(
        words(opened.record.texts["ref_response"]),
        {},
        key="compare_right",
        signature=f"{_tokens.signature_of(run, opened)}/ref/{at}",
        specs={},
        link=Link("compare", at),
        prompt=_tokens.prompt_parts(opened),
        unit="word",
        height=_tokens.height_of(opened),
    )


def usable(run: Run, opened: OpenRollout) -> bool:
    """Whether something to compare with is chosen and can be read; says so where it can't."""
    if not _state.get("vs"):
        return False
    try:
        _other(run, opened)
    except BoardError as error:
        st.error(one_line(error, 300).replace("`", "'"), icon=":material/error:")
        return False
    return True
