"""Do the trainer and the rollouts say the same? Means of both, step by step."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from board.core.metrics.definitions import REWARD_PART, base_name, reward_parts
from board.core.metrics.trainer import SAME, Agreement, Means, Topic, agreement
from board.core.schema import GENERATION
from board.query.run import Run
from board.query.splits import chosen_split, splits_of

if TYPE_CHECKING:
    from board.query.trainer.metrics import TrainerMetrics

_OVER_ROLLOUTS: Final = "rollouts"
_OVER_TOKENS: Final = "tokens"
_IN_LOSS: Final = "rollouts, tokens in the loss"
_OF_GENERATION: Final = "rollouts of the generation"
_PER_TOKEN: Final = (
    *("k1_mean", "k2_mean", "k3_mean", "k3_by_ratio_mean"),
    *("mismatch_kl_mean", "entropy_mean"),
)
_ESTIMATORS: Final = {"k3_mean": ("k3_mean", "k1_mean", "k2_mean", "k3_by_ratio_mean")}
"""What a trainer calls its KL may be any of them."""


def rollout_means(run: Run) -> dict[str, list[Means]]:
    """By column that a trainer may log as well, its means over the rollouts of training; of metrics of
    tokens also those over tokens.
    """
    part = chosen_split(run.whole or run)
    return part.remembered("rollout means", lambda: _rollout_means(part))


def _rollout_means(run: Run) -> dict[str, list[Means]]:
    weighted = _over_loss_tokens(run)
    by_column: dict[str, list[Means]] = {}
    for column in (*SAME, *reward_parts(run.metrics)):
        own: list[Means] = []
        for name in _ESTIMATORS.get(column, (column,)):
            own += [*_over_rollouts(run, name), *weighted.get(name, [])]
        own += _over_generations(run, column)
        if own:
            by_column[column] = own
    return by_column


def _over_rollouts(run: Run, column: str) -> list[Means]:
    table, stem = run.step_table(), base_name(column)
    there = {*table.column_names}
    name = f"{stem}_mean" if f"{stem}_mean" in there else column
    if name not in there:
        return []
    values, deviations, counts = (
        np.asarray(table[own].to_numpy(), np.float64)
        if own in there
        else np.full(table.num_rows, np.nan)
        for own in (name, f"{stem}_std", f"{stem}_n")
    )
    whole_counts = np.nan_to_num(counts).astype(np.int64)
    steps = table["step"].to_numpy()
    return [Means(column, _OVER_ROLLOUTS, steps, values, deviations, whole_counts)]


def _over_generations(run: Run, column: str) -> list[Means]:
    """Over all rollouts that were generated in one step, whichever steps train on them: a trainer logs
    rewards and lengths where it generates.
    """
    if GENERATION not in run.columns or column not in run.metrics:
        return []
    value = f"CAST({run.column(column)} AS DOUBLE)"
    identity = run.column("rollout_id") if "rollout_id" in run.columns else "position"
    table = run.table(f"""
        SELECT generation AS step, avg(value) AS mean, stddev_samp(value) AS std, count(value) AS n
        FROM (SELECT DISTINCT CAST({run.column(GENERATION)} AS BIGINT) AS generation,
            {identity} AS rollout, {value} AS value FROM {run.view} WHERE {run.condition})
        WHERE generation IS NOT NULL GROUP BY generation ORDER BY generation
    """)
    steps, means, deviations, counts = (
        table[name].to_numpy() for name in ("step", "mean", "std", "n")
    )
    return [Means(column, _OF_GENERATION, steps, means, deviations, counts)]


def _over_loss_tokens(run: Run) -> dict[str, list[Means]]:
    """Of each rollout its mean counts as often as it has tokens in the loss; and how many these are."""
    if "response_tokens" not in run.metrics:
        return {}
    # A mask that is 1 everywhere is left out of the log.
    tokens = run.column("loss_tokens" if "loss_tokens" in run.columns else "response_tokens")
    sums, counted = [f"avg({tokens})"], [tokens]
    columns = [name for name in _PER_TOKEN if name in run.metrics]
    for column in map(run.column, columns):
        there = f"CASE WHEN {column} IS NOT NULL THEN {tokens} END"
        sums.append(f"sum({column} * {tokens}) / nullif(sum({there}), 0)")
        counted.append(column)
    selected = ", ".join(
        f"{total} AS v{place}, count({value}) AS n{place}"
        for place, (total, value) in enumerate(zip(sums, counted, strict=True))
    )
    table = run.table(
        f"SELECT step, {selected} FROM {run.view} WHERE {run.condition} GROUP BY step ORDER BY step"
    )
    steps, unknown = table["step"].to_numpy(), np.full(table.num_rows, np.nan)
    by_column: dict[str, list[Means]] = {}
    for place, name in enumerate(("response_tokens", *columns)):
        words = _OVER_TOKENS if place else _IN_LOSS
        values, counts = table[f"v{place}"].to_numpy(), table[f"n{place}"].to_numpy()
        by_column[name] = [Means(name, words, steps, values, unknown, counts)]
    return by_column


def is_what_was_trained_on(run: Run) -> bool:
    """Whether the run was not narrowed to other rollouts than all of training, which the trainer's
    numbers are of.
    """
    return run.counts == chosen_split(run.whole or run).counts


def agreements(run: Run, trainer: TrainerMetrics) -> list[Agreement]:
    """Every quantity that both have, in the order of SAME, then parts of the reward."""
    means, whole = rollout_means(run), run.whole or run
    is_sampled = any(sampled for _, _, sampled in trainer.written.values())
    # The lines of the log count rollouts of all splits together.
    written = trainer.written if len(splits_of(whole)) == 1 and not is_sampled else {}
    missing = {
        step: max(own + dropped - whole.counts.get(step, 0), 0)
        for step, (own, dropped, _) in written.items()
    }
    compared: list[Agreement] = []
    for column, candidates in means.items():
        for name in _topic(column).of(trainer.curves):
            curve = trainer.curves[name]
            one = agreement(name, curve.steps, curve.values, candidates)
            if one is not None:
                absent = tuple(map(missing.get, one.steps.tolist()))
                is_partly = one.is_sampled or is_sampled
                compared.append(replace(one, missing=absent, is_sampled=is_partly))
    return compared


def _topic(column: str) -> Topic:
    if column in SAME:
        return SAME[column]
    return part_topic(column.removeprefix(REWARD_PART))


def part_topic(part: str) -> Topic:
    """What trainers call the mean of a part of the reward."""
    return Topic(f"{REWARD_PART}{part}", (rf"(?:.*/)?rewards?/{re.escape(part)}(?:/mean)?",))
