"""What a rule found, where to look and why; and the thresholds by which rules go."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import inf
from typing import Any, Final, Literal, cast, get_args

from board.core.metrics.shares import percent
from board.errors import ChoiceError

Severity = Literal["severe", "warning", "lead"]
"""severe: numbers of the run may be wrong, or training most likely fails. warning: a known sign of
trouble beyond its threshold. lead: worth a look."""
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A rollout, or a token of one. token: its position in the response; None for the whole rollout.

    piece: the token's text, or a few words about the rollout; it may hold what a model wrote.
    """

    step: int
    index: int
    token: int | None = None
    piece: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The place one click leads to. page: "rollout", "rollouts", "health", "groups", "environments",
    "mismatch", "tokens" or "failures"; metric: what to show there, of failures a cause, `lowest` values
    first if so. index: of a rollout; on the page of groups its group is the one that is opened. only: a
    type of token, "kind:CJK" or "piece:<eos>". env: an environment. written_again: the rollouts that a
    resume replaced.
    """

    page: str
    step: int | None = None
    index: int | None = None
    token: int | None = None
    metric: str = ""
    lowest: bool = False
    only: str = ""
    env: str = ""
    written_again: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found.

    step: where it is worst; first_step, last_step: of the steps that it holds for; None
    where it is not of a step. value and threshold: what was measured at `step`, and the bound it is
    beyond; unit in words. title: one line. text: what was seen and what it may mean, worded as a lead.
    source: of the rule and its threshold. evidence: the most telling first.

    strength: how far beyond the threshold, as a factor, times the square root of the number of steps.
    subject: what it is about where the rule can say the same of several things: an array, an
    environment, a part of the reward. periods: (worst, first, last step) of each period that it holds
    for, by step. cause: the rule of a finding that may have caused this one; empty without one.
    """

    rule: str
    severity: Severity
    title: str
    text: str
    step: int | None
    first_step: int | None
    last_step: int | None
    value: float | None
    threshold: float | None
    source: str
    target: Target
    unit: str = ""
    evidence: tuple[Evidence, ...] = ()
    strength: float = 1.0
    subject: str = ""
    periods: tuple[tuple[int, int, int], ...] = ()
    cause: str = ""

    @property
    def steps_text(self) -> str:
        """The steps that it holds for, in words; empty where it is not of a step."""
        return _steps_text(self.periods)

    @property
    def key(self) -> str:
        """The same for the same finding when a run has grown: its rule and its subject."""
        return f"{self.rule} {self.subject}".strip()

    def document(self) -> dict[str, Any]:
        """What is handed on of it, by FINDING_KEYS: to JSON, frames and agents under the same names."""
        values = asdict(self) | {"evidence": [asdict(one) for one in self.evidence]}
        return {name: values[name] for name in FINDING_KEYS}


FINDING_KEYS: Final = (
    *("severity", "rule", "subject", "title", "text", "step", "first_step", "last_step", "periods"),
    *("value", "threshold", "unit", "strength", "cause", "source", "evidence", "target"),
)
"""Fields of a Finding as they are handed on."""


_NAMED_PERIODS: Final = 4


def _steps_text(periods: Sequence[tuple[int, int, int]]) -> str:
    """Periods in words: "step 7", "steps 3 to 5", "steps 7, 30 to 41 and 90"."""
    spans = [str(low) if low == high else f"{low} to {high}" for _, low, high in periods]
    if not spans:
        return ""
    if len(spans) > _NAMED_PERIODS:
        spans = [*spans[: _NAMED_PERIODS - 1], f"{len(spans) - _NAMED_PERIODS + 1} other periods"]
    is_one = len(periods) == 1 and periods[0][1] == periods[0][2]
    words = " and ".join([", ".join(spans[:-1]), spans[-1]] if len(spans) > 1 else spans)
    return f"step {words}" if is_one else f"steps {words}"


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule yields: a Finding without what rules.toml says of all of the rule's.

    steps: the worst, the first and the last one. title, unit, source: in place of those of rules.toml.
    subject: as of a Finding. rollouts: how many it rests on, None where it is not of single rollouts: one
    alone makes a lead and no warning. excess: how far beyond the threshold, where that is not the ratio
    of the two.
    """

    severity: Severity
    text: str
    steps: tuple[int, int, int] | tuple[None, None, None]
    value: float
    threshold: float
    target: Target
    evidence: tuple[Evidence, ...] = ()
    title: str = ""
    unit: str = ""
    source: str = ""
    subject: str = ""
    rollouts: int | None = None
    excess: float | None = None

    def strength(self, steps: int) -> float:
        """As of a Finding that holds for so many steps."""
        excess = self.excess
        if excess is None:
            same_sign = self.value * self.threshold > 0
            ratio = abs(self.value / self.threshold) if same_sign else 1.0
            excess = max(ratio, 1 / ratio)
        return float(min(max(excess, 1.0), _MOST_EXCESS) * max(steps, 1) ** 0.5)


_MOST_EXCESS: Final = 1000.0
"""Beyond it a threshold is passed by far, however much."""
_SHARE: Final = "share of "
_NAMED: Final = ("mean ", "correlation")
"""Beginnings of units that are names of what was measured: they come before the number."""
_LONG: Final = 1e7
_COUNTED: Final = frozenset(("steps", "rollouts", "seconds"))


def in_words(value: float, unit: str) -> str:
    """A measured value or its threshold with its unit: a share as a percentage, else 4 digits."""
    if unit.startswith(_SHARE):
        return f"{percent(value)} of {unit.removeprefix(_SHARE)}"
    text = rounded(value, 4)
    if unit.startswith(_NAMED):
        return f"{unit} {text}"
    return f"{text} {unit.removesuffix('s') if value == 1 and unit in _COUNTED else unit}".strip()


def rounded(value: float, digits: int = 3) -> str:
    """A number for a sentence, at so many significant digits: 1,257 and not 1.26e+03."""
    return f"{value:,.0f}" if 10**digits - 0.5 <= abs(value) < _LONG else f"{value:.{digits}g}"


def first_index(evidence: Iterable[Evidence]) -> int | None:
    """The rollout that is looked at first; None without evidence."""
    return next((one.index for one in evidence), None)


_OF_THE_LOG: Final = frozenset(
    ("misaligned", "duplicated_rollouts", "missing_values", "unequal_arrays", "stopped_rank")
)
"""Rules about the log itself, on which all other numbers rest."""


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of one rule, severity, title and subject as one: the strongest, with the steps and some of
    the evidence of the others.
    """

    def same(one: Finding) -> tuple[str, ...]:
        return one.rule, one.severity, one.title, one.subject

    together: list[Finding] = []
    for _, group in groupby(sorted(findings, key=lambda one: (same(one), -one.strength)), same):
        first, *others = group
        if not others:
            together.append(first)
            continue
        periods = sorted({p for one in (first, *others) for p in one.periods}, key=lambda p: p[1])
        also = _steps_text(sorted((p for one in others for p in one.periods), key=lambda p: p[1]))
        evidence = (*first.evidence, *(e for one in others for e in one.evidence[:1]))
        together.append(
            replace(
                first,
                text=f"{first.text} Also at {also}." if also else first.text,
                first_step=min((low for _, low, _ in periods), default=None),
                last_step=max((high for _, _, high in periods), default=None),
                periods=tuple(periods),
                evidence=evidence,
            )
        )
    return together


def worst_first(
    findings: Iterable[Finding], effects: Mapping[str, Collection[str]]
) -> list[Finding]:
    """By severity, then those of the log itself, then by strength; a cause directly before its effects.

    effects: by rule the rules whose findings it may cause. One is the cause of another where both hold at
    some step; of several, the first of this order.
    """

    def rank(one: Finding) -> tuple[int, bool, float, float, str]:
        first = -inf if one.first_step is None else one.first_step
        is_of_log = one.rule in _OF_THE_LOG
        return SEVERITIES.index(one.severity), not is_of_log, -one.strength, first, one.rule

    ranked = sorted(findings, key=rank)
    ordered: list[Finding] = []
    placed: set[int] = set()

    def place(at: int, chain: frozenset[int]) -> None:
        if at in placed or at in chain:
            return
        own = ranked[at]
        causes = [
            i
            for i, other in enumerate(ranked)
            if own.rule in effects.get(other.rule, ()) and _overlap(other, own)
        ]
        for i in causes:
            place(i, chain | {at})
        placed.add(at)
        ordered.append(replace(own, cause=ranked[causes[0]].rule if causes else ""))

    for at in range(len(ranked)):
        place(at, frozenset())
    return ordered


def _overlap(one: Finding, other: Finding) -> bool:
    """Whether both hold at some step; what is of no step holds for the run."""
    if not (one.periods and other.periods):
        return True
    return any(
        low <= high_ and low_ <= high
        for _, low, high in one.periods
        for _, low_, high_ in other.periods
    )


Limits = Mapping[str, float]
Thresholds = Mapping[str, Limits]


def parse(text: str) -> dict[str, dict[str, float]]:
    """Tables of numbers by rule; enabled = false becomes 0. Raises ChoiceError on anything else."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChoiceError(f"the thresholds are not TOML: {error}") from None
    tables: dict[str, dict[str, float]] = {}
    for rule, table in document.items():
        if not isinstance(table, dict):
            raise ChoiceError(f"{rule} is not a table; expected [{rule}] with numbers under it")
        tables[rule] = {}
        for name, value in cast("dict[str, object]", table).items():
            if not isinstance(value, int | float):
                raise ChoiceError(f"[{rule}] {name} is {value!r}; expected a number, true or false")
            tables[rule][name] = float(value)
    return tables


def changed(defaults: Thresholds, own: Thresholds) -> dict[str, dict[str, float]]:
    """The defaults with what `own` changes. Raises ChoiceError on a rule or a name that is not there."""
    result = {rule: dict(table) for rule, table in defaults.items()}
    for rule, table in own.items():
        if rule not in result:
            raise ChoiceError(f"there is no rule {rule!r}; {_hint(rule, result)}")
        for name, value in table.items():
            if name not in result[rule] and name != "enabled":
                raise ChoiceError(f"[{rule}] has no {name!r}; {_hint(name, result[rule])}")
            result[rule][name] = value
    return result


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {', '.join(close)}?" if close else f"there are: {', '.join(known)}"
