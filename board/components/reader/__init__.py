"""The reader: a rollout as tokens coloured by a metric, or as the turns of a conversation.

The scripts in `js` are joined into one module: there is no build step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

import streamlit as st

from board.components import declare, read_files, reruns
from board.components.reader.frame import Frame
from board.components.token_data import (
    TokenContent,
    TokenSegment,
    metric_table,
    prompt_tables,
    spec_list,
    token_table,
    top_k_tables,
)
from board.core.tokens.masks import RECORDED, RULES, ChosenMasks, chosen_masks
from board.core.tokens.scales import Span

StepSpans = Callable[[], Mapping[str, Span]]
"""Gives the range of each metric over the step; called only where its scale is chosen."""

_SCRIPTS: Final = (
    *("numbers", "text", "frames", "rollout", "scale", "peaks", "masks", "search", "finder"),
    *("settings", "place", "layout"),
    *("blocks", "flow", "prompt", "chunks", "json_colours", "fold", "turns", "outline"),
    *("token_find", "text_find", "find", "legend", "token_map", "turn_map", "positions", "strip"),
    *("heat", "what_if", "values", "panel", "tip", "details", "labels", "alike", "copy", "ahead"),
    "keys",
    "../../keys",
    "../../outbox",
    "../../rerun",
    "../../comparison/js/menu",
    "reader",
)
# The rules for narrow places override the others'.
_STYLES: Final = (
    *("base", "layout", "controls", "tokens", "turns", "outline", "legend", "panel"),
    *("strip", "what_if", "labels", "narrow"),
    "../comparison/menu",
)
_MARKUP: Final = read_files(__file__, ["reader.html"]).replace(
    "{text tools}", read_files(__file__, ["text_tools.html"])
)
_STYLE_FILES: Final = tuple(f"{name}.css" for name in _STYLES)
_SCRIPT_FILES: Final = tuple(f"js/{name}.js" for name in _SCRIPTS)
_COMPONENT = declare(__file__, "reader", _MARKUP, css=_STYLE_FILES, js=_SCRIPT_FILES)


def sources() -> tuple[str, str, str]:
    """Markup, style sheets and script, for a page that shows the reader without a server."""
    return _MARKUP, read_files(__file__, _STYLE_FILES), read_files(__file__, _SCRIPT_FILES)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a user can choose in the reader, and would pass on to somebody else.

    metric: what colours, None for the first. pinned: index of the pinned token. over: what the colour
    scale is over. strip: the strip chart's second metric. masks: the what-if masks, None where their
    drawer is closed. zoom: first and last token that strip and heat map span, None for all. heat: whether
    the heat map is shown. raw: whether the record of the log is. read: tokens or text where both are
    recorded, "" for what suits the rollout.
    """

    metric: str | None = None
    pinned: int | None = None
    over: Literal["rollout", "step"] = "rollout"
    strip: str | None = None
    masks: ChosenMasks | None = None
    zoom: tuple[int, int] | None = None
    heat: bool = False
    raw: bool = False
    read: Literal["", "tokens", "text"] = ""


FIELDS: Final = tuple(field.name for field in fields(Chosen))


@dataclass(frozen=True, slots=True)
class Choice:
    """One run's state: what was wanted, what was reported, and what is shown because of them."""

    signature: str
    wanted: Chosen
    reported: Mapping[str, Any]
    current: Chosen


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
    on_alike: Callable[[str], None] = lambda _: None,
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
        on_alike: called with a text that was selected, not trusted, to list the rollouts that have it.
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
    result = _COMPONENT(key=key, data=data, **reruns(*FIELDS, "picker", "vs", "alike"))
    if isinstance(result.vs, str) and result.vs:
        on_compare(result.vs)
    if isinstance(result.alike, str) and result.alike:
        on_alike(result.alike)
    return choice.current


def reader_data(
    content: TokenContent, frame: Frame, *, signature: str, choice: Chosen, step_spans: StepSpans
) -> dict[str, Any]:
    """All that the reader's script needs to show a rollout: Arrow tables by name, and `view`. choice: as
    `reader` returns it; the other arguments are those of `reader`.
    """
    count, top_k = len(content.tokens), content.top_k
    spans = step_spans() if choice.over == "step" and content.metrics else {}
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
    """What is shown of a rollout at first: what of the wish it offers, and its first metric."""
    names = ("metric", "pinned", "strip", "zoom")
    wrong = [name for name in names if not _fits(name, getattr(wanted, name), content)]
    wanted = replace(wanted, **dict.fromkeys(wrong))
    if wanted.metric is None:
        wanted = replace(wanted, metric=next(iter(content.metrics), None))
    return wanted


def latest(
    before: Choice | None,
    signature: str,
    wanted: Chosen,
    state: Mapping[str, Any],
    content: TokenContent,
) -> Choice:
    """What to show now: what is wanted where the content is new, else the news of either side.

    Caller and browser both remember what they said: only what changed since the run before is news. A
    report that is new wins over a wish that is new; without either it stays as it was.

    before: the choice of the run before, None on the first. signature: of the content shown now; reports
    about other content are left out. wanted: what the caller asks for, valid. state: of the component,
    {field of Chosen: {"signature", "value"}}, not trusted.
    """
    reported = _valid_reports(state, signature, content)
    if before is None or before.signature != signature:
        # The browser has not shown this content yet: a report about it is of an earlier visit.
        return Choice(signature, wanted, reported, wanted)
    wishes = {
        name: getattr(wanted, name)
        for name in FIELDS
        if getattr(wanted, name) != getattr(before.wanted, name)
    }
    news = {
        name: value
        for name, value in reported.items()
        if name not in before.reported or before.reported[name] != value
    }
    return Choice(signature, wanted, reported, replace(before.current, **{**wishes, **news}))


def _valid_reports(
    state: Mapping[str, Any], signature: str, content: TokenContent
) -> dict[str, Any]:
    """The reports about this content whose values exist; anything can come from a browser."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        report: Any = state.get(name)
        if isinstance(report, Mapping) and report.get("signature") == signature:
            value: Any = report.get("value")
            with suppress(ValueError):
                if name == "masks" and value is not None:
                    values[name] = chosen_masks(value)
                elif _fits(name, value, content):
                    values[name] = tuple(value) if name == "zoom" and value else value
    return values


def _fits(name: str, value: Any, content: TokenContent) -> bool:
    """Whether a field can have a value, which may be anything."""

    def is_token(place: object) -> bool:
        return type(place) is int and 0 <= place < len(content.tokens)

    if value is None:
        return name in ("pinned", "strip", "masks", "zoom")
    match name:
        case "metric" | "strip":
            return isinstance(value, str) and value in content.metrics
        case "pinned":
            return is_token(value)
        case "zoom":
            is_pair = isinstance(value, list | tuple) and len(value) == 2
            return is_pair and all(map(is_token, value)) and value[0] < value[1]
        case "over":
            return value in ("rollout", "step")
        case "read":
            return value in ("tokens", "text")
        case _:
            return isinstance(value, bool)
