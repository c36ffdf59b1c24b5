"""The reward of a run whose log has its parts alone: their sum, where the trainer's reward says that it
is that, or where somebody chose it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from board.core.metrics.definitions import REWARD_PART, reward_parts
from board.core.metrics.reward_sum import RewardSum, listed
from board.core.metrics.trainer import SAME, Agreement, Means, agreement
from board.core.run_differences import flat_settings
from board.query.columns import RewardSource, reward_sum_sql
from board.query.run import Run
from board.query.splits import chosen_split
from board.query.trainer.agreement import part_topic
from board.query.trainer.metrics import TrainerMetrics

_ROUNDING: Final = 1e-3
"""Means are one number up to this share of them and of the standard deviation over the rollouts."""
_LEAST_SHARE: Final = 0.95
"""Of the steps: one that was cut off, or written again, says nothing against all others."""
_WEIGHTS: Final = "reward_weights"
"""TRL's name of the setting, and others'."""


def has_parts_alone(run: Run) -> bool:
    """Whether the log has parts of rewards and no reward."""
    names = {column.name for column in run.rows.columns}
    return "reward" not in names and bool(reward_parts(names))


def reward_source(run: Run, trainer: TrainerMetrics, chosen: RewardSum | None) -> RewardSource:
    """How the reward is got, for a whole run of parts alone; chosen: by the user. Raises UnreadableError.

    A choice of parts that the run does not have is none: choices are of all runs.
    """
    own = reward_parts(column.name for column in run.rows.manifest.columns)
    parts = tuple(name.removeprefix(REWARD_PART) for name in own)
    unknown = [] if chosen is None else [name for name, _ in chosen.parts if name not in parts]
    if chosen is not None and not unknown:
        compared = _compared(run, trainer, chosen)
        said = "" if compared is None else f"; it {_agrees(compared)}"
        return RewardSource(parts, chosen, f"reward is {chosen.words}, as chosen{said}")
    begin = f"the run has no part {listed(unknown)} of the reward; " if unknown else ""
    missing = f"{begin}no reward is recorded, only its {_parts(parts)}"
    compared = None
    for total in _sums(run, trainer, parts):
        compared = _compared(run, trainer, total)
        if compared is not None and _is_one(compared):
            return RewardSource(
                parts, total, f"{begin}reward is {total.words}; it {_agrees(compared)}"
            )
    if compared is None:
        why = "the trainer's reward, which would tell how they are added, is not recorded either"
    else:
        why = f"their sum is another one than the trainer's: it {_agrees(compared)}"
    return RewardSource(parts, None, f"{missing}; {why}")


def _parts(names: Sequence[str]) -> str:
    return f"part{'s' if len(names) > 1 else ''} {listed(names)}"


def _sums(run: Run, trainer: TrainerMetrics, parts: tuple[str, ...]) -> Iterator[RewardSum]:
    """What the reward may be: of the parts of which the trainer logs means, as what else is logged of a
    rollout may look like one, then of all.
    """
    named = tuple(part for part in parts if part_topic(part).of(trainer.curves))
    for names in dict.fromkeys((named, parts)):
        if names:
            weights = _recorded_weights(run, names)
            yield RewardSum(tuple(zip(names, weights, strict=True)))


def _recorded_weights(run: Run, parts: Sequence[str]) -> list[float]:
    """The weights that the newest settings with any name; else each is 1."""
    for file in sorted(run.settings, reverse=True):
        by_name: dict[str, float] = {}
        for path, value in flat_settings(run.settings[file]):
            before, is_there, name = path.rpartition(f"{_WEIGHTS}.")
            if is_there and not before.rstrip(".").endswith(_WEIGHTS) and _is_number(value):
                by_name[name] = float(value)
            elif path.rpartition(".")[2] == _WEIGHTS and isinstance(value, list):
                weights = [float(one) for one in value if _is_number(one)]
                if len(weights) == len(parts) == len(value):
                    return weights
        if by_name:
            return [by_name.get(part, 1.0) for part in parts]
    return [1.0] * len(parts)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _compared(run: Run, trainer: TrainerMetrics, total: RewardSum) -> Agreement | None:
    """The sum against the trainer's reward over the rollouts of training; None where no step has both."""
    names = SAME["reward"].of(trainer.curves)
    if not names:
        return None
    part = chosen_split(run)
    value = reward_sum_sql(total, part.rows.manifest.columns, part.rows.names)
    table = part.table(f"""
        SELECT step, avg(value) AS mean, coalesce(stddev_samp(value), 0) AS std, count(value) AS n
        FROM (SELECT step, {value} AS value FROM {part.view} WHERE {part.condition})
        GROUP BY step HAVING count(value) > 0 ORDER BY step""")
    steps, mean, std, counts = (table[name].to_numpy() for name in ("step", "mean", "std", "n"))
    means = Means("reward", "rollouts", steps, mean, std, counts)
    curve = trainer.curves[names[0]]
    return agreement(names[0], curve.steps, curve.values, [means], tolerance=(_ROUNDING, _ROUNDING))


def _agreeing(compared: Agreement) -> int:
    return int(np.count_nonzero(~compared.differs))


def _is_one(compared: Agreement) -> bool:
    return _agreeing(compared) >= _LEAST_SHARE * len(compared.steps)


def _agrees(compared: Agreement) -> str:
    steps = len(compared.steps)
    of = f"{_agreeing(compared):,} of {steps:,} step{'s' if steps > 1 else ''}"
    return f"agrees with the trainer's reward at {of}"
