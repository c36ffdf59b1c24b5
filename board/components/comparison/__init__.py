"""Two texts side by side, aligned, with what differs between them marked.

The menu that chooses what to compare with is `js/menu.js` and `menu.css`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from board.components import declare, read_files, reruns
from board.components.token_data import (
    TokenValues,
    encodable,
    metric_table,
    spec_list,
    token_table,
)
from board.core.metrics.definitions import Metric
from board.core.metrics.shares import percent
from board.core.texts.diff import Change, similarity
from board.core.tokens.scales import Span

Fact = tuple[str, str, str]
"""Label, value, and the difference to the other side's value; label and difference may be empty."""

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
    """One of the two texts. title: what it is. tokens: [R] display texts which joined are the text, empty
    where it has no tokens. metrics: name -> [R] numbers, see `TokenContent`.
    """

    title: str
    facts: Sequence[Fact] = ()
    tokens: Sequence[str] = ()
    metrics: Mapping[str, TokenValues] = field(default_factory=dict[str, TokenValues])


_COMPONENT = declare(
    __file__,
    "comparison",
    read_files(__file__, ["comparison.html"]).replace(
        "{text tools}", read_files(__file__, ["../reader/text_tools.html"])
    ),
    css=["../reader/base.css", "../reader/controls.css", "comparison.css", "menu.css"],
    js=[
        "../keys.js",
        *(f"../reader/js/{name}.js" for name in _READER_SCRIPTS),
        *(f"js/{name}.js" for name in _SCRIPTS),
    ],
)


def comparison(
    left: Side,
    right: Side,
    changes: Sequence[Change],
    *,
    key: str,
    signature: str,
    metric: str,
    specs: Mapping[str, Metric],
    spans: Mapping[str, Span],
    menu: Mapping[str, Any] | None,
) -> tuple[str | None, str | None]:
    """Shows two texts side by side.

    signature: names the content: the view is built again when it changes, and only then. metric: what
    colours the tokens, empty for none. specs, spans: words and shared colour scales by metric. menu:
    content of the menu "Compare with", None while it is closed.

    Returns what the user asked for in this run of the script: what to compare with, "" to close the
    comparison, and the metric that colours, "" for none; None for no change.
    """
    values = {
        name: np.ma.concatenate([one.metrics[name] for one in (left, right) if name in one.metrics])
        for name in dict.fromkeys((*left.metrics, *right.metrics))
    }
    share = similarity(changes)
    is_long = sum(len(one.left) + len(one.right) for one in changes) > _LONG_CHARACTERS
    is_unaligned = (is_long and share < _LEAST_SHARE) or not all(one.is_aligned for one in changes)
    view = {
        "signature": signature,
        "metric": metric if metric in values else "",
        "choices": menu,
        "specs": spec_list(values, specs, spans),
        "words": {
            "left": left.title,
            "right": right.title,
            "leftFacts": left.facts,
            "rightFacts": right.facts,
            "onlyLeft": f"Only in {left.title.lower()}",
            "onlyRight": f"Only in {right.title.lower()}",
            "similarity": f"{percent(share)} equal",
            "similarityHelp": _SIMILARITY_HELP,
            "notice": _TOO_DIFFERENT if is_unaligned else "",
        },
    }
    tables = {
        "stretches": _changes_table(changes),
        "left_tokens": _tokens_table(left),
        "left_metrics": metric_table(left.metrics, len(left.tokens)),
        "right_tokens": _tokens_table(right),
        "right_metrics": metric_table(right.metrics, len(right.tokens)),
    }
    callbacks = reruns("vs", "metric", "picker")
    result: Any = _COMPONENT(key=key, data={**tables, "view": view}, **callbacks)
    vs, chosen = (one if isinstance(one, str) else None for one in (result.vs, result.metric))
    return vs, chosen


def _tokens_table(side: Side) -> pa.Table:
    return token_table([encodable(token) for token in side.tokens], side.metrics.get("loss_mask"))


def _changes_table(changes: Sequence[Change]) -> pa.Table:
    # Equal text travels once.
    right = ["" if one.is_equal else encodable(one.right) for one in changes]
    return pa.table(
        {
            "left": pa.array([encodable(one.left) for one in changes], pa.string()),
            "right": pa.array(right, pa.string()),
            "equal": pa.array([one.is_equal for one in changes], pa.bool_()),
            "aligned": pa.array([one.is_aligned for one in changes], pa.bool_()),
        }
    )
