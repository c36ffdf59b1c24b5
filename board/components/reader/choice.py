"""Who spoke last: the caller, who asks for a metric and a pin, or the user, who chose in the browser.

Both sides remember what they said, so neither value alone tells which one is newer. What counts is
which of them changed since the run before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from board.components.token_data import TokenContent
from board.core.tokens.masks import ChosenMasks, chosen_masks


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


def latest(
    before: Choice | None,
    signature: str,
    wanted: Chosen,
    state: Mapping[str, Any],
    content: TokenContent,
) -> Choice:
    """What to show now: what is wanted where the content is new, else the news of either side.

    A report that is new wins over a wish that is new; without either it stays as it was.

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


def fitting(chosen: Chosen, content: TokenContent) -> Chosen:
    """The choice with what this rollout does not offer at its default."""
    names = ("metric", "pinned", "strip", "zoom")
    wrong = [name for name in names if not _fits(name, getattr(chosen, name), content)]
    return replace(chosen, **dict.fromkeys(wrong))


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
