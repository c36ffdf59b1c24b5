"""What a comparison of runs says in one sentence: page, exported page and command line share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from board.core.distinct_names import distinct_names
from board.core.metrics.definitions import REWARD_PART, rollout_metric
from board.core.metrics.paired import PairedDifference
from board.core.metrics.shares import counted, with_interval
from board.query.compare.matching import Match
from board.query.compare.paired import SOLVE_RATE, TOTALS, PairedRuns, paired_runs
from board.query.run import Run

RATE: Final = 0.05
"""At which a difference without an interval counts, by flips of signs."""
Outcome = Literal[
    "higher", "lower", "no difference seen", "too few shared prompts to tell", "not compared"
]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the shared prompts say of run B against run A.

    metric: the solve rate, else the reward, or the first part of it that both have; empty, without a
    difference, where nothing could be compared. steps: those that were compared, in words. reason: why
    nothing was.
    """

    outcome: Outcome
    metric: str = ""
    paired: PairedDifference | None = None
    steps: str = ""
    reason: str = ""

    def sentence(self, first: str, second: str) -> str:
        """The answer in words. first, second: what to call A and B."""
        if self.paired is None:
            return f"{second} - {first}: not compared: {self.reason}"
        one = self.paired
        outcome = self.outcome
        if outcome in ("higher", "lower"):
            outcome = f"{second} is {outcome}"
        difference = with_interval(one.difference, one.low, one.high, signed=True)
        if one.no_interval:
            difference += f" ({one.no_interval})"
        prompts = counted(one.prompts, "prompt")
        label = metric_name(self.metric)
        return f"{second} - {first}: {label} {difference} on {prompts}, {self.steps}: {outcome}"


def metric_name(name: str) -> str:
    """What the sentence and the tables of pairs call a metric."""
    return "solve rate" if name == SOLVE_RATE else rollout_metric(name).label


def answer(pair: PairedRuns) -> Answer:
    """What a paired comparison says; of one that has the metrics of rewards at least. By the solve rate
    if it is known on more than half of the prompts.
    """
    totals = () if pair.reward_note else TOTALS
    parts = [name for name in pair.differences if name.startswith(REWARD_PART)]
    solved = pair.differences.get(SOLVE_RATE)
    # One that is known on few of the prompts says little of them.
    rates = (SOLVE_RATE,) if solved and 2 * solved.prompts > len(pair.keys) else ()
    known = (name for name in (*rates, *totals, *parts) if name in pair.differences)
    metric = next(known, None)
    if metric is None:
        are_others = any(name in pair.differences for name in TOTALS)
        lacking = pair.reward_note if are_others else "no reward is recorded in both runs"
        return Answer("not compared", reason=pair.obstacle or lacking)
    paired = pair.differences[metric]
    return Answer(_outcome(paired), metric, paired, pair.steps_text)


def _outcome(paired: PairedDifference) -> Outcome:
    if paired.p is None or paired.difference is None:
        return "too few shared prompts to tell"
    if paired.low is None or paired.high is None:
        if paired.p > RATE:
            return "no difference seen"
        return "higher" if paired.difference > 0 else "lower"
    if paired.low > 0:
        return "higher"
    return "lower" if paired.high < 0 else "no difference seen"


def answer_of(
    first: Run, second: Run, matched: Match, shift: int = 0, among: Sequence[Run] = ()
) -> Answer:
    """The answer alone, of the metrics that it needs; arguments as of paired_runs. Raises
    UnreadableError.
    """
    rewards = [name for name in first.metrics if name in TOTALS or name.startswith(REWARD_PART)]
    return answer(paired_runs(first, second, rewards, matched, shift, among))


def summary(first: str, answers: Sequence[Answer]) -> str:
    """How several runs compare with the first one, in a sentence. first: what to call it."""
    counts = {one.outcome: 0 for one in answers}
    for one in answers:
        counts[one.outcome] += 1
    metrics = dict.fromkeys(metric_name(one.metric) for one in answers if one.metric)
    outcomes = [f"{outcome} in {count}" for outcome, count in counts.items()]
    runs, label = counted(len(answers), "run"), " or ".join(metrics) or "reward"
    return f"{label[0].upper()}{label[1:]} of {runs} against {first}: {', '.join(outcomes)}"


def run_names(runs: Sequence[Run]) -> list[str]:
    """A short name for each of the runs, no two the same; by their paths where two are called alike."""
    names = [run.info.name for run in runs]
    if len({*names}) < len(names):
        names = [str(run.info.path) for run in runs]
    return distinct_names(names)
