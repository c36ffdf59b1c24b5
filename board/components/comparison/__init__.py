"""Two texts side by side, aligned, with what differs between them marked.

The menu that chooses what to compare with is `js/menu.js` and `menu.css`. Model text goes to the browser
in Arrow tables and onto the page as text nodes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from streamlit.components.v2 import component

from board.components.token_data import (
    ScaleSpan,
    TokenMetricSpec,
    TokenValues,
    encodable,
    metric_table,
    spec_for_unknown,
    token_table,
)
from board.core.metrics.shares import percent
from board.core.texts.diff import Stretch, similarity

__all__ = ["Asked", "Comparison", "Fact", "Side", "comparison"]

Fact = tuple[str, str, str]
"""Label, value, and the difference to the other side's value; label and difference may be empty."""

_FOLDER: Final = Path(__file__).parent
_SHARED: Final = _FOLDER.parent / "reader"
_READER: Final = (
    *("numbers", "text", "rollout", "scale", "search", "finder", "text_find"),
    *("settings", "place"),
)
_SCRIPTS: Final = ("rows", "cells", "row_find", "differences", "menu", "comparison")
_SIMILARITY_HELP: Final = (
    "Characters in stretches that are equal on both sides, of the characters of both texts"
)
_TOO_DIFFERENT: Final = (
    "Too different to align: the texts, or long passages of them, have almost nothing in common and are "
    "shown side by side."
)
_LONG: Final = 2_000
_LITTLE_IN_COMMON: Final = 0.02


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two texts.

    title: what it is, short. facts: of it, in order. tokens: [R] display texts which joined are the
    text, empty where it has no tokens. metrics: name -> [R] numbers, see `TokenContent`.
    """

    title: str
    facts: Sequence[Fact] = ()
    tokens: Sequence[str] = ()
    metrics: Mapping[str, TokenValues | None] = field(default_factory=dict[str, TokenValues | None])
    loss_mask: TokenValues | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two texts and their differences. specs, spans: words and shared colour scales by metric."""

    left: Side
    right: Side
    stretches: Sequence[Stretch]
    specs: Mapping[str, TokenMetricSpec] = field(default_factory=dict[str, TokenMetricSpec])
    spans: Mapping[str, ScaleSpan] = field(default_factory=dict[str, ScaleSpan])


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for in this run of the script.

    vs: what to compare with, "" to close the comparison, None for no change. metric: the metric that
    colours, "" for none, None for no change. picker: what the open menu lists, {"run", "step"}.
    """

    vs: str | None = None
    metric: str | None = None
    picker: Mapping[str, Any] | None = None


def _read(folder: Path, names: Sequence[str]) -> str:
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


_COMPONENT = component(
    "rollout_board_comparison",
    html=_read(_FOLDER, ["comparison.html"]).replace(
        "{text tools}", _read(_SHARED, ["text_tools.html"])
    ),
    css=_read(_SHARED, ("base.css", "controls.css"))
    + _read(_FOLDER, ("comparison.css", "menu.css")),
    js="\n".join(
        (
            _read(_SHARED / "js", [f"{name}.js" for name in _READER]),
            _read(_FOLDER / "js", [f"{name}.js" for name in _SCRIPTS]),
        )
    ),
    isolate_styles=True,
)


def comparison(
    content: Comparison,
    *,
    key: str,
    signature: str,
    metric: str = "",
    choices: Mapping[str, Any] | None = None,
) -> Asked:
    """Show two texts side by side; what the user asked for.

    Args:
        content: what is shown.
        key: Streamlit key, one per place on the page.
        signature: names the content: the view is built again when it changes, and only then.
        metric: name of the metric that colours tokens, empty for none.
        choices: content of the open menu, see `comparison_choices`; None while it is closed.

    Raises:
        ValueError: an array is not as long as its tokens.
    """
    names = dict.fromkeys(name for side in (content.left, content.right) for name in side.metrics)
    view = {
        "signature": signature,
        "metric": metric if metric in names else "",
        "choices": dict(choices) if choices is not None else None,
        "specs": [_spec(content, name) for name in names],
        "words": _words(content),
    }
    result: Any = _COMPONENT(
        key=key,
        data={**_tables(content), "view": view},
        on_vs_change=_nothing,
        on_metric_change=_nothing,
        on_picker_change=_nothing,
    )
    vs, picked = result.vs, result.metric
    return Asked(
        vs=vs if isinstance(vs, str) else None,
        metric=picked if isinstance(picked, str) else None,
        picker=result.picker if isinstance(result.picker, Mapping) else None,
    )


def _tables(content: Comparison) -> dict[str, pa.Table]:
    stretches = content.stretches
    tables = {
        "stretches": pa.table(
            {
                "left": pa.array([encodable(one.left) for one in stretches], pa.string()),
                # Equal text travels once.
                "right": pa.array(
                    ["" if one.is_equal else encodable(one.right) for one in stretches], pa.string()
                ),
                "equal": pa.array([one.is_equal for one in stretches], pa.bool_()),
                "aligned": pa.array([one.is_aligned for one in stretches], pa.bool_()),
            }
        )
    }
    for name, side in (("left", content.left), ("right", content.right)):
        tables[f"{name}_tokens"] = token_table(
            [encodable(token) for token in side.tokens], side.loss_mask
        )
        tables[f"{name}_metrics"] = metric_table(side.metrics, len(side.tokens))
    return tables


def _spec(content: Comparison, name: str) -> dict[str, Any]:
    known = [side.metrics[name] for side in (content.left, content.right) if name in side.metrics]
    spec = content.specs.get(name) or spec_for_unknown(name, _together(known))
    span = content.spans.get(name)
    return {"name": name, **asdict(spec), "span": asdict(span) if span else None}


def _together(values: Sequence[TokenValues | None]) -> TokenValues | None:
    held = [one for one in values if one is not None]
    return np.ma.concatenate(held) if held else None


def _words(content: Comparison) -> dict[str, Any]:
    left, right = content.left, content.right
    share = similarity(content.stretches)
    return {
        "left": left.title,
        "right": right.title,
        "leftFacts": left.facts,
        "rightFacts": right.facts,
        "onlyLeft": f"Only in {left.title.lower()}",
        "onlyRight": f"Only in {right.title.lower()}",
        "similarity": f"{percent(share)} equal",
        "similarityHelp": _SIMILARITY_HELP,
        "notice": _TOO_DIFFERENT if _is_unaligned(content.stretches, share) else "",
    }


def _is_unaligned(stretches: Sequence[Stretch], share: float) -> bool:
    is_long = sum(len(one.left) + len(one.right) for one in stretches) > _LONG
    return (is_long and share < _LITTLE_IN_COMMON) or not all(one.is_aligned for one in stretches)


def _nothing() -> None:
    """A state of the component exists only with a callback; the rerun itself is all we need."""
