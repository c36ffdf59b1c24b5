"""The token view: a response token by token, coloured by a metric, read in place.

The markup, the styles and the script lie beside this file: `token_view.html`, two style sheets, and
`js/*.js`, whose parts are joined into one module (no build step). Model text goes to the browser in
Arrow tables and onto the page as text nodes only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from board.components.token_view.choice import Choice, Chosen, Over, latest
from board.core.masks import RULES
from board.core.topk import TopK

__all__ = ["TokenMetricSpec", "TokenSegment", "TokenViewEvent", "token_view"]

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
class TokenViewEvent:
    """What the token view shows now: fit to be written into the URL.

    pinned: index of the pinned response token, or None. metric: name of the metric that colours.
    over: what the colour scale is over.
    """

    pinned: int | None
    metric: str | None
    over: Over = "rollout"


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
    tokens: Sequence[str],
    metrics: Mapping[str, TokenValues | None],
    *,
    key: str,
    signature: str,
    specs: Mapping[str, TokenMetricSpec],
    metric: str | None = None,
    pinned: int | None = None,
    over: Over = "rollout",
    spans_over_step: Callable[[], Spans] | None = None,
    shared_spans: Spans | None = None,
    loss_mask: TokenValues | None = None,
    ids: TokenValues | None = None,
    surplus: int = 0,
    segments: Sequence[TokenSegment] = (),
    prompt: Sequence[PromptPart] = (),
    top_k: TopK | None = None,
    advantage: float | None = None,
    clip: Mapping[str, float] | None = None,
    link: Link | None = None,
    unit: str = "token",
    heat: bool = False,
    height: int = 560,
) -> TokenViewEvent:
    """Show a response's tokens and return what the user chose.

    Choosing a metric or a token changes the picture in the browser at once and then reruns the
    script (the fragment, inside one). `metric`, `pinned` and `over` may be set anew on any run, from
    the URL for one: whichever of the caller and the user spoke last wins.

    Args:
        tokens: [R] display text, see `board.core.pieces.display_pieces`.
        metrics: name -> [R] numbers in the order of the menu; NaN is measured and not a number, a
            masked entry (np.ma) or None for the whole metric is not recorded.
        key: Streamlit key, one per place on the page; keep it over rollouts.
        signature: names the content. The view is rebuilt when it changes and only then, so it must
            differ between rollouts and when the same rollout is shown with other data.
        specs: words and kind per metric; a metric without one is named by its key.
        metric: the metric to colour by; the first one where None or unknown.
        pinned: token to pin and scroll to; ignored outside 0..R-1.
        over: colour scale over this "rollout" or over the "step"; the step needs spans_over_step.
        spans_over_step: gives the step's range per metric; called only when the step is chosen.
        shared_spans: a range per metric that replaces the rollout's own, for two rollouts side by
            side; leaves no choice between rollout and step.
        loss_mask: [R], 0 = outside the loss. Scale, percentiles and peaks leave those tokens out.
        ids: [R] token ids, to be shown beside the text.
        surplus: so many of the last entries of `tokens` stand for values without a token.
        segments: which stretch is of which role; tokens outside all of them are shown without one.
        prompt: what was given to the model, in reading order.
        top_k: the likeliest tokens at each position, shown under the pointer.
        advantage: of the whole rollout, for the what-if masks, where none per token is recorded.
        clip: the run's own clip range, by the threshold names of `core.masks.RULES["ratio_clip"]`.
        link: binds this view to another; such a view has text, map and legend only.
        unit: what one entry of tokens is, in words: "token", or "word" for a text without tokens.
        heat: show all metrics over the position, a row each.
        height: of the text, in pixels; everything around it adds about 250, in a linked view 90.

    Returns:
        The pinned token, the metric in use, and what the colour scale is over.

    Raises:
        ValueError: an array is not as long as tokens, or segments overlap or leave the response.
    """
    count = len(tokens)
    wanted = Chosen(
        metric=metric if metric in metrics else next(iter(metrics), None),
        pinned=pinned if pinned is not None and 0 <= pinned < count else None,
        over=over,
    )
    shown = _latest_choice(key, signature, wanted, set(metrics), count)
    over_step = shown.over == "step" and spans_over_step is not None
    spans = shared_spans or (spans_over_step() if over_step and spans_over_step else {})
    view = {
        "signature": signature,
        "metric": shown.metric,
        "pinned": shown.pinned,
        "over": shown.over,
        "hasSteps": spans_over_step is not None and shared_spans is None,
        "height": height,
        "surplus": surplus,
        "unit": unit,
        "heat": heat,
        "advantage": advantage,
        "clip": dict(clip) if clip else None,
        "link": asdict(link) if link else None,
        "topk": top_k.places.shape[1] if top_k is not None else 0,
        "segments": [asdict(segment) for segment in cover(segments, count)],
        "specs": _specs(metrics, specs, spans),
        "rules": [asdict(rule) for rule in RULES.values()],
    }
    data = {
        "tokens": token_table(tokens, loss_mask, ids),
        "metrics": metric_table(metrics, count),
        **prompt_tables(prompt),
        **top_k_tables(top_k),
        "view": view,
    }
    _COMPONENT(
        key=key,
        data=data,
        on_metric_change=_nothing,
        on_pinned_change=_nothing,
        on_over_change=_nothing,
    )
    return TokenViewEvent(pinned=shown.pinned, metric=shown.metric, over=shown.over)


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


def _latest_choice(key: str, signature: str, wanted: Chosen, names: set[str], count: int) -> Chosen:
    """The user's or the caller's choice, whichever is newer; kept in the session for the next run."""
    reported: Mapping[str, Any] = st.session_state.get(key) or {}
    slot = f"{key}:choice"
    before: Choice | None = st.session_state.get(slot)
    choice = latest(before, signature, wanted, reported, names=names, count=count)
    st.session_state[slot] = choice
    return choice.shown
