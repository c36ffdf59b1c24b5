"""Two texts side by side, aligned, with what differs between them marked.

The menu that chooses what to compare with is `js/menu.js` and `menu.css`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from board.components import declare, only_rerun, read_files
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
from board.core.texts.diff import Change, similarity

Fact = tuple[str, str, str]
"""Label, value, and the difference to the other side's value; label and difference may be empty."""

_FOLDER: Final = Path(__file__).parent
_READER_SCRIPTS: Final = (
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
_LONG_CHARACTERS: Final = 2_000
_LEAST_SHARE: Final = 0.02


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
    stretches: Sequence[Change]
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


_COMPONENT = declare(
    "comparison",
    _FOLDER,
    read_files(_FOLDER, ["comparison.html"]).replace(
        "{text tools}", read_files(_FOLDER, ["../reader/text_tools.html"])
    ),
    css=["../reader/base.css", "../reader/controls.css", "comparison.css", "menu.css"],
    js=[
        *(f"../reader/js/{name}.js" for name in _READER_SCRIPTS),
        *(f"js/{name}.js" for name in _SCRIPTS),
    ],
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

    signature: names the content: the view is built again when it changes, and only then. metric: name of
    the metric that colours tokens, empty for none. choices: content of the open menu, see
    the menu of `views.rollouts.comparison`; None while it is closed.

    Raises ValueError where an array is not as long as its tokens.
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
        on_vs_change=only_rerun,
        on_metric_change=only_rerun,
        on_picker_change=only_rerun,
    )
    return Asked(
        vs=result.vs if isinstance(result.vs, str) else None,
        metric=result.metric if isinstance(result.metric, str) else None,
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
    arrays = [side.metrics.get(name) for side in (content.left, content.right)]
    known = [values for values in arrays if values is not None]
    values = np.ma.concatenate(known) if known else None
    spec = content.specs.get(name) or spec_for_unknown(name, values)
    span = content.spans.get(name)
    return {"name": name, **asdict(spec), "span": asdict(span) if span else None}


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


def _is_unaligned(stretches: Sequence[Change], share: float) -> bool:
    is_long = sum(len(one.left) + len(one.right) for one in stretches) > _LONG_CHARACTERS
    return (is_long and share < _LEAST_SHARE) or not all(one.is_aligned for one in stretches)
