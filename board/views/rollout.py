"""Rollout: one rollout whole. Its texts side by side, its scores, and every token with its values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from board.charts.layout import PLOTLY_CONFIG, notes_of
from board.charts.token_heatmap import token_heatmap
from board.components.token_data import TokenSegment, spec_of
from board.components.token_view import token_view
from board.core.metrics import REWARD_PART, rollout_metric, token_metric
from board.errors import BoardError
from board.store.rollout import OpenRollout
from board.store.run import Run
from board.views import _cached, _page, _sidebar, _state
from board.views._text import number, plain

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
_FIRST_METRICS: Final = ("k1", "k3", "mismatch_kl", "logprobs", "entropy", "values", "advantages")
_TEXT_HEIGHT: Final = 200
_FULL_LINES: Final = 7
# Of the token view, in pixels and characters; the lowest still shows its list of top tokens.
_LINE_HEIGHT: Final = 26
_LINE_CHARACTERS: Final = 70
_HEADINGS_HEIGHT: Final = 130
_LOWEST: Final = 330
_HIGHEST: Final = 560


def _moves(run: Run, step: int, count: int) -> int:
    """The buttons from rollout to rollout; the index that is shown."""
    index = _state.ensure("index", range(count), 0)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for text, icon, key, target in (
            ("Previous", "chevron_left", "K", index - 1),
            ("Next", "chevron_right", "J", index + 1),
        ):
            st.button(
                text,
                icon=f":material/{icon}:",
                shortcut=key,
                disabled=not 0 <= target < count,
                on_click=_state.put,
                kwargs={"index": target, "token": None},
            )
        st.markdown(f"**Rollout {index}** :gray[of 0–{count - 1} at step {step}]", width="content")
    with st.container(horizontal=True, gap="small"):
        _badges(run.row(step, index))
    return index


def _badges(row: pd.Series[Any]) -> None:
    for name in _BADGES:
        if name in row and pd.notna(row[name]):
            metric = rollout_metric(name)
            words = {
                "k3_mean": "KL k3 mean",
                "response_tokens": "tokens",
                "entropy_mean": "entropy",
            }
            shown = number(float(row[name]), metric.unit)
            st.badge(
                f"{words.get(name, name)} {plain(shown)}",
                color="violet",
                help=plain(metric.formula, 400),
            )
    for name in ("finish_reason", "env", "group_id"):
        if name in row and pd.notna(row[name]):
            st.badge(plain(f"{name.removesuffix('_id')} {row[name]}", 40), color="gray")


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
            st.markdown(f"**{titles[name]}** :gray[{len(text):,} characters]")
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
            pd.DataFrame(rows),
            hide_index=True,
            column_config={
                "value": st.column_config.NumberColumn("value", format="%.6g"),
                "definition": st.column_config.TextColumn("definition", width="large"),
            },
            placeholder="not recorded",
        )


def _fitted(
    values: npt.NDArray[np.float64], length: int
) -> np.ma.MaskedArray[Any, np.dtype[np.float64]]:
    """[length] values; what is missing at the end, and null or NaN, is masked as not recorded."""
    shown = np.full(length, np.nan)
    kept = values[:length]
    shown[: len(kept)] = kept
    return np.ma.masked_invalid(shown)


def _ordered_metrics(opened: OpenRollout) -> Mapping[str, npt.NDArray[np.float64]]:
    names = [name for name in _FIRST_METRICS if name in opened.metrics]
    names += [name for name in opened.metrics if name not in names]
    return {name: opened.metrics[name] for name in names}


def _length_warnings(opened: OpenRollout) -> None:
    """Values keep the position they were recorded at; none is shifted to make lengths agree."""
    length = len(opened.tokens)
    for name, values in opened.metrics.items():
        surplus = len(values) - length
        if surplus:
            effect = (
                f"the last {surplus} have no place below"
                if surplus > 0
                else "the tokens after them are shown without a value"
            )
            st.caption(plain(f"{name} has {len(values)} entries for {length} tokens: {effect}."))


@st.fragment
def _tokens(opened: OpenRollout, signature: str) -> None:
    """The coloured tokens and the heat map; choosing a metric reruns only this."""
    length = len(opened.tokens)
    recorded = _ordered_metrics(opened)
    metrics = {name: _fitted(values, length) for name, values in recorded.items()}
    mask = opened.metrics.get("loss_mask")
    if not recorded:
        st.caption("The log holds tokens of this rollout and no values for them.")
    _state.ensure("metric", ["", *metrics], "")
    _state.ensure("token", [None, *range(length)], None)
    event = token_view(
        opened.tokens,
        metrics,
        key="token_view",
        signature=signature,
        specs={name: spec_of(token_metric(name)) for name in metrics if name in _known(metrics)},
        metric=_state.get("metric") or None,
        pinned=_state.get("token"),
        loss_mask=mask if mask is not None and len(mask) == length else None,
        segments=_segments(opened, length),
        prompt_tokens=_prompt(opened),
        height=_height(opened),
    )
    default = next(iter(metrics), "")
    _state.put(metric="" if event.metric in (None, default) else event.metric, token=event.pinned)
    _state.push()
    if metrics:
        _heat_map(opened, metrics)


def _height(opened: OpenRollout) -> int:
    """Of the tokens' text, in pixels: short rollouts leave room for what stands below them."""
    shown = "".join([*(_prompt(opened) or ()), *opened.tokens])
    lines = sum(1 + len(part) // _LINE_CHARACTERS for part in shown.split("\n"))
    return min(max(_LINE_HEIGHT * lines + _HEADINGS_HEIGHT, _LOWEST), _HIGHEST)


def _known(metrics: Mapping[str, Any]) -> set[str]:
    """Arrays that the board has words for; the token view finds words for the others itself."""
    return {name for name in metrics if token_metric(name).label != name}


def _prompt(opened: OpenRollout) -> list[str] | None:
    if opened.prompt_tokens is not None:
        return list(opened.prompt_tokens)
    prompt = opened.record.texts.get("prompt")
    return [prompt] if prompt else None


def _segments(opened: OpenRollout, length: int) -> list[TokenSegment]:
    """The recorded segments that lie within the response, without overlap."""
    found: list[TokenSegment] = []
    end = 0
    for entry in opened.record.segments:
        start, stop = entry.get("start"), entry.get("end")
        if isinstance(start, int) and isinstance(stop, int) and end <= start < stop <= length:
            name = entry.get("name")
            found.append(TokenSegment(start, stop, str(entry.get("role", "")), str(name or "")))
            end = stop
    return found


def _heat_map(opened: OpenRollout, metrics: Mapping[str, Any]) -> None:
    st.toggle(
        "All metrics by position",
        key="heat",
        help="One row per metric, each on its own scale from the 1st to the 99th percentile.",
        persist_state="session",
    )
    if _state.get("heat"):
        filled = {name: values.filled(np.nan) for name, values in metrics.items()}
        figure = token_heatmap(filled, opened.tokens, dark=_page.dark())
        st.plotly_chart(figure, key="heat_map", theme=None, config=dict(PLOTLY_CONFIG))
        for note in notes_of(figure):
            st.caption(plain(note))


def _raw(run: Run, opened: OpenRollout, row: pd.Series[Any]) -> None:
    st.toggle(
        "Raw record",
        key="raw",
        help="The line of the log as it was parsed, nothing changed.",
        persist_state="session",
    )
    if _state.get("raw"):
        file = run.info.files[int(row["file"])].path.relative_to(run.info.path)
        st.text(f"{file}, line {int(row['line'])}, {int(row['size']):,} bytes")
        st.json(dict(opened.line), expanded=1)


def _remarks(opened: OpenRollout) -> None:
    for remark in opened.remarks:
        st.caption(plain(f"{remark.reason}. {remark.hint}", 300))


def _render() -> None:
    run = _sidebar.current()
    _page.header(run)
    step = int(_state.get("step"))
    count = run.counts.get(step, 0)
    index = _moves(run, step, count)
    try:
        opened = _cached.rollout(run, step, index)
    except BoardError as error:
        st.error(plain(error, 500), icon=":material/error:")
        return
    row = run.row(step, index)
    _texts(opened)
    _scores(row)
    _remarks(opened)
    if opened.tokens_are_ids:
        st.caption("Tokens are shown as ids: the run has no vocab.json beside its logs.")
    if opened.tokens:
        _length_warnings(opened)
        _tokens(opened, f"{run.info.name}/{run.info.mtime}/{step}/{index}/{run.options.read}")
    elif "response" in opened.record.texts:
        st.caption("No tokens are recorded for this rollout, so there are no values to colour by.")
    _raw(run, opened, row)


_render()
