"""Pairs for preference training: the best and the worst rollout of each group, by reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.core.failures.causes import PLUMBING
from board.datasets.contents import LIMITS, USUAL
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
    infrastructure: rollouts with a reward that failed by infrastructure, and were no candidates.
    truncated: those that a limit ended, which were never the better one.
    """

    pairs: Sequence[Pair]
    groups: int
    left_out: Counter[str]
    infrastructure: int = 0
    truncated: int = 0

    @property
    def notes(self) -> list[str]:
        """How many rollouts were left out, in words."""
        said = {
            "rollouts that failed by infrastructure, which are in no pair": self.infrastructure,
            "rollouts that a limit ended, which are never the better one": self.truncated,
        }
        return [f"{words}: {count:,}" for words, count in said.items() if count]


def best_and_worst(run: Run, margin: float, leave_out: Collection[str] = USUAL["dpo"]) -> Pairs:
    """The pairs of a run: of each prompt the one with the largest margin, of equal ones the latest.

    The chosen rollout has the highest reward of its group, the rejected one the lowest, each the first
    with it. A failure of infrastructure is neither, and one that a limit ended never the chosen one,
    where leave_out has these. margin: the least, and always more than 0. Raises ChoiceError where the
    run has no groups or no rewards, UnreadableError.
    """
    if not {"group_id", "reward"} <= {*run.columns}:
        raise ChoiceError(NO_GROUPS)
    left_out = Counter[str]()
    largest: dict[object, Pair] = {}
    rows: list[dict[str, Any]] = run.table(_sql(run, leave_out)).to_pylist()
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
    failed, cut = (sum(row[name] for row in rows) for name in ("infrastructure", "truncated"))
    return Pairs(pairs, len(rows), left_out, failed, cut)


def _unusable(row: Mapping[str, Any], margin: float) -> str:
    """Why there is no pair of a group; empty where there is one."""
    if row["candidates"] < 2:
        return "fewer than two rollouts with a reward that are no failures of infrastructure"
    if row["chosen"] is None:
        return "a limit ended all of them"
    difference = row["score_chosen"] - row["score_rejected"]
    if difference <= 0:
        return "all rewards are equal"
    if difference < margin:
        return f"the margin is less than {margin:g}"
    if row["prompt_key"] != row["rejected_key"]:
        return "the prompts of the best and the worst rollout differ"
    return ""


def _sql(run: Run, leave_out: Collection[str]) -> str:
    """A row for each group that has a rollout with a reward, by step."""
    failed = _of_causes(run, PLUMBING) if "infrastructure" in leave_out else "false"
    limits = f"({_of_causes(run, LIMITS)} OR coalesce({run.column('is_truncated')} = 1, false))"
    cut = limits if "truncated" in leave_out else "false"
    best, worst = "ORDER BY reward DESC, position", "ORDER BY reward, position"
    address = ", ".join(f"'{name}': {name}" for name in ADDRESS)
    usable = "FILTER (NOT is_infrastructure)"
    choosable = "FILTER (NOT is_infrastructure AND NOT is_cut)"
    return f"""
        WITH scored AS (
            SELECT step, {run.split_value} AS split, {run.column("group_id")} AS group_id, position,
                {{{address}}} AS address,
                {run.column("reward")} AS reward, {run.column(PROMPT_KEY)} AS prompt_key,
                {failed} AS is_infrastructure, {cut} AS is_cut
            FROM {chosen(run)} AS rollouts
            WHERE {run.column("reward")} IS NOT NULL
                AND {run.column("group_id")} IS NOT NULL)
        SELECT step, group_id,
            count(*) {usable} AS candidates, count(*) FILTER (is_infrastructure) AS infrastructure,
            count(*) FILTER (is_cut AND NOT is_infrastructure) AS truncated,
            first(address {best}) {choosable} AS chosen, first(address {worst}) {usable} AS rejected,
            first(prompt_key {best}) {choosable} AS prompt_key,
            first(prompt_key {worst}) {usable} AS rejected_key,
            first(reward {best}) {choosable} AS score_chosen,
            first(reward {worst}) {usable} AS score_rejected
        FROM scored GROUP BY step, split, group_id ORDER BY step, min(position)
    """


def _of_causes(run: Run, causes: Collection[str]) -> str:
    """SQL for whether a rollout has one of these causes."""
    names = ", ".join(f"'{cause}'" for cause in causes)
    return f"coalesce({run.column(CAUSE)} IN ({names}), false)"
