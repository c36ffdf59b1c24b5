"""The reader: a rollout as tokens coloured by a metric, or as the turns of a conversation.

The markup, the styles and the script are in this folder: `reader.html`, style sheets, and `js/*.js`,
whose parts are joined into one module (no build step).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import streamlit as st

from board.components import declare, only_rerun, read_files
from board.components.reader.choice import FIELDS, Choice, Chosen, Offer, fitting, latest
from board.components.reader.frame import Frame
from board.components.token_data import (
    PromptPart,
    ScaleSpan,
    TokenMetricSpec,
    TokenSegment,
    TokenValues,
    cover,
    metric_table,
    prompt_tables,
    spec_for_unknown,
    token_table,
    top_k_tables,
)
from board.core.records import TopK
from board.core.tokens.masks import RECORDED, RULES

Spans = Mapping[str, ScaleSpan]

_FOLDER: Final = Path(__file__).parent
_SCRIPTS: Final = (
    *("numbers", "text", "frames", "rollout", "scale", "peaks", "masks", "search", "finder"),
    *("settings", "place", "layout"),
    *("blocks", "flow", "prompt", "chunks", "json_colours", "fold", "turns", "outline"),
    *("token_find", "text_find", "find", "legend", "token_map", "turn_map", "positions", "strip"),
    *("heat", "what_if", "values", "panel", "tip", "details", "copy", "ahead", "keys"),
    "../../comparison/js/menu",
    "reader",
)
# The rules for narrow places override the others'.
_STYLES: Final = (
    *("base", "layout", "controls", "tokens", "turns", "outline", "legend", "panel"),
    *("strip", "what_if", "narrow"),
    "../comparison/menu",
)


@dataclass(frozen=True, slots=True)
class TokenContent:
    """A response and what is known of it.

    tokens: [R] display text, see `board.core.tokens.pieces.display_pieces`.
    metrics: name -> [R] numbers in the order of the menu; NaN is measured and not a number, a masked
        entry (np.ma) or None for the whole metric is not recorded.
    specs: words and kind per metric; a metric without one is named by its key.
    loss_mask: [R], 0 = outside the loss. Scale, percentiles and peaks leave those tokens out.
    ids: [R] token ids, to be shown beside the text.
    surplus: so many of the last entries of `tokens` stand for values without a token.
    segments: which stretch is of which role; tokens outside all of them are shown without one.
    prompt: what was given to the model, in reading order.
    top_k: the likeliest tokens at each position, shown under the pointer.
    advantage: of the whole rollout, for the what-if masks, where none per token is recorded.
    clip: the run's own clip range, by the threshold names of `core.masks.RULES["ratio_clip"]`.
    """

    tokens: Sequence[str]
    metrics: Mapping[str, TokenValues | None]
    specs: Mapping[str, TokenMetricSpec] = field(default_factory=dict)
    loss_mask: TokenValues | None = None
    ids: TokenValues | None = None
    surplus: int = 0
    segments: Sequence[TokenSegment] = ()
    prompt: Sequence[PromptPart] = ()
    top_k: TopK | None = None
    advantage: float | None = None
    clip: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class CompareMenu:
    """The menu "Compare with". choices: its content while it is open; None while it is
    closed. choose: called with what was chosen, in the run of the script that it led to.
    """

    choices: Mapping[str, Any] | None
    choose: Callable[[str], None]


_COMPONENT = declare(
    "reader",
    _FOLDER,
    read_files(_FOLDER, ["reader.html"]).replace(
        "{text tools}", read_files(_FOLDER, ["text_tools.html"])
    ),
    css=(f"{name}.css" for name in _STYLES),
    js=(f"js/{name}.js" for name in _SCRIPTS),
)


def reader(
    content: TokenContent,
    frame: Frame | None = None,
    *,
    key: str,
    signature: str,
    chosen: Chosen | None = None,
    step_spans: Callable[[], Spans] | None = None,
    height: int | None = None,
    menu: CompareMenu | None = None,
) -> Chosen:
    """Show a rollout and return what the user chose.

    A choice changes the picture in the browser at once and then reruns the script (the fragment,
    inside one). `chosen` may be another one on any run, from the URL for one: whichever of the caller and
    the user spoke last wins. What of it is not on offer is left out.

    Args:
        content: tokens and their values; empty where the frame has turns.
        frame: what surrounds the text; turns that are shown instead of tokens.
        key: Streamlit key, one per place on the page; the same over rollouts.
        signature: names the content. The view is rebuilt when it changes and only then, so it must
            differ between rollouts and when the same rollout is shown with other data.
        chosen: what the caller asks for.
        step_spans: gives the range of each metric over the step; called only where its scale is chosen.
        height: in pixels; None fills the window below the place where the reader begins.
        menu: what the rollout can be compared with.

    Raises:
        ValueError: an array is not as long as tokens, or segments overlap or leave the response.
    """
    choice = _latest_choice(key, signature, chosen or Chosen(), content)
    data = reader_data(
        content, frame, signature=signature, choice=choice, step_spans=step_spans, height=height
    )
    if menu is not None and menu.choices is not None:
        data["view"]["choices"] = dict(menu.choices)
    names = (*FIELDS, "picker", "vs")
    callbacks: dict[str, Any] = {f"on_{name}_change": only_rerun for name in names}
    vs = _COMPONENT(key=key, data=data, **callbacks).vs
    if menu is not None and isinstance(vs, str) and vs:
        menu.choose(vs)
    return choice


def reader_data(
    content: TokenContent,
    frame: Frame | None = None,
    *,
    signature: str,
    choice: Chosen,
    step_spans: Callable[[], Spans] | None = None,
    height: int | None = None,
) -> dict[str, Any]:
    """All that the reader's script needs to show a rollout: Arrow tables by name, and `view`.

    choice: valid, as `reader` returns it; the other arguments are those of `reader`. Raises the same.
    """
    spans = step_spans() if step_spans and choice.over == "step" else {}
    view = {
        "signature": signature,
        "height": height,
        **{name: getattr(choice, name) for name in FIELDS},
        "hasSteps": step_spans is not None,
        "masks": [one and [one[0], *one[1]] for one in choice.masks] if choice.masks else None,
        **_words(content, spans),
        **(frame or Frame()).data(),
    }
    return {**_tables(content), "view": view}


def _tables(content: TokenContent) -> dict[str, Any]:
    return {
        "tokens": token_table(content.tokens, content.loss_mask, content.ids),
        "metrics": metric_table(content.metrics, len(content.tokens)),
        **prompt_tables(content.prompt),
        **top_k_tables(content.top_k),
    }


def _words(content: TokenContent, spans: Spans) -> dict[str, Any]:
    """What of the content is not one entry per token."""
    top_k = content.top_k
    return {
        "surplus": content.surplus,
        "advantage": content.advantage,
        "clip": dict(content.clip) if content.clip else None,
        "topk": top_k.places.shape[1] if top_k is not None else 0,
        "segments": [asdict(one) for one in cover(content.segments, len(content.tokens))],
        "specs": [
            {
                "name": name,
                **asdict(content.specs.get(name) or spec_for_unknown(name, values)),
                "span": asdict(spans[name]) if name in spans else None,
            }
            for name, values in content.metrics.items()
        ],
        "rules": [asdict(rule) for rule in RULES.values()],
        "recordedMasks": RECORDED,
    }


def first_choice(wanted: Chosen, content: TokenContent) -> Chosen:
    """What is shown of a rollout at first: what of the wish fits it, and its first metric."""
    wanted = fitting(wanted, Offer(content.metrics.keys(), len(content.tokens)))
    if wanted.metric is None:
        wanted = replace(wanted, metric=next(iter(content.metrics), None))
    return wanted


def _latest_choice(key: str, signature: str, wanted: Chosen, content: TokenContent) -> Chosen:
    """The user's or the caller's choice, whichever is newer; remembered for the next run."""
    offer = Offer(content.metrics.keys(), len(content.tokens))
    reported: Mapping[str, Any] = st.session_state.get(key) or {}
    slot = f"{key}:choice"
    before: Choice | None = st.session_state.get(slot)
    choice = latest(before, signature, first_choice(wanted, content), reported, offer)
    st.session_state[slot] = choice
    return choice.current
