"""What a fault is, and the list of all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from faults.scene import Log, Planted

from board.core.findings.rules import TOKEN_RULES


@dataclass(frozen=True)
class Fault:
    """One fault. what: in words, at the size of 1. plant: changes a log and says what it changed. rule:
    that is to find it, as at least `severity`. also: rules that the same fault trips rightly. tokens:
    whether tokens are read to find it. is_gradual: it is beyond a threshold only some steps after it
    begins. needs: a key of the log's lines without which it can't be planted; ranks: how many at least.
    """

    name: str
    what: str
    rule: str
    plant: Callable[[Log], Planted]
    severity: str = "severe"
    also: tuple[str, ...] = ()
    tokens: bool = False
    is_gradual: bool = False
    needs: str = "step"
    ranks: int = 1
    cause: str = ""

    def fits(self, log: Log) -> bool:
        """Whether a log has what the fault changes."""
        lines = log.step(log.scene.at)
        is_there = any(self.needs in line for line in lines)
        return is_there and len({line["rank"] for line in lines}) >= self.ranks


FAULTS: list[Fault] = []
Plant = Callable[[Log], Planted]


def fault(name: str, rule: str, **more: Any) -> Callable[[Callable[[Log], Any]], Plant]:
    """Lists what a function plants in FAULTS; without a result it changes every rollout."""

    def listed(change: Callable[[Log], Any]) -> Plant:
        def plant(log: Log) -> Planted:
            return change(log) or Planted(log.scene.at, log.everyone())

        what = (change.__doc__ or "").rstrip(".")
        FAULTS.append(Fault(name, what, rule, plant, **{"tokens": rule in TOKEN_RULES} | more))
        return plant

    return listed
