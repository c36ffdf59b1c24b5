"""Train and evaluation rollouts: the names of splits. Rollouts that name none are training's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

TRAIN: Final = "train"
"""The split of rollouts that name none."""
ALL: Final = "all"
"""What stands for all splits together; a split of that name is written `=all`."""


def written(name: str) -> str:
    """A split as users write it, in a URL or a command line; one that is called `all` is `=all`."""
    return f"={name}" if name == ALL or name.startswith("=") else name


def meant(text: str) -> str | None:
    """The name of the split that a user wrote; None: all of them together."""
    return None if text == ALL else text.removeprefix("=")


def is_training(name: str) -> bool:
    """Whether a split is by its name the one of training."""
    return name.lower() in (TRAIN, "training")


def training_split(rollouts: Mapping[str, int]) -> str:
    """The split of training among those of a run, by how many rollouts each has; without one, the
    largest.
    """
    for name in (TRAIN, *sorted(filter(is_training, rollouts))):
        if name in rollouts:
            return name
    return max(sorted(rollouts), key=lambda name: rollouts[name])


def in_order(counts_by_split: Mapping[str, Mapping[int, int]]) -> Iterable[str]:
    """Names of splits, that of training first. counts_by_split: by split, its rollouts by step."""
    if not counts_by_split:
        return ()
    first = training_split({name: sum(counts.values()) for name, counts in counts_by_split.items()})
    return sorted(counts_by_split, key=lambda name: (name != first, name))
