"""Pairs for preference training: the best and the worst rollout of each group, by reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.core.failures.causes import PLUMBING
from board.errors import ChoiceError
from board.index.segments import PROMPT_KEY
from board.query.causes import CAUSE
from board.query.open_run import Run
from board.query.rollouts import ADDRESS, chosen

NO_GROUPS: Final = (
    "pairs need groups and rewards, and the run does not record both; without group_id "
    "--group-by-prompt groups rollouts of a step by their prompt"
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rollouts of one group. chosen, rejected: their addresses; score: the reward."""

    step: int
    group_id: str
    prompt_key: int | None
    chosen: Mapping[str, int]
    rejected: Mapping[str, int]
    score_chosen: float
    score_rejected: float

    @property
    def margin(self) -> float:
        """By how much the chosen one is better."""
        return self.score_chosen - self.score_rejected


@dataclass(frozen=True, slots=True)
class Pairs:
    """pairs: by step. groups: in all. left_out: groups by the reason why there is no pair of them.
    infrastructure: rollouts that failed by infrastructure, which were not candidates.
    """

    pairs: Sequence[Pair]
    groups: int
    left_out: Counter[str]
    infrastructure: int


def best_and_worst(run: Run, margin: float) -> Pairs:
    """The pairs of a run: of each prompt the one with the largest margin, of equal ones the latest.

    The chosen rollout has the highest reward of its group, the rejected one the lowest, each the first
    with it. A failure of infrastructure is neither. margin: the least, and always more than 0.
    Raises ChoiceError where the run has no groups or no rewards, UnreadableError.
    """
    if not {"group_id", "reward"} <= {*run.columns}:
        raise ChoiceError(NO_GROUPS)
    left_out = Counter[str]()
    largest: dict[object, Pair] = {}
    rows: list[dict[str, Any]] = run.table(_sql(run)).to_pylist()
    for row in rows:
        reason = _unusable(row, margin)
        if reason:
            left_out[reason] += 1
            continue
        pair = Pair(**{name: row[name] for name in Pair.__slots__})
        key = pair.prompt_key if pair.prompt_key is not None else (pair.step, pair.group_id)
        before = largest.get(key)
        if before is not None:
            left_out["the same prompt has a pair with as large a margin or a larger one"] += 1
        if before is None or pair.margin >= before.margin:
            largest[key] = pair
    pairs = sorted(largest.values(), key=lambda pair: (pair.step, pair.chosen["position"]))
    return Pairs(pairs, len(rows), left_out, sum(row["infrastructure"] for row in rows))


def _unusable(row: Mapping[str, Any], margin: float) -> str:
    """Why there is no pair of a group; empty where there is one."""
    if row["candidates"] < 2:
        return "fewer than two rollouts with a reward that are no failures of infrastructure"
    difference = row["score_chosen"] - row["score_rejected"]
    if difference <= 0:
        return "all rewards are equal"
    if difference < margin:
        return f"the margin is less than {margin:g}"
    if row["prompt_key"] != row["rejected_key"]:
        return "the prompts of the best and the worst rollout differ"
    return ""


def _sql(run: Run) -> str:
    """A row for each group that has a rollout with a reward, by step."""
    causes = ", ".join(f"'{cause}'" for cause in PLUMBING)
    best, worst = "ORDER BY reward DESC, position", "ORDER BY reward, position"
    address = ", ".join(f"'{name}': {name}" for name in ADDRESS)
    usable = "FILTER (NOT is_infrastructure)"
    return f"""
        WITH scored AS (
            SELECT step, {run.split_value} AS split, {run.column("group_id")} AS group_id, position,
                {{{address}}} AS address,
                {run.column("reward")} AS reward, {run.column(PROMPT_KEY)} AS prompt_key,
                coalesce({run.column(CAUSE)} IN ({causes}), false) AS is_infrastructure
            FROM {chosen(run)} AS rollouts
            WHERE {run.column("reward")} IS NOT NULL
                AND {run.column("group_id")} IS NOT NULL)
        SELECT step, group_id,
            count(*) {usable} AS candidates, count(*) FILTER (is_infrastructure) AS infrastructure,
            first(address {best}) {usable} AS chosen, first(address {worst}) {usable} AS rejected,
            first(prompt_key {best}) {usable} AS prompt_key,
            first(prompt_key {worst}) {usable} AS rejected_key,
            first(reward {best}) {usable} AS score_chosen,
            first(reward {worst}) {usable} AS score_rejected
        FROM scored GROUP BY step, split, group_id ORDER BY step, min(position)
    """
