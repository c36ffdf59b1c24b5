"""Two rollouts side by side: of one group, of one prompt at two steps, or response and reference."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from board.components.token_data import Link, ScaleSpan
from board.components.token_view import Chosen, Scales, TokenContent, token_view
from board.core.alignment import (
    Divergence,
    first_difference,
    first_difference_in_text,
    shared_spans,
    words,
)
from board.errors import BoardError
from board.store.record_row import PREVIEW_TOKENS
from board.store.rollout import OpenRollout
from board.store.run import Run
from board.store.spans import in_loss
from board.store.table_columns import PREVIEW_CHARS
from board.views import _cached, _state, _tokens
from board.views._text import number, one_line

REFERENCE: Final = "ref"
_MOST_CHOICES: Final = 200
_MOST_ROLLOUTS: Final = 100_000
# So many candidates are read from the log to compare their whole prompts, once.
_MOST_READ: Final = 64
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
    """Rollouts of the same group and step first, then those of the same prompt, nearest steps first.

    In a run of more than _MOST_ROLLOUTS other steps are not looked at: that takes the whole table.
    """
    is_small = run.rollout_count <= _MOST_ROLLOUTS
    rows = run.rollouts if is_small else run.of_step(int(row["step"]))
    in_step = rows["step"] == row["step"]
    alike = _alike(rows, row)
    same_group = alike
    if "group_id" in rows and pd.notna(row.get("group_id")):
        same_group = rows["group_id"] == row["group_id"]
        if "split" in rows:
            same_group &= rows["split"].eq(row["split"]) | (
                pd.isna(row["split"]) & rows["split"].isna()
            )
    group = rows[in_step & same_group & (rows["index"] != row["index"])]
    others = rows[alike & ~in_step]
    distance = (others["step"] - row["step"]).abs()
    nearest = others.assign(distance=distance).sort_values(["distance", "step", "index"])
    return pd.concat([group, _of_one_prompt(run, row, nearest.head(_MOST_CHOICES))])


def _alike(rows: pd.DataFrame, row: pd.Series[Any]) -> pd.Series[bool]:
    """Which prompts begin as this one does and are as long, as far as the table tells."""
    if "prompt" not in rows or not isinstance(row.get("prompt"), str):
        return rows["step"] != rows["step"]
    same = rows["prompt"] == row["prompt"]
    if "prompt_tokens" in rows and pd.notna(row.get("prompt_tokens")):
        same &= rows["prompt_tokens"] == row["prompt_tokens"]
    return same


def _of_one_prompt(run: Run, row: pd.Series[Any], found: pd.DataFrame) -> pd.DataFrame:
    """Those of `found` whose whole prompt is that of `row`; the table holds its beginning only."""
    tokens = row.get("prompt_tokens")
    is_short = not pd.notna(tokens) or tokens <= PREVIEW_TOKENS
    if is_short and len(row.get("prompt") or "") < PREVIEW_CHARS:
        return found
    known = found.head(_MOST_READ)
    key = _cached.prompt_key(run, int(row["step"]), int(row["index"]))
    places = zip(known["step"], known["index"], strict=True)
    same = [_cached.prompt_key(run, int(step), int(index)) == key for step, index in places]
    return known[same]


@st.fragment
def show(run: Run, opened: OpenRollout) -> None:
    """Both sides, each a token view; a metric chosen on one is taken over on the other."""
    other = _other(run, opened)
    sides = [opened] if other is None else [opened, other]
    metrics = [_tokens.fitted_metrics(side) for side in sides]
    names = dict.fromkeys(name for side in metrics for name in side)
    _state.ensure("metric", ["", *names], "")
    scales = Scales(shared=_spans(sides))
    parting = _parting(opened, other)
    height = max(_tokens.height_of(side) for side in sides)
    before = _state.get("metric")
    left, right = st.columns(2, gap="small")
    with left:
        _heading(run, opened, "left")
        pinned = _state.get("token")
        event = _side(run, opened, "left", parting.left, scales, height, pinned)
        _state.put(token=event.pinned)
    chosen = [event.metric]
    with right:
        _heading(run, other, "right")
        if other is None:
            _reference(run, opened, parting.right)
        else:
            chosen.append(_side(run, other, "right", parting.right, scales, height).metric)
    for metric in chosen:
        if metric and metric != (before or next(iter(names))):
            _state.put(metric=metric)
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
    found = shared_spans([in_loss(side.metrics) for side in sides])
    return {name: ScaleSpan(low, high, "p1–p99 of both") for name, (low, high) in found.items()}


def _heading(run: Run, side: OpenRollout | None, name: str) -> None:
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
    scales: Scales,
    height: int,
    pinned: int | None = None,
) -> Chosen:
    return token_view(
        _tokens.content_of(side, _tokens.fitted_metrics(side)),
        key=f"compare_{name}",
        signature=f"{_tokens.signature_of(run, side)}/{name}/{_state.get('vs')}/{at}",
        chosen=Chosen(metric=_state.get("metric") or None, pinned=pinned),
        scales=scales,
        link=Link("compare", at),
        height=height,
    )


def _reference(run: Run, opened: OpenRollout, at: int | None) -> None:
    """The reference response: words, since its tokens are not recorded and are not guessed."""
    texts, prompt = words(opened.record.texts["ref_response"]), _tokens.prompt_parts(opened)
    token_view(
        TokenContent(texts, {}, prompt=prompt, unit="word"),
        key="compare_right",
        signature=f"{_tokens.signature_of(run, opened)}/ref/{at}",
        link=Link("compare", at),
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
