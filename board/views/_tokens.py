"""The tokens of one rollout as the token view takes them, and the view itself on the Rollout page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import streamlit as st

from board.components.token_data import (
    PromptPart,
    ScaleSpan,
    TokenMetricSpec,
    TokenSegment,
    spec_of,
)
from board.components.token_view import Chosen, Scales, TokenContent, token_view
from board.core.kl import FloatArray
from board.core.metrics import token_metric
from board.core.pieces import joined
from board.core.turns import Turn, from_markers, from_messages, of_tokens, over_tokens, token_starts
from board.store.rollout import OpenRollout
from board.store.run import Run
from board.views import _cached, _state
from board.views._text import plain

MaskedFloats = np.ma.MaskedArray[Any, np.dtype[np.float64]]

_FIRST_METRICS: Final = ("k1", "k3", "mismatch_kl", "logprobs", "entropy", "values", "advantages")
_LAST_METRICS: Final = ("log_ratio", "k3_clamped")
_NO_TOKEN: Final = ""
# Of the token view, in pixels and characters; the lowest still shows its list of top tokens.
_LINE_HEIGHT: Final = 26
_LINE_CHARACTERS: Final = 70
_HEADINGS_HEIGHT: Final = 130
_LOWEST: Final = 330
_HIGHEST: Final = 560


def signature_of(run: Run, opened: OpenRollout) -> str:
    """Differs between any two contents of the token view."""
    place = f"{run.info.name}/{run.info.mtime}/{opened.step}/{opened.index}"
    return f"{place}/{run.options.read}/{_state.get('tokenizer')}"


@st.fragment
def show(run: Run, opened: OpenRollout) -> None:
    """The token view; choosing a metric, a token or a scale reruns only this."""
    metrics = fitted_metrics(opened)
    if not metrics:
        st.caption("The log holds tokens of this rollout and no values for them.")
    names = ["", *metrics]
    _state.ensure("metric", names, "")
    _state.ensure("token", [None, *range(positions(opened))], None)
    _state.ensure("strip", names, "")
    zoom = _state.get("zoom")
    _state.ensure("zoom", [None, zoom] if zoom and zoom[1] < positions(opened) else [None], None)
    chosen = token_view(
        content_of(opened, metrics),
        key="token_view",
        signature=signature_of(run, opened),
        chosen=Chosen(
            metric=_state.get("metric") or None,
            pinned=_state.get("token"),
            over=_state.get("over"),
            strip=_state.get("strip") or None,
            masks=_state.get("masks"),
            zoom=_state.get("zoom"),
        ),
        scales=Scales(over_step=lambda: _step_spans(run, opened.step)),
        heat=bool(_state.get("heat")),
        height=height_of(opened),
    )
    remember(chosen, metrics)
    if metrics:
        st.toggle(
            "All metrics by position",
            key="heat",
            help="One row per metric, each on its own scale from the 1st to the 99th percentile.",
            persist_state="session",
        )


def remember(chosen: Chosen, metrics: Mapping[str, Any]) -> None:
    """What was chosen in the token view, into the URL."""
    default = next(iter(metrics), "")
    metric = "" if chosen.metric in (None, default) else chosen.metric
    _state.put(metric=metric, token=chosen.pinned, over=chosen.over)
    _state.put(strip=chosen.strip or "", masks=chosen.masks, zoom=chosen.zoom)
    _state.push()


def content_of(opened: OpenRollout, metrics: Mapping[str, MaskedFloats]) -> TokenContent:
    """A rollout as the token view takes it; metrics: of `fitted_metrics`."""
    count = positions(opened)
    length = len(opened.tokens)
    mask = opened.metrics.get("loss_mask")
    ids = opened.record.response_ids
    return TokenContent(
        [*opened.tokens, *[_NO_TOKEN] * (count - length)],
        metrics,
        specs_of(metrics),
        loss_mask=None if mask is None else fitted(mask, count),
        ids=None if ids is None or len(ids) != length else fitted(ids.values(), count),
        surplus=count - length,
        segments=segments_of(opened),
        prompt=prompt_parts(opened),
        top_k=opened.top_k,
        advantage=opened.record.scores.get("advantage"),
        clip=opened.clip,
    )


def positions(opened: OpenRollout) -> int:
    """Tokens of the response, or values where an array is longer than they are."""
    return max([len(opened.tokens), *(len(values) for values in opened.metrics.values())])


def fitted(values: FloatArray, length: int) -> MaskedFloats:
    """[length] values; what is missing at the end is masked as not recorded, and so is NaN.

    An array of nothing but NaN was measured so: it is shown as NaN, not as missing.
    """
    shown: npt.NDArray[np.float64] = np.full(length, np.nan)
    kept = values[:length]
    shown[: len(kept)] = kept
    missing = np.isnan(shown)
    if len(kept) and np.isnan(kept).all():
        missing[: len(kept)] = False
    return np.ma.masked_array(shown, mask=missing)


def fitted_metrics(opened: OpenRollout) -> dict[str, MaskedFloats]:
    """Every token metric in the order of the menu, each as long as there are positions."""
    count = positions(opened)
    names = [name for name in _FIRST_METRICS if name in opened.metrics]
    names += [name for name in opened.metrics if name not in (*names, *_LAST_METRICS)]
    names += [name for name in _LAST_METRICS if name in opened.metrics]
    return {name: fitted(opened.metrics[name], count) for name in names}


def specs_of(metrics: Mapping[str, Any]) -> dict[str, TokenMetricSpec]:
    """Words for the arrays that the board knows; the token view finds words for the others itself."""
    known = [name for name in metrics if token_metric(name).label != name]
    return {name: spec_of(token_metric(name)) for name in known}


def segments_of(opened: OpenRollout) -> list[TokenSegment]:
    """Whose stretch of the response is whose: as recorded, by chat markers, or by messages."""
    turns = of_tokens(opened.tokens, opened.record.segments, opened.record.messages)
    return [TokenSegment(turn.start, turn.end, turn.role, turn.name) for turn in turns]


def prompt_parts(opened: OpenRollout) -> list[PromptPart]:
    """What was given to the model, by role: from its tokens, its text, or the messages before."""
    if opened.prompt_tokens is not None:
        return _parts_of_tokens(opened.prompt_tokens, opened)
    prompt = opened.record.texts.get("prompt")
    if prompt is not None:
        turns = from_markers(prompt) or from_messages(prompt, opened.record.messages)
        covered = _covered(turns, len(prompt))
        return [PromptPart(prompt[t.start : t.end], t.role, t.name) for t in covered]
    return _parts_of_messages(opened)


def _parts_of_tokens(tokens: Sequence[str], opened: OpenRollout) -> list[PromptPart]:
    text = joined(tokens)
    turns = from_markers(text, token_starts(tokens)) or from_messages(text, opened.record.messages)
    recorded = opened.record.prompt_ids
    ids = [] if recorded is None else recorded.values().tolist()
    parts: list[PromptPart] = []
    for turn in _covered(over_tokens(turns, tokens), len(tokens)):
        own = tokens[turn.start : turn.end]
        known = ids[turn.start : turn.end] if len(ids) == len(tokens) else ()
        parts.append(PromptPart(joined(own), turn.role, turn.name, own, known))
    return parts


def _covered(turns: Sequence[Turn], length: int) -> list[Turn]:
    """Turns without gaps; what none of them claims is of the role "prompt"."""
    found: list[Turn] = []
    position = 0
    for turn in turns:
        if turn.start > position:
            found.append(Turn(position, turn.start, "prompt"))
        found.append(turn)
        position = turn.end
    if position < length:
        found.append(Turn(position, length, "prompt"))
    return found


def _parts_of_messages(opened: OpenRollout) -> list[PromptPart]:
    """Messages up to the first one that is part of the response."""
    response = joined(opened.tokens)
    parts: list[PromptPart] = []
    for message in opened.record.messages:
        content = message.get("content")
        if not isinstance(content, str):
            continue
        if content.strip() and content.strip() in response:
            break
        parts.append(
            PromptPart(content, str(message.get("role", "")), str(message.get("name") or ""))
        )
    return parts


def _step_spans(run: Run, step: int) -> dict[str, ScaleSpan]:
    found = _cached.step_spans(run, step)
    part = "" if found.read == found.total else f"{found.read} of "
    words = f"p1–p99 of the step's {part}{found.total:,} rollouts"
    return {name: ScaleSpan(low, high, words) for name, (low, high) in found.spans.items()}


def height_of(opened: OpenRollout) -> int:
    """Of the tokens' text, in pixels: short rollouts leave room for what stands below them."""
    shown = "".join([*(part.text for part in prompt_parts(opened)), *opened.tokens])
    lines = sum(1 + len(part) // _LINE_CHARACTERS for part in shown.split("\n"))
    return min(max(_LINE_HEIGHT * lines + _HEADINGS_HEIGHT, _LOWEST), _HIGHEST)


def length_warnings(opened: OpenRollout) -> None:
    """Values keep the position they were recorded at; none is shifted to make lengths agree."""
    length = len(opened.tokens)
    odd: dict[int, list[str]] = {}
    for name, values in opened.metrics.items():
        if len(values) != length:
            odd.setdefault(len(values), []).append(name)
    for count, names in odd.items():
        effect = (
            f"the last {count - length:,} stand below as values without a token"
            if count > length
            else f"the last {length - count:,} tokens are shown without a value"
        )
        have = "has" if len(names) == 1 else "have"
        words = f"{', '.join(names)} {have} {count:,} entries for {length:,} tokens: {effect}."
        st.warning(plain(words, 400), icon=":material/straighten:")
