"""The token view: a response token by token, coloured by a metric, read in place.

The markup, the styles and the script lie beside this file: `token_view.html`, two style sheets, and
`js/*.js`, whose parts are joined into one module (no build step). Model text goes to the browser in
Arrow tables and onto the page as text nodes only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import streamlit as st
from streamlit.components.v2 import component

from board.components.token_data import (
    Link,
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
from board.components.token_view.choice import FIELDS, Choice, Chosen, Offer, fitting, latest
from board.core.masks import RECORDED, RULES
from board.core.topk import TopK

__all__ = ["Chosen", "Scales", "TokenContent", "TokenMetricSpec", "TokenSegment", "token_view"]

Spans = Mapping[str, ScaleSpan]

_FOLDER: Final = Path(__file__).parent
# Declarations first, the entry point last; all parts share one module scope.
_SCRIPT_PARTS: Final = (
    *("numbers", "text", "frames", "rollout", "scale", "peaks", "masks", "search"),
    *("blocks", "flow", "prompt", "find", "legend", "map", "positions", "strip", "heat"),
    *("what_if", "values", "panel", "tip", "link", "keys", "token_view"),
)
_STYLE_PARTS: Final = ("panel", "strip", "what_if", "token_view")


@dataclass(frozen=True, slots=True)
class TokenContent:
    """A response and what is known of it.

    tokens: [R] display text, see `board.core.pieces.display_pieces`.
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
    unit: what one entry of tokens is, in words: "token", or "word" for a text without tokens.
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
    unit: str = "token"


@dataclass(frozen=True, slots=True)
class Scales:
    """Colour scales that are not the rollout's own.

    over_step: gives the step's range per metric; called only when the step is chosen. shared: a range
    per metric for two rollouts side by side; leaves no choice between rollout and step.
    """

    over_step: Callable[[], Spans] | None = None
    shared: Spans | None = None

    def spans(self, chosen: Chosen) -> Spans:
        """The ranges to use; none for the rollout's own."""
        if self.shared is not None:
            return self.shared
        return self.over_step() if self.over_step and chosen.over == "step" else {}


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


_COMPONENT = component(
    "rollout_board_token_view",
    html=_read("token_view.html"),
    # The rules for narrow places end token_view.css and override the others'.
    css="\n".join(_read(f"{part}.css") for part in _STYLE_PARTS),
    js="\n".join(_read(f"js/{part}.js") for part in _SCRIPT_PARTS),
    isolate_styles=True,
)


def token_view(
    content: TokenContent,
    *,
    key: str,
    signature: str,
    chosen: Chosen | None = None,
    scales: Scales | None = None,
    link: Link | None = None,
    heat: bool = False,
    height: int = 560,
) -> Chosen:
    """Show a response's tokens and return what the user chose.

    A choice changes the picture in the browser at once and then reruns the script (the fragment,
    inside one). `chosen` may be set anew on any run, from the URL for one: whichever of the caller and
    the user spoke last wins. What of it is not on offer is left out.

    Args:
        content: what is shown.
        key: Streamlit key, one per place on the page; keep it over rollouts.
        signature: names the content. The view is rebuilt when it changes and only then, so it must
            differ between rollouts and when the same rollout is shown with other data.
        chosen: what the caller asks for.
        scales: colour scales that are not the rollout's own.
        link: binds this view to another; such a view has text, map and legend only.
        heat: show all metrics over the position, a row each.
        height: of the text, in pixels; everything around it adds about 250, in a linked view 90.

    Raises:
        ValueError: an array is not as long as tokens, or segments overlap or leave the response.
    """
    scales = scales or Scales()
    shown = _latest_choice(key, signature, chosen or Chosen(), content)
    choices = {name: getattr(shown, name) for name in FIELDS}
    place = {"signature": signature, "height": height, "heat": heat, **choices}
    view = {
        **place,
        "hasSteps": scales.over_step is not None and scales.shared is None,
        "link": asdict(link) if link else None,
        "masks": [one and [one[0], *one[1]] for one in shown.masks] if shown.masks else None,
        **_words(content, scales.spans(shown)),
    }
    callbacks: dict[str, Any] = {f"on_{name}_change": _nothing for name in FIELDS}
    _COMPONENT(key=key, data={**_tables(content), "view": view}, **callbacks)
    return shown


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
        "unit": content.unit,
        "advantage": content.advantage,
        "clip": dict(content.clip) if content.clip else None,
        "topk": top_k.places.shape[1] if top_k is not None else 0,
        "segments": [asdict(one) for one in cover(content.segments, len(content.tokens))],
        "specs": _specs(content.metrics, content.specs, spans),
        "rules": [asdict(rule) for rule in RULES.values()],
        "recordedMasks": RECORDED,
    }


def _specs(
    metrics: Mapping[str, TokenValues | None],
    specs: Mapping[str, TokenMetricSpec],
    spans: Spans,
) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            **asdict(specs.get(name) or spec_for_unknown(name, values)),
            "span": asdict(spans[name]) if name in spans else None,
        }
        for name, values in metrics.items()
    ]


def _nothing() -> None:
    """A state of the component exists only with a callback; the rerun itself is all we need."""


def _latest_choice(key: str, signature: str, wanted: Chosen, content: TokenContent) -> Chosen:
    """The user's or the caller's choice, whichever is newer; kept in the session for the next run."""
    offer = Offer(content.metrics.keys(), len(content.tokens))
    wanted = fitting(wanted, offer)
    if wanted.metric is None:
        wanted = replace(wanted, metric=next(iter(content.metrics), None))
    reported: Mapping[str, Any] = st.session_state.get(key) or {}
    slot = f"{key}:choice"
    before: Choice | None = st.session_state.get(slot)
    choice = latest(before, signature, wanted, reported, offer)
    st.session_state[slot] = choice
    return choice.shown
