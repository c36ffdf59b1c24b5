"""The token view: a response token by token, coloured by a metric, read in place.

The markup, the styles and the script lie beside this file: `token_view.html`, two style sheets, and
`js/*.js`, whose parts are joined into one module (no build step). Model text goes to the browser in
Arrow tables and onto the page as text nodes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import streamlit as st
from streamlit.components.v2 import component

from board.components.token_data import (
    TokenMetricSpec,
    TokenSegment,
    TokenValues,
    cover,
    metric_table,
    prompt_table,
    spec_for_unknown,
    token_table,
)
from board.components.token_view.choice import Choice, Chosen, latest

__all__ = ["TokenMetricSpec", "TokenSegment", "TokenViewEvent", "token_view"]

_FOLDER: Final = Path(__file__).parent
# Declarations first, the entry point last; all parts share one module scope.
_SCRIPT_PARTS: Final = (
    "numbers",
    "text",
    "rollout",
    "scale",
    "flow",
    "find",
    "canvases",
    "panel",
    "token_view",
)


@dataclass(frozen=True, slots=True)
class TokenViewEvent:
    """What the token view shows now: fit to be written into the URL.

    pinned: index of the pinned response token, or None. metric: name of the metric that colours.
    """

    pinned: int | None
    metric: str | None


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


_COMPONENT = component(
    "rollout_board_token_view",
    html=_read("token_view.html"),
    # The rules for narrow places end token_view.css and override the panel's.
    css=_read("panel.css") + _read("token_view.css"),
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
    loss_mask: TokenValues | None = None,
    segments: Sequence[TokenSegment] = (),
    prompt_tokens: Sequence[str] | None = None,
    height: int = 560,
) -> TokenViewEvent:
    """Show a response's tokens and return what the user chose.

    Choosing a metric or a token changes the picture in the browser at once and then reruns the
    script (the fragment, inside one). `metric` and `pinned` may be set anew on any run, from the
    URL for one: whichever of the caller and the user spoke last wins.

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
        loss_mask: [R], 0 = outside the loss. Scale, percentiles and peaks leave those tokens out.
        segments: which stretch is of which role; tokens outside all of them are shown without one.
        prompt_tokens: display text of the prompt, or its whole text as one entry.
        height: of the text, in pixels; the toolbar and the foot add about 80.

    Returns:
        The pinned token and the metric in use.

    Raises:
        ValueError: an array is not as long as tokens, or segments overlap or leave the response.
    """
    count = len(tokens)
    wanted = Chosen(
        metric=metric if metric in metrics else next(iter(metrics), None),
        pinned=pinned if pinned is not None and 0 <= pinned < count else None,
    )
    shown = _latest_choice(key, signature, wanted, set(metrics), count)
    data = {
        "tokens": token_table(tokens, loss_mask),
        "metrics": metric_table(metrics, count),
        "prompt": prompt_table(prompt_tokens or ()),
        "view": {
            "signature": signature,
            "metric": shown.metric,
            "pinned": shown.pinned,
            "height": height,
            "segments": [asdict(segment) for segment in cover(segments, count)],
            "specs": [
                {"name": name, **asdict(specs.get(name) or spec_for_unknown(name, values))}
                for name, values in metrics.items()
            ],
        },
    }
    _COMPONENT(
        key=key,
        data=data,
        on_metric_change=_nothing,
        on_pinned_change=_nothing,
    )
    return TokenViewEvent(pinned=shown.pinned, metric=shown.metric)


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
