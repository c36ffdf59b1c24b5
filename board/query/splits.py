"""Train and evaluation rollouts: the splits of a run. Rollouts that name none are training's."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from board.errors import ChoiceError

if TYPE_CHECKING:
    from board.query.run import Run

TRAIN: Final = "train"
"""The split of rollouts that name none."""
BETWEEN: Final = " · "
"""Stands between the split that a rollout names and its model, where several models answered."""
ALL: Final = "all"
"""Means all splits together; a split of that name is written `=all`."""


def split_value(names: Collection[str]) -> str:
    """SQL for the split that a rollout names, that of training where it names none. names: of columns."""
    return f"coalesce(nullif(split, ''), '{TRAIN}')" if "split" in names else f"'{TRAIN}'"


def written(name: str) -> str:
    """A split as users write it, in a URL or a command line; one that is called `all` is `=all`."""
    return f"={name}" if name == ALL or name.startswith("=") else name


def meant(text: str) -> str | None:
    """The name of the split that a user wrote; None: all of them together."""
    return None if text == ALL else text.removeprefix("=")


def is_training(name: str) -> bool:
    """Whether a split is by its name the one of training."""
    return name.partition(BETWEEN)[0].lower() in (TRAIN, "training")


def splits_of(run: Run) -> dict[str, dict[int, int]]:
    """By split, that of training first, how many rollouts the run has at each step.

    Rollouts that name none are training's. Without a split called so, the largest is that of training.
    Raises UnreadableError.
    """
    if "split" not in run.columns:
        return {TRAIN: dict(run.counts)} if run.counts else {}
    table = run.table(f"""
        SELECT {run.split_value} AS split, step, count(*) AS rollouts
        FROM {run.view} WHERE {run.condition} GROUP BY ALL ORDER BY step
    """)
    counts: dict[str, dict[int, int]] = {}
    for split, step, count in zip(*(column.to_pylist() for column in table.columns), strict=True):
        counts.setdefault(split, {})[step] = count

    def rank(name: str) -> tuple[bool, bool, int, str]:
        rollouts = 0 if is_training(name) else -sum(counts[name].values())
        return name != TRAIN, not is_training(name), rollouts, name

    first = min(counts, key=rank, default=None)
    return {name: counts[name] for name in sorted(counts, key=lambda name: (name != first, name))}


def chosen_split(run: Run, text: str = "") -> Run:
    """The run as it is shown of a split as users write it (see `written`): the one of training where
    none is written, and all of them together for `all`. Raises ChoiceError for one it does not have.
    """
    if text == ALL:
        return run
    counts = splits_of(run)
    name = meant(text) if text else next(iter(counts), None)
    if name is None:
        return run
    if name not in counts:
        names = ", ".join(map(written, counts)) or "none"
        raise ChoiceError(
            f"{run.info.name} has no split {name!r}; it has {names}, and {ALL} is all of them"
        )
    return run if len(counts) == 1 else run.where(split=name)
