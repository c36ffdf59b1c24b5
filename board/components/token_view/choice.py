"""Who spoke last: the caller, who asks for a metric and a pin, or the user, who chose in the browser.

Both sides remember what they said, so neither value alone tells which one is newer. What counts is
which of them changed since the run before.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Final, Literal

Over = Literal["rollout", "step"]
OVER: Final[tuple[Over, ...]] = ("rollout", "step")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A metric's name and a pinned token's index, None for none; what the colour scale is over."""

    metric: str | None
    pinned: int | None
    over: Over = "rollout"


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
    *,
    names: Set[str],
    count: int,
) -> Choice:
    """What to show now.

    Args:
        before: the choice of the run before, None on the first.
        signature: of the content shown now; reports about other content are left out.
        wanted: what the caller asks for.
        state: the component's state, {"metric" | "pinned" | "over": {"signature", "value"}}, not
            trusted.
        names: metrics on offer.
        count: number of tokens.

    Returns:
        The choice; `shown` is what is wanted where the content is new. After that it takes a report
        where that is new, else the wish where that is new, else what was shown before.
    """
    reported = _valid_reports(state, signature, names, count)
    if before is None or before.signature != signature:
        # The browser has not shown this content yet: a report about it is of an earlier visit.
        return Choice(signature, wanted, reported, wanted)
    news = {
        name: value
        for name, value in reported.items()
        if name not in before.reported or before.reported[name] != value
    }
    asked = Chosen(
        metric=wanted.metric if wanted.metric != before.wanted.metric else before.shown.metric,
        pinned=wanted.pinned if wanted.pinned != before.wanted.pinned else before.shown.pinned,
        over=wanted.over if wanted.over != before.wanted.over else before.shown.over,
    )
    return Choice(signature, wanted, reported, _merged(asked, news))


def _merged(base: Chosen, reports: Mapping[str, Any]) -> Chosen:
    return Chosen(
        metric=reports.get("metric", base.metric),
        pinned=reports.get("pinned", base.pinned),
        over=reports.get("over", base.over),
    )


def _valid_reports(
    state: Mapping[str, Any], signature: str, names: Set[str], count: int
) -> dict[str, Any]:
    """The reports about this content whose values exist; anything can come from a browser."""
    values: dict[str, Any] = {}
    for name in ("metric", "pinned", "over"):
        report = state.get(name)
        if isinstance(report, Mapping) and report.get("signature") == signature:
            values[name] = report.get("value")
    if "metric" in values and not (isinstance(values["metric"], str) and values["metric"] in names):
        del values["metric"]
    if "over" in values and values["over"] not in OVER:
        del values["over"]
    if "pinned" in values and not _is_token(values["pinned"], count):
        del values["pinned"]
    return values


def _is_token(value: object, count: int) -> bool:
    if value is None:
        return True
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
