"""The tokens of a response as text in the colours of one metric, each with its values in a title."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.analysis.rollout import OpenRollout
from board.core.arrays import BoolArray, FloatArray, with_length
from board.core.metrics.definitions import in_menu_order, token_metric
from board.core.metrics.shares import number
from board.core.texts.turns import of_tokens, without_gaps
from board.core.tokens.scales import Span
from board.export.colours import (
    ABSENT,
    NOT_A_NUMBER,
    SHADES,
    STRONGEST,
    Colours,
    colours_of,
    level_classes,
)
from board.export.page_text import html
from board.export.sheet import Room, Sheet, table

_MOST_TITLE_BYTES: Final = 1_700_000
"""Of the titles of one response."""
_BYTES_OF_VALUE: Final = 14
_LARGEST: Final = 12
_MOST_OTHERS: Final = 4
_CONTEXT_CHARACTERS: Final = 32
_ROLES: Final = ("user", "assistant", "tool", "response")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is shown of a response, [R] each.

    texts: redacted. metrics: by name, cut to R or filled with NaN. titled: those of them whose values
    stand in the titles, the first is that of the colours. colours: None where no metric is recorded.
    """

    opened: OpenRollout
    texts: Sequence[str]
    metrics: Mapping[str, FloatArray]
    titled: Sequence[str]
    colours: Colours | None
    in_loss: BoolArray


def tokens_of(
    sheet: Sheet,
    opened: OpenRollout,
    metric: str | None,
    spans: Mapping[str, Span] | None = None,
) -> Tokens:
    """The tokens of a rollout, coloured by a metric, or by the first one where it has not that.

    spans: by metric a scale that other rollouts share.
    """
    length = len(opened.tokens)
    metrics = {
        name: with_length(opened.metrics[name], length) for name in in_menu_order(opened.metrics)
    }
    chosen = metric if metric in metrics else next(iter(metrics), None)
    mask = metrics.get("loss_mask")
    in_loss = np.ones(length, bool) if mask is None else mask != 0
    colours, titled = None, list[str]()
    if chosen is not None:
        colours = colours_of(chosen, metrics[chosen], in_loss, (spans or {}).get(chosen))
        recorded = [name for name in metrics if name in opened.record.tokens]
        most = max(1, _MOST_TITLE_BYTES // (_BYTES_OF_VALUE * max(length, 1)))
        titled = list(dict.fromkeys((chosen, *recorded, *metrics)))[:most]
    return Tokens(opened, sheet.redaction.tokens(opened.tokens), metrics, titled, colours, in_loss)


def legend(sheet: Sheet, tokens: Tokens) -> str:
    """What the colours and the titles mean."""
    colours = tokens.colours
    if colours is None:
        return "<p class=mute>The log holds no values for these tokens.</p>"
    metric, classes = colours.metric, level_classes()
    name, formula = sheet.line(metric.label), sheet.line(metric.formula, 400)
    parts = [f'<b title="{formula}">{name}</b>']
    if colours.ends is not None:
        low, high = colours.sides
        within = range(max(low, -SHADES), min(high, SHADES) + 1, 3)
        levels = (*range(low, -SHADES), *within, *range(SHADES + 1, high + 1))
        ramp = "".join(f'<i class="{classes[level]}"></i>' for level in levels)
        first, last = colours.ends
        parts.append(f"<span class=ramp>{sheet.line(first)} {ramp} {sheet.line(last)}</span>")
    parts.append(f"<span class=mute>{sheet.line(colours.caption)}</span>")
    levels = {*colours.levels.tolist()}
    is_beyond = any(SHADES < abs(level) <= STRONGEST for level in levels)
    marks = [
        (classes[SHADES + 1], "beyond the range", is_beyond),
        ("o", "outside the loss, no colour", not tokens.in_loss.all()),
        ("n", "not recorded", ABSENT in levels),
        ("x", "not a number", NOT_A_NUMBER in levels),
    ]
    parts += [
        f"<span><i class={own}>a</i> {words}</span>" for own, words, is_there in marks if is_there
    ]
    names = ", ".join(sheet.line(own, 40) for own in tokens.titled)
    labels = "; ".join(_labelled(sheet, own) for own in tokens.titled)
    missing = [sheet.line(own, 40) for own in tokens.metrics if own not in tokens.titled]
    more = f" Left out there, to stay small: {', '.join(missing)}." if missing else ""
    words = f"<summary>On hover: position, {names}.{more}</summary>{labels}."
    return f"<div class=legend>{''.join(parts)}</div><details>{words}</details>"


def _labelled(sheet: Sheet, name: str) -> str:
    metric = token_metric(name)
    own = sheet.line(name, 40)
    return own if metric.label == name else f"{own} = {sheet.line(metric.label_with_unit)}"


def token_turns(
    sheet: Sheet,
    tokens: Tokens,
    room: Room,
    anchors: Mapping[int, str],
    differs: BoolArray | None = None,
    evidence: int | None = None,
) -> str:
    """The tokens under the roles that are known. anchors: ids of elements, by position. differs: [R],
    tokens that another text has not. evidence: a position that is marked.
    """
    spans = _spans(sheet, tokens, anchors, differs, evidence)
    sizes = np.cumsum([len(span) if span.isascii() else len(span.encode()) for span in spans])
    count = int(np.searchsorted(sizes, room.left - 500, side="right"))
    if count < len(spans):
        room.cut.append(f"{len(spans) - count:,} of {len(spans):,} tokens")
    record = tokens.opened.record
    turns = of_tokens(tokens.opened.tokens, record.segments, record.messages)
    parts = [
        turn_markup(sheet, turn.role, turn.name, f"<pre class=response>{own}</pre>")
        for turn in without_gaps(turns, len(spans), "response")
        if (own := "".join(spans[turn.start : min(turn.end, count)]))
    ]
    if count < len(spans):
        parts.append(f"<p class=note>{len(spans) - count:,} tokens more are left out.</p>")
    return room.take("".join(parts))


def turn_markup(sheet: Sheet, role: str, name: str, content: str, words: str = "") -> str:
    """A part under the role that it is of. words: markup after the role."""
    own = role if role in _ROLES else "system"
    called = f" · {sheet.line(name, 60)}" if name else ""
    after = f" <span class=mute>{words}</span>" if words else ""
    return f'<div class="turn {own}"><b>{sheet.line(role, 40)}{called}</b>{after}{content}</div>'


def _spans(
    sheet: Sheet,
    tokens: Tokens,
    anchors: Mapping[int, str],
    differs: BoolArray | None,
    evidence: int | None,
) -> list[str]:
    """The markup of each token, as short as can be: there may be many."""
    classes = _classes(tokens, differs, evidence)
    titles = _titles(sheet, tokens)
    spans: list[str] = []
    for i, (text, own, title) in enumerate(zip(tokens.texts, classes, titles, strict=True)):
        markup = html(text)
        if "\n" in markup:
            markup = markup.replace("\n", "<s></s>\n")
        anchor = f" id={anchors[i]}" if i in anchors else ""
        spans.append(f'<i{own}{anchor} title="{title}">{markup}</i>')
    return spans


def _classes(tokens: Tokens, differs: BoolArray | None, evidence: int | None) -> list[str]:
    """The attribute of each token."""
    names = level_classes()
    levels = [0] * len(tokens.texts) if tokens.colours is None else tokens.colours.levels.tolist()
    plain = [f" class={name}" if name else "" for name in names]
    result = [plain[level] for level in levels]
    others = [(~tokens.in_loss, "o")]
    others += [(differs, "d")] if differs is not None else []
    if evidence is not None:
        others.append((np.arange(len(levels)) == evidence, "e"))
    extra = np.zeros(len(levels), bool)
    for places, _ in others:
        extra |= places
    for i in np.flatnonzero(extra).tolist():
        own = [names[levels[i]], *(name for places, name in others if places[i])]
        result[i] = f' class="{" ".join(filter(None, own))}"'
    return result


def _titles(sheet: Sheet, tokens: Tokens) -> Sequence[str]:
    positions = map(str, range(len(tokens.texts)))
    columns = [
        [f"{label} {value}" for value in _three_digits(tokens.metrics[name])]
        for name, label in ((name, sheet.line(name, 40)) for name in tokens.titled)
    ]
    return ["\n".join(row) for row in zip(positions, *columns, strict=True)]


def _three_digits(values: FloatArray) -> list[str]:
    """[R] numbers as short as can be, "-" for NaN."""
    return ["-" if text == "nan" else text for text in map("%.3g".__mod__, values.tolist())]


def largest_tokens(
    sheet: Sheet, tokens: Tokens, anchor: Callable[[int], str]
) -> tuple[str, dict[int, str]]:
    """A table of the tokens in the loss that stand out most, and the ids of elements that it links to."""
    if tokens.colours is None:
        return "", {}
    has_colour = tokens.in_loss & (tokens.colours.levels != 0)
    strength = np.where(has_colour, tokens.colours.strength, 0.0)
    order = np.argsort(-strength, kind="stable")[:_LARGEST]
    places = [int(place) for place in order if strength[place] > 0]
    if not places:
        return "", {}
    metric = tokens.colours.metric
    named = dict.fromkeys((*tokens.titled, *tokens.metrics))
    others = [name for name in named if name not in (metric.name, "loss_mask")][:_MOST_OTHERS]
    heads = ["token", "text", "in context", sheet.line(metric.label_with_unit)]
    rows: list[list[str]] = []
    for place in places:
        before, after = _around(tokens.texts, place)
        own = sheet.line(tokens.texts[place], 40)
        context = f"{_muted(sheet, before)}{own}{_muted(sheet, after)}"
        values = [number(float(tokens.metrics[name][place])) for name in (metric.name, *others)]
        link = f"<a href=#{anchor(place)}>{place:,}</a>"
        rows.append([link, own, context, *values])
    numeric = (True, False, False, *[True] * (len(others) + 1))
    drawn = table([*heads, *(sheet.line(name, 30) for name in others)], rows, numeric)
    return f"<h3>Largest tokens</h3>{drawn}", {place: anchor(place) for place in places}


def _muted(sheet: Sheet, text: str) -> str:
    return f"<span class=mute>{sheet.line(text)}</span>"


def _around(texts: Sequence[str], place: int) -> tuple[str, str]:
    """What stands before and behind a token, a few words of it."""
    before = "".join(texts[max(place - 8, 0) : place])[-_CONTEXT_CHARACTERS:]
    return before, "".join(texts[place + 1 : place + 9])[:_CONTEXT_CHARACTERS]
