"""The reader: a rollout as tokens coloured by a metric, or as the turns of a conversation.

The markup, the styles and the script are in this folder: `reader.html`, style sheets, and `js/*.js`,
whose parts are joined into one module (no build step).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import streamlit as st

from board.components import declare, read_files, reruns
from board.components.reader.choice import FIELDS, Chosen, fitting, latest
from board.components.reader.frame import Frame
from board.components.token_data import (
    ScaleSpan,
    TokenContent,
    TokenSegment,
    metric_table,
    prompt_tables,
    spec_list,
    token_table,
    top_k_tables,
)
from board.core.tokens.masks import RECORDED, RULES

StepSpans = Callable[[], Mapping[str, ScaleSpan]]
"""Gives the range of each metric over the step; called only where its scale is chosen."""

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
    frame: Frame,
    *,
    key: str,
    signature: str,
    chosen: Chosen,
    step_spans: StepSpans,
    height: int | None = None,
    menu: Mapping[str, Any] | None = None,
    on_compare: Callable[[str], None] = lambda _: None,
) -> Chosen:
    """Shows a rollout and returns what the user chose.

    A choice changes the picture in the browser at once and then reruns the script (the fragment,
    inside one). `chosen` may be another one on any run, from the URL for one: the newer choice of caller
    and user wins. What of it is not on offer is left out.

    Args:
        content: tokens and their values; empty where the frame has turns.
        frame: what surrounds the text; turns that are shown instead of tokens.
        key: Streamlit key, one per place on the page; the same over rollouts.
        signature: names the content. The view is rebuilt when it changes and only then, so it must
            differ between rollouts and when the same rollout is shown with other data.
        chosen: what the caller asks for.
        step_spans: see `StepSpans`.
        height: in pixels; None fills the window below the place where the reader begins.
        menu: content of the menu "Compare with", None while it is closed.
        on_compare: called with what was chosen in it.
    """
    slot = f"{key}:choice"
    choice = latest(
        st.session_state.get(slot),
        signature,
        first_choice(chosen, content),
        st.session_state.get(key) or {},
        content,
    )
    st.session_state[slot] = choice
    data = reader_data(
        content, frame, signature=signature, choice=choice.current, step_spans=step_spans
    )
    data["view"] |= {"height": height, "choices": menu}
    vs = _COMPONENT(key=key, data=data, **reruns(*FIELDS, "picker", "vs")).vs
    if isinstance(vs, str) and vs:
        on_compare(vs)
    return choice.current


def reader_data(
    content: TokenContent,
    frame: Frame,
    *,
    signature: str,
    choice: Chosen,
    step_spans: StepSpans,
) -> dict[str, Any]:
    """All that the reader's script needs to show a rollout: Arrow tables by name, and `view`.

    choice: valid, as `reader` returns it; the other arguments are those of `reader`.
    """
    count, top_k = len(content.tokens), content.top_k
    spans = step_spans() if choice.over == "step" else {}
    view = {
        "signature": signature,
        "height": None,
        **{name: getattr(choice, name) for name in FIELDS},
        "masks": [one and [one[0], *one[1]] for one in choice.masks] if choice.masks else None,
        "surplus": content.surplus,
        "advantage": content.advantage,
        "clip": dict(content.clip) if content.clip else None,
        "topk": top_k.places.shape[1] if top_k is not None else 0,
        "segments": [
            asdict(one) for one in content.segments or [TokenSegment(0, count, "")] if count
        ],
        "specs": spec_list(content.metrics, content.specs, spans),
        "rules": [asdict(rule) for rule in RULES.values()],
        "recordedMasks": RECORDED,
        **frame.data(),
    }
    return {
        "tokens": token_table(content.tokens, content.loss_mask, content.ids),
        "metrics": metric_table(content.metrics, count),
        **prompt_tables(content.prompt),
        **top_k_tables(top_k),
        "view": view,
    }


def first_choice(wanted: Chosen, content: TokenContent) -> Chosen:
    """What is shown of a rollout at first: what of the wish fits it, and its first metric."""
    wanted = fitting(wanted, content)
    if wanted.metric is None:
        wanted = replace(wanted, metric=next(iter(content.metrics), None))
    return wanted
