"""Who spoke last: the caller, who asks for a metric and a pin, or the user, who chose in the browser.

Both sides remember what they said, so neither value alone tells which one is newer. What counts is
which of them changed since the run before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import suppress
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
    offer: Offer,
) -> Choice:
    """What to show now: what is wanted where the content is new, else the news of either side.

    A report that is new wins over a wish that is new; without either it stays as it was.

    before: the choice of the run before, None on the first. signature: of the content shown now; reports
    about other content are left out. wanted: what the caller asks for, valid. state: of the component,
    {field of Chosen: {"signature", "value"}}, not trusted. offer: what there is to choose from.
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
    return Choice(signature, wanted, reported, replace(before.current, **{**wishes, **news}))


def fitting(chosen: Chosen, offer: Offer) -> Chosen:
    """The choice with what this rollout does not offer at its default."""
    wrong: dict[str, Any] = {}
    for name in ("metric", "pinned", "strip", "zoom"):
        try:
            _CHECKS[name](getattr(chosen, name), offer)
        except ValueError:
            wrong[name] = None
    return replace(chosen, **wrong)


def _valid_reports(state: Mapping[str, Any], signature: str, offer: Offer) -> dict[str, Any]:
    """The reports about this content whose values exist; anything can come from a browser."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        report: Any = state.get(name)
        if isinstance(report, Mapping) and report.get("signature") == signature:
            with suppress(ValueError):
                values[name] = _CHECKS[name](report.get("value"), offer)
    return values


def _metric(value: object, offer: Offer) -> str:
    if isinstance(value, str) and value in offer.names:
        return value
    raise ValueError("no such metric")


def _token(value: object, offer: Offer) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < offer.count:
        return value
    raise ValueError("no index of a token")


def _one_of(*allowed: object) -> Callable[[object, Offer], Any]:
    def check(value: object, offer: Offer) -> Any:
        for one in allowed:
            if type(value) is type(one) and value == one:
                return one
        raise ValueError(f"not one of {allowed}")

    return check


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
    "over": _one_of(*OVER),
    "strip": _or_none(_metric),
    "masks": _or_none(lambda value, offer: chosen_masks(value)),
    "zoom": _or_none(_zoom),
    "heat": _one_of(False, True),
    "raw": _one_of(False, True),
    "read": _one_of("tokens", "text"),
}
