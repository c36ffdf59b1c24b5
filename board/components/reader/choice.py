"""Who spoke last: the caller, who asks for a metric and a pin, or the user, who chose in the browser.

Both sides remember what they said, so neither value alone tells which one is newer. What counts is
which of them changed since the run before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, cast

from board.core.tokens.masks import ChosenMasks, chosen_masks

Over = Literal["rollout", "step"]
Read = Literal["", "tokens", "text"]
OVER: Final[tuple[Over, ...]] = ("rollout", "step")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a user can choose in the reader, and would pass on to somebody else.

    metric: name of the metric that colours, None for the first. pinned: index of the pinned token, None
    for none. over: what the colour scale is over. strip: name of the strip chart's second metric, None
    for none. masks: the what-if masks, None where their drawer is closed. zoom: first and last token
    that strip and heat map span, None for the whole response. heat: whether all metrics are drawn over
    the position. raw: whether the record of the log is shown. read: tokens or text where both are
    recorded, "" for what suits the rollout.
    """

    metric: str | None = None
    pinned: int | None = None
    over: Over = "rollout"
    strip: str | None = None
    masks: ChosenMasks | None = None
    zoom: tuple[int, int] | None = None
    heat: bool = False
    raw: bool = False
    read: Read = ""


FIELDS: Final = tuple(field.name for field in fields(Chosen))


@dataclass(frozen=True, slots=True)
class Offer:
    """What can be chosen: names of metrics, and the number of tokens."""

    names: Set[str]
    count: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One run's state: what was wanted, what was reported, and what was shown because of them."""

    signature: str
    wanted: Chosen
    reported: Mapping[str, Any]
    shown: Chosen


def latest(
    before: Choice | None,
    signature: str,
    wanted: Chosen,
    state: Mapping[str, Any],
    offer: Offer,
) -> Choice:
    """What to show now.

    Args:
        before: the choice of the run before, None on the first.
        signature: of the content shown now; reports about other content are left out.
        wanted: what the caller asks for, valid.
        state: the component's state, {field of Chosen: {"signature", "value"}}, not trusted.
        offer: what there is to choose from.

    Returns:
        The choice; `shown` is what is wanted where the content is new. After that it takes a report
        where that is new, else the wish where that is new, else what was shown before.
    """
    reported = _valid_reports(state, signature, offer)
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
    return Choice(signature, wanted, reported, replace(before.shown, **{**wishes, **news}))


def fitting(chosen: Chosen, offer: Offer) -> Chosen:
    """The choice with what this rollout does not offer at its default."""
    kept: dict[str, Any] = {
        "over": chosen.over,
        "masks": chosen.masks,
        "heat": chosen.heat,
        "raw": chosen.raw,
        "read": chosen.read,
    }
    for name in ("metric", "pinned", "strip", "zoom"):
        try:
            kept[name] = _CHECKS[name](getattr(chosen, name), offer)
        except ValueError:
            continue
    return Chosen(**kept)


def _valid_reports(state: Mapping[str, Any], signature: str, offer: Offer) -> dict[str, Any]:
    """The reports about this content whose values exist; anything can come from a browser."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        report = state.get(name)
        if not isinstance(report, Mapping):
            continue
        said = cast("Mapping[str, Any]", report)
        if said.get("signature") == signature:
            try:
                values[name] = _CHECKS[name](said.get("value"), offer)
            except ValueError:
                continue
    return values


def _metric(value: object, offer: Offer) -> str:
    if isinstance(value, str) and value in offer.names:
        return value
    raise ValueError("no such metric")


def _token(value: object, offer: Offer) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < offer.count:
        return value
    raise ValueError("no index of a token")


def _over(value: object, offer: Offer) -> str:
    if value in OVER:
        return str(value)
    raise ValueError("neither rollout nor step")


def _flag(value: object, offer: Offer) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("neither true nor false")


def _read(value: object, offer: Offer) -> str:
    if value in ("tokens", "text"):
        return str(value)
    raise ValueError("neither tokens nor text")


def _masks(value: object, offer: Offer) -> ChosenMasks:
    return chosen_masks(value)


def _zoom(value: object, offer: Offer) -> tuple[int, int]:
    ends = cast("list[object]", value) if isinstance(value, list | tuple) else []
    if len(ends) != 2:
        raise ValueError("not two tokens")
    first, last = _token(ends[0], offer), _token(ends[1], offer)
    if first >= last:
        raise ValueError("not from a token to a later one")
    return first, last


def _or_none(check: Callable[[object, Offer], Any]) -> Callable[[object, Offer], Any]:
    return lambda value, offer: None if value is None else check(value, offer)


_CHECKS: Final[Mapping[str, Callable[[object, Offer], Any]]] = {
    "metric": _metric,
    "pinned": _or_none(_token),
    "over": _over,
    "strip": _or_none(_metric),
    "masks": _or_none(_masks),
    "zoom": _or_none(_zoom),
    "heat": _flag,
    "raw": _flag,
    "read": _read,
}
