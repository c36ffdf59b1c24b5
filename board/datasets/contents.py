"""What of a data set a trainer may not want: which rollouts these are, and how many of them are in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from board.core.failures.causes import CLASSES, PLUMBING
from board.errors import ChoiceError, did_you_mean

DUPLICATES: Final = "duplicates"
UNWANTED: Final[Mapping[str, str]] = {
    "infrastructure": "failed by infrastructure",
    "truncated": "ended by a limit of tokens, turns or time",
    "unscored": "without a reward",
    DUPLICATES: "the same as one before",
}
"""What can be left out, in words."""
USUAL: Final[Mapping[str, Collection[str]]] = {
    "sft": ("infrastructure", "truncated", DUPLICATES),
    "dpo": ("infrastructure", "truncated"),
}
"""What is left out where nobody says so: of a pair the better response is never a truncated one."""
TRAIT_COLUMNS: Final = ("reward", "is_truncated", "cause")
NOTHING: Final = "nothing"
LIMITS: Final = CLASSES["limit"]


def left_out_of(kind: str, names: Sequence[str] | None) -> Collection[str]:
    """What is left out of a set of that kind. names: as the user gives them; None: what is usual.

    Raises ChoiceError.
    """
    if names is None:
        return USUAL.get(kind, ())
    if [*names] == [NOTHING]:
        return ()
    known = [name for name in UNWANTED if kind != "dpo" or name in USUAL["dpo"]]
    for name in names:
        if name not in known:
            also = "" if name in known else f" with --as {kind}"
            hint = did_you_mean(name, (*known, NOTHING))
            raise ChoiceError(f"--leave-out {name} is not one of those{also}; {hint}")
    if not names:
        raise ChoiceError(f"--leave-out names nothing; {did_you_mean('', (*known, NOTHING))}")
    return (*names,)


def traits_of(values: Mapping[str, Any]) -> frozenset[str]:
    """Which of UNWANTED a rollout is, duplicates aside. values: those of TRAIT_COLUMNS."""
    cause = values["cause"]
    is_cut = bool(values["is_truncated"]) or cause in LIMITS
    traits = {
        "infrastructure": cause in PLUMBING,
        "truncated": is_cut,
        "unscored": values["reward"] is None,
    }
    return frozenset(name for name, holds in traits.items() if holds)
