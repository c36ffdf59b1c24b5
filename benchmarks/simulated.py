"""What a simulation says of an interval or a test: how often it was right, and how often it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["covers", "false alarms", "found", "no promise"]


@dataclass(frozen=True, slots=True)
class Row:
    """Of an interval how often it holds the truth; of a test how often it raises a false alarm, or finds
    what is there. Kind "no promise": what a test does where nothing is promised, for readers to know.

    shown: what is shown, and where. setting: what was simulated. least, most: what is promised. share: of
    `trials` simulations.
    """

    shown: str
    setting: str
    kind: Kind
    least: float
    most: float
    share: float
    trials: int

    @property
    def error(self) -> float:
        """The standard error of the share, if it is what is promised."""
        promised = min(max(self.share, self.least), self.most)
        return float(np.sqrt(max(promised * (1 - promised), 0.25 / self.trials) / self.trials))

    @property
    def holds(self) -> bool:
        """Whether the promise is kept, as far as so many simulations can tell."""
        slack = 3 * self.error
        return self.least - slack <= self.share <= self.most + slack


def covers(shown: str, setting: str, hits: Iterable[bool], *, is_conservative: bool = False) -> Row:
    """Of an interval of 95 %: 92 to 98 %, or at least 92 % of one that is called conservative."""
    right = np.fromiter(hits, bool)
    most = 1.0 if is_conservative else 0.98
    return Row(shown, setting, "covers", 0.92, most, float(right.mean()), len(right))


def false_alarms(shown: str, setting: str, alarms: Iterable[bool], rate: float = 0.05) -> Row:
    """Of a test where nothing is to be found: at most its rate."""
    raised = np.fromiter(alarms, bool)
    return Row(shown, setting, "false alarms", 0.0, rate, float(raised.mean()), len(raised))


def found(
    shown: str, setting: str, finds: Iterable[bool], least: float = 0.8, most: float = 1.0
) -> Row:
    """Of a test where there is something to be found."""
    hits = np.fromiter(finds, bool)
    return Row(shown, setting, "found", least, most, float(hits.mean()), len(hits))
