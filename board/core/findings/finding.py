"""What a rule found, where to look and why; and the thresholds by which rules go."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from board.core.metrics.shares import percent
from board.errors import ChoiceError

Severity = Literal["severe", "warning", "lead"]
"""severe: numbers of the run may be wrong, or training most likely fails. warning: a known sign of
trouble beyond its threshold. lead: worth a look."""
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A rollout, or a token of one. position: of the token in the response; None for the whole rollout.

    piece: the token's text, or a few words about the rollout; it may hold what a model wrote.
    """

    step: int
    index: int
    position: int | None = None
    piece: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The place one click leads to. page: "rollout", "rollouts", "health", "groups", "environments",
    "mismatch" or "tokens"; metric: what to show there, `lowest` values first if so. index: of a rollout;
    on the page of groups its group is the one that is opened. only: a type of token, "kind:CJK" or
    "piece:<eos>". env: an environment. written_again: the rollouts that a resume replaced.
    """

    page: str
    step: int | None = None
    index: int | None = None
    position: int | None = None
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

    @property
    def steps_text(self) -> str:
        """The steps that it holds for, in words; empty where it is not of a step."""
        if self.first_step is None:
            return ""
        if self.first_step == self.last_step:
            return f"step {self.first_step}"
        return f"steps {self.first_step} to {self.last_step}"


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule yields: a Finding without what rules.toml says of all of the rule's.

    steps: the worst, the first and the last one. title, unit, source: in place of those of rules.toml.
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


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """By severity, then those of the log itself, on which all other numbers rest; then how early it
    began, then by rule.
    """

    def rank(one: Finding) -> tuple[int, bool, int, str]:
        first = -1 if one.first_step is None else one.first_step
        return SEVERITIES.index(one.severity), one.rule not in _OF_THE_LOG, first, one.rule

    return sorted(findings, key=rank)


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
