"""Rollout: one rollout whole. Its texts side by side, its scores, and every token with its values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.core.metrics import REWARD_PART, rollout_metric
from board.errors import BoardError
from board.store.build import shown_path
from board.store.narrowed import NarrowedRun
from board.store.rollout import OpenRollout
from board.store.run import Run
from board.views import (
    _cached,
    _compare,
    _headings,
    _keys,
    _page,
    _sidebar,
    _state,
    _tokenizer,
    _tokens,
)
from board.views._text import counted, number, plain

_TEXTS: Final = (
    ("prompt", "Prompt"),
    ("response", "Response"),
    ("ref_response", "Reference response"),
    ("ground_truth", "Ground truth"),
)
_SCORES: Final = (
    "reward",
    "ref_reward",
    "reward_gap",
    "valid_reward",
    "ref_valid_reward",
    "advantage",
    "k1_mean",
    "k3_mean",
    "k3_max",
    "mismatch_kl_mean",
    "entropy_mean",
    "response_tokens",
)
_BADGES: Final = ("reward", "advantage", "k3_mean", "entropy_mean", "response_tokens")
_BADGE_WORDS: Final = {
    "reward": "reward",
    "advantage": "advantage",
    "entropy_mean": "entropy",
    "response_tokens": "response",
}
_TEXT_HEIGHT: Final = 200
_FULL_LINES: Final = 7


def _moves(run: Run, step: int, indices: Sequence[int]) -> int:
    """The buttons from rollout to rollout of the split; the index that is shown."""
    index = _state.ensure("index", indices, indices[0])
    place = indices.index(index)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for text, icon, key, target in (
            ("Previous", "chevron_left", "K", place - 1),
            ("Next", "chevron_right", "J", place + 1),
        ):
            st.button(
                text,
                icon=f":material/{icon}:",
                shortcut=key,
                disabled=not 0 <= target < len(indices),
                on_click=_state.put,
                kwargs={
                    "index": indices[min(max(target, 0), len(indices) - 1)],
                    "token": None,
                    "zoom": None,
                },
            )
        st.markdown(f"**Rollout {index}** :gray[{_among(run, step, indices)}]", width="content")
    with st.container(horizontal=True, gap="small"):
        _badges(run.row(step, index))
    return index


def _among(run: Run, step: int, indices: Sequence[int]) -> str:
    """Of which rollouts it is one, in words."""
    if isinstance(run, NarrowedRun):
        of_split = plain(f"of split {run.split}", 40)
        return f"one of {len(indices)} {of_split} at step {step}"
    return f"of 0–{len(indices) - 1} at step {step}"


def _badges(row: pd.Series[Any]) -> None:
    for name in _BADGES:
        if name in row and pd.notna(row[name]):
            metric = rollout_metric(name)
            unit = "" if metric.unit in ("", "share") else f" {metric.unit}"
            shown = plain(number(float(row[name]), metric.unit) + unit)
            words = _BADGE_WORDS.get(name) or plain(metric.label)
            st.badge(f"{words} {shown}", color="violet", help=plain(metric.formula, 400))
    for name in ("finish_reason", "split", "env", "group_id"):
        if name in row and pd.notna(row[name]):
            words = name.removesuffix("_id").replace("_", " ")
            st.badge(plain(f"{words} {row[name]}", 40), color="gray")


def _texts(opened: OpenRollout) -> None:
    """Texts as they are recorded: st.code shows them literally, with a button that copies them."""
    texts = {name: opened.record.texts[name] for name, _ in _TEXTS if name in opened.record.texts}
    if "response" not in texts and opened.record.messages:
        texts["messages"] = _conversation(opened.record.messages)
    if not texts:
        st.caption("The log holds no texts of this rollout, only tokens.")
        return
    titles = {**dict(_TEXTS), "messages": "Messages"}
    width = 150 // len(texts)
    lines = max(sum(1 + len(part) // width for part in text.split("\n")) for text in texts.values())
    height = "content" if lines <= _FULL_LINES else _TEXT_HEIGHT
    for column, (name, text) in zip(
        st.columns(len(texts), gap="small"), texts.items(), strict=True
    ):
        with column:
            st.markdown(f"**{titles[name]}** :gray[{counted(len(text), 'character')}]")
            if text:
                st.code(text, language=None, wrap_lines=True, height=height)
            else:
                st.caption("empty")


def _conversation(messages: Sequence[Mapping[str, Any]]) -> str:
    """Each message under its role; content that is no text as JSON."""
    parts: list[str] = []
    for message in messages:
        content = message.get("content")
        said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        parts.append(f"[{message.get('role', '?')}]\n{said}")
    return "\n\n".join(parts)


def _scores(row: pd.Series[Any]) -> None:
    names = [name for name in _SCORES if name in row]
    names += [name for name in row.index if str(name).startswith(REWARD_PART)]
    rows = [
        {
            "score": rollout_metric(name).label,
            "value": None if pd.isna(row[name]) else float(row[name]),
            "unit": rollout_metric(name).unit,
            "definition": rollout_metric(name).formula,
        }
        for name in names
    ]
    with st.expander("Scores", icon=":material/scoreboard:"):
        if not rows:
            st.caption("No score is recorded.")
            return
        st.dataframe(
            _headings.without_empty(pd.DataFrame(rows)),
            hide_index=True,
            column_config={
                "value": st.column_config.NumberColumn("value", format="%.6g"),
                "definition": st.column_config.TextColumn("definition", width="large"),
            },
            placeholder="not recorded",
        )


def _raw(run: Run, opened: OpenRollout, row: pd.Series[Any]) -> None:
    st.toggle(
        "Raw record",
        key="raw",
        help="The line of the log as it was parsed, nothing changed.",
        persist_state="session",
    )
    if _state.get("raw"):
        for place in (row, *run.joined_places(row)):
            file = shown_path(run.info, run.info.files[int(place["file"])])
            st.text(f"{file}, line {int(place['line'])}, {int(place['size']):,} bytes")
        st.json(dict(opened.line), expanded=2 if run.info.is_joined else 1)


def _remarks(opened: OpenRollout) -> None:
    for remark in opened.remarks:
        st.caption(plain("; ".join(filter(None, (remark.reason, remark.hint))), 300))


def _show_tokens(run: Run, opened: OpenRollout) -> None:
    record = opened.record
    if record.response_ids is None and record.response_tokens is None and not opened.metrics:
        return
    _tokens.length_warnings(opened)
    _compare.choose(run, opened)
    if _compare.usable(run, opened):
        _compare.show(run, opened)
    else:
        _tokens.show(run, opened)


def _render() -> None:
    run = _sidebar.current()
    _page.header(run, [_keys.moves("rollout of the step")])
    step = int(_state.get("step"))
    indices: Sequence[int] = range(run.counts.get(step, 0))
    if isinstance(run, NarrowedRun):
        indices = run.rows_of(step, ())["index"].tolist()
    index = _moves(run, step, indices)
    tokenizer = ""
    if run.vocabulary is None and {"prompt_tokens", "response_tokens"} & {*run.columns}:
        tokenizer = _tokenizer.choose(run)
    try:
        opened = _cached.rollout(run, step, index, tokenizer)
    except BoardError as error:
        st.error(plain(error, 500), icon=":material/error:")
        return
    row = run.row(step, index)
    _texts(opened)
    _scores(row)
    _remarks(opened)
    if opened.tokens_are_ids:
        st.caption(
            "Tokens are shown as ids: the run has no vocab.json. Name a tokenizer in the sidebar."
        )
    _show_tokens(run, opened)
    _raw(run, opened, row)


_render()
