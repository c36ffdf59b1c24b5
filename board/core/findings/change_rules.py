"""What changes in a run, of all its series at once: those that change at one step are one event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Limits, Match, Severity, Target, first_index
from board.core.findings.series import Changes, Series
from board.core.groups.statistics import correctness_column
from board.core.metrics.change_points import Change
from board.core.metrics.definitions import REWARD_PART
from board.core.metrics.shares import number

_TOGETHER: Final = 2
"""Steps that changes of one event are apart, at most: each is dated with an error."""
_MOST_NAMED: Final = 4
_LONGEST_NAME: Final = 120
_STEADY: Final = (
    "response_tokens",
    "response_chars",
    "entropy_mean",
    "k3_mean",
    "mismatch_kl_mean",
)
"""Columns of which a sentence says that they do not move."""
_MOST_EVENTS: Final = 12
Pair = tuple[Series, Change]


@dataclass(frozen=True, slots=True)
class Event:
    """Changes of one step, the most telling first. place: of the step; still: what does not move."""

    place: int
    pairs: Sequence[Pair]
    still: Sequence[Series]

    @property
    def first(self) -> Pair:
        """What it is named after."""
        return self.pairs[0]

    @property
    def inputs(self) -> list[Pair]:
        """Changes of what the policy is given."""
        return [pair for pair in self.pairs if pair[0].is_input]


def change(facts: Facts, limits: Limits) -> Iterator[Match]:
    """The level, the spread or the slope of any series changes at a step, beyond how it wanders.

    Series: means over all rollouts, by environment and by rank, what rollouts are made of, scalars.
    """
    ranked = sorted(events(facts.changes()), key=lambda one: -abs(one.first[1].z))
    for event in ranked[:_MOST_EVENTS]:
        step = int(facts.steps[event.place])
        series, own = event.first
        severity = _severity(event, limits)
        fell = _worse(event.first)
        evidence = _evidence(facts, step, event.first)
        text = f"From step {step}: {_sentence(event)}{_explained(event)}"
        yield Match(
            severity,
            text,
            (step, step, step),
            own.after,
            own.before,
            _target(series, step, first_index(evidence), lowest=fell and series.better == "up"),
            evidence,
            title=_title(event),
            unit=series.words,
            subject=f"step {step}",
            excess=max(abs(own.z) / limits["z"], 1.0),
        )


def events(hits: Changes) -> list[Event]:
    """Changes by their step, those within _TOGETHER of the strongest one together; by step."""
    pairs = [(hits.series[one.series], one) for one in hits.hits]
    pairs.sort(key=lambda pair: -abs(pair[1].z))
    groups: list[list[Pair]] = []
    for pair in pairs:
        near = [g for g in groups if abs(g[0][1].place - pair[1].place) <= _TOGETHER]
        if near:
            near[0].append(pair)
        else:
            groups.append([pair])
    return sorted((_event(group, hits.series) for group in groups), key=lambda one: one.place)


def _event(group: Sequence[Pair], every: Sequence[Series]) -> Event:
    moved = {series.key for series, _ in group}
    still = [s for s in every if s.name in _STEADY and not s.scope and s.key not in moved]
    ordered = sorted(group, key=lambda pair: (_rank(pair[0], pair[1]), -abs(pair[1].z)))
    return Event(group[0][1].place, ordered, still)


def _rank(series: Series, own: Change) -> int:
    """What an event is named after: the reward, its parts, other means, then what it is made of."""
    if own.kind == "spread":
        return 9
    kinds = (series.column == "reward", series.column.startswith(REWARD_PART), bool(series.column))
    first = kinds.index(True) if any(kinds) else 3
    is_mean = series.name == series.column or series.name == "engine"
    return first + (3 if series.scope else 0) + (0 if is_mean else 4)


def _worse(pair: Pair) -> bool:
    series, own = pair
    if own.kind == "spread":
        return False
    return own.after < own.before if series.better == "up" else own.after > own.before


def _lost(pair: Pair) -> float:
    """The part of a positive level that is lost; 0 where nothing is."""
    _, own = pair
    return (own.before - own.after) / own.before if own.before > 0 else 0.0


def _severity(event: Event, limits: Limits) -> Severity:
    """A warning where the reward or a part of it loses a good part, or sampler and trainer part; a lead
    where the data changed with it, which may be planned.
    """
    bad = [
        p for p in event.pairs if abs(p[1].z) >= limits["z"] and p[1].kind == "level" and _worse(p)
    ]
    falls = [
        p for p in bad if p[0].better == "up" and _is_reward(p[0]) and _lost(p) >= limits["warning"]
    ]
    parts = [p for p in bad if p[0].name == "engine"]
    if not (falls or parts) or event.inputs:
        return "lead"
    worst = max(
        (_lost(p) for p in falls if p[0].column == "reward" and not p[0].scope), default=0.0
    )
    return "severe" if worst >= limits["severe"] else "warning"


def _is_reward(series: Series) -> bool:
    is_part = correctness_column([series.column]) is not None
    return series.name == series.column and (series.column == "reward" or is_part)


def _title(event: Event) -> str:
    series, own = event.first
    name = series.words[:1].upper() + series.words[1:_LONGEST_NAME]
    # A scope without a value, as kinds of token have, is in the words already.
    of = f" of {series.scope} {series.value}" if series.value else ""
    if own.kind == "slope":
        return f"{name}{of} begins to {'fall' if own.after < own.before else 'grow'}"
    if own.kind == "spread":
        return f"{name}{of} varies {'more' if own.after > own.before else 'less'} from step to step"
    return f"{name}{of} {'falls' if own.after < own.before else 'rises'} at one step"


def _sentence(event: Event) -> str:
    """Each change once, with the environments and ranks in which it is seen."""
    sayings: dict[tuple[str, str], list[Pair]] = {}
    for pair in event.pairs:
        sayings.setdefault((pair[0].name, pair[1].kind), []).append(pair)
    named = [_change_words(pairs) for pairs in [*sayings.values()][:_MOST_NAMED]]
    more = len(sayings) - len(named)
    words = "; ".join(named) + (f"; and {more} more" if more > 0 else "")
    still = [series.words for series in event.still][:_MOST_NAMED]
    if still:
        listed = " and ".join(filter(None, (", ".join(still[:-1]), still[-1])))
        words += f"; {listed} {'does' if len(still) == 1 else 'do'} not move"
    return f"{words}."


def _change_words(pairs: Sequence[Pair]) -> str:
    whole = [pair for pair in pairs if not pair[0].scope]
    series, own = (whole or pairs)[0]
    name = series.words[:_LONGEST_NAME]
    levels = f"{number(own.before)} to {number(own.after)}"
    words = {
        "level": f"{name} {levels}",
        "spread": f"noise of {name} {levels}",
        "slope": f"{name} {'grows' if own.after > own.before else 'sinks'} from {levels}",
    }[own.kind]
    for scope, many in (("env", "environments"), ("rank", "ranks")):
        values = [pair[0].value for pair in pairs if pair[0].scope == scope]
        if len(values) > 1 or (values and whole):
            words += (
                f" (in {len(values)} {many})" if len(values) > 1 else f" (in {scope} {values[0]!r})"
            )
        elif values:
            words += f" in {scope} {values[0]!r}"
    return words if whole else f"{words}; over all it does not move"


def _explained(event: Event) -> str:
    names = [pair[0].words for pair in event.inputs if pair is not event.first][:_MOST_NAMED]
    if not names:
        return ""
    listed = ", ".join(dict.fromkeys(names))
    return f" What the policy is given changes at the same step ({listed}): data, template or curriculum?"


def _target(series: Series, step: int, index: int | None, *, lowest: bool) -> Target:
    if series.scope == "env":
        return Target("environments", step, metric=series.column, env=series.value)
    if series.column:
        return Target("rollouts", step, index, metric=series.column, lowest=lowest)
    return Target("rollouts", step, index)


def _evidence(facts: Facts, step: int, pair: Pair) -> tuple[Evidence, ...]:
    """The rollouts of the step in which the change is seen most."""
    series, own = pair
    if not series.column or own.kind == "spread":
        return ()
    among = None
    if series.scope == "env" and facts.env_rewards is not None:
        names = [*facts.env_rewards.names]
        if series.value in names:
            among = facts.rows_of(step).read_envs() == names.index(series.value)
    return facts.top(step, series.column, lowest=own.after < own.before, among=among)
