"""What contributes most to a metric at a step, as tables of an exported page: kinds, types and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from board.analysis.spike import Spike
from board.core.metrics.definitions import rollout_metric, token_metric
from board.core.metrics.shares import number, percent
from board.core.tokens.contributions import Contributions, TokenShare, TypeShare, whole
from board.core.tokens.pieces import KINDS
from board.export.sheet import Sheet

_MOST_TOKENS: Final = 20
_MOST_TYPES: Final = 20
_AROUND: Final = 8
"""Tokens before and after one, so that it is read in its place."""


def add_contributions(sheet: Sheet, spike: Spike | None, column: str) -> None:
    """Adds the kinds of tokens by what they contribute to a column's mean, and the first of the types and
    of the tokens, with of how many they are the first. spike: of the column; None where none is known.
    """
    metric = rollout_metric(column)
    label = sheet.line(metric.label)
    sheet.add(f"<h3>What contributes to {label}</h3>")
    if spike is None or spike.headline is None:
        sheet.add(f"<p>No token of this step contributes to {label}.</p>")
        return
    own = spike.contributions
    count = int(own.counted.sum())
    mean = f"{number(own.mean, metric.unit)} {sheet.line(metric.unit)}".strip()
    words = (
        f"The mean over {own.rollouts:,} rollouts, {mean}, by what its {count:,} tokens add to it."
    )
    missing = f" {own.tokens.left_out:,} rollouts could not be read." if own.tokens.left_out else ""
    of = "that mean" if whole(own) == own.mean else "the sizes of all, as signs differ"
    sheet.add(f"<p class=mute>{words}{missing} Shares are of {of}.</p>")
    _add_types(sheet, own, "kind", spike.kinds)
    sheet.add("<h3>Types of tokens</h3>")
    _add_types(sheet, own, "token type", own.by("piece"))
    sheet.add("<h3>Tokens</h3>")
    _add_tokens(sheet, own, own.top_tokens(_MOST_TOKENS), count)


def _add_types(sheet: Sheet, own: Contributions, what: str, types: Sequence[TypeShare]) -> None:
    total, count = whole(own), max(int(own.counted.sum()), 1)
    unit = token_metric(own.metric).unit
    rows = [
        [
            sheet.line(_with_spaces(sheet, one.name) or "not known", 60),
            percent(one.contribution / total),
            f"{one.count:,}",
            percent(one.count / count),
            number(one.mean, unit),
        ]
        for one in types[:_MOST_TYPES]
    ]
    heads = (what, "share", "tokens", "of all tokens", f"mean{f', {unit}' if unit else ''}")
    sheet.table(heads, rows, (False, *[True] * 4), len(types))


def _with_spaces(sheet: Sheet, piece: str) -> str:
    """A token with its spaces seen: one that begins with a space is another token."""
    return sheet.redaction.text(piece).replace(" ", "␣") if piece not in KINDS else piece


def _add_tokens(sheet: Sheet, own: Contributions, tokens: Sequence[TokenShare], count: int) -> None:
    """The tokens in their places: the one that is meant stands between ⟦ and ⟧."""
    total, unit = whole(own), token_metric(own.metric).unit
    texts = {index: _redacted(sheet, own, index) for index in {one.index for one in tokens}}
    rows = [
        [
            f"{own.tokens.step}:{one.index}",
            str(one.position),
            sheet.line(_in_place(texts[one.index], one.position)),
            sheet.line(one.kind),
            number(one.value, unit),
            percent(one.contribution / total),
        ]
        for one in tokens
    ]
    value = f"value{f', {unit}' if unit else ''}"
    heads = ("step:rollout", "token", "in its place", "kind", value, "share")
    sheet.table(heads, rows, (True, True, False, False, True, True), count)


def _redacted(sheet: Sheet, own: Contributions, index: int) -> list[str]:
    """The tokens of a rollout, redacted all together: a match may span those that are shown."""
    tokens = own.tokens
    place = int(np.flatnonzero(tokens.indices == index)[0])
    start, end = int(tokens.starts[place]), int(tokens.starts[place + 1])
    return sheet.redaction.tokens([tokens.piece(at) for at in range(start, end)])


def _in_place(texts: Sequence[str], at: int) -> str:
    before, after = texts[max(at - _AROUND, 0) : at], texts[at + 1 : at + 1 + _AROUND]
    return f"{''.join(before)}⟦{texts[at]}⟧{''.join(after)}"
