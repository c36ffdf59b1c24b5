"""The line of facts above a rollout: reward and its parts, advantage, lengths, ending, group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout
from board.components.reader.frame import Fact
from board.core.groups.statistics import right_part
from board.core.metrics.definitions import REWARD_PART, rollout_metric
from board.core.texts.conversation import ConversationTurn
from board.query.open_run import Run
from board.views.shared.text import number, one_line

_OF_TOKENS: Final = ("k3_mean", "entropy_mean")
_SHORT_NAMES: Final = {"k3_mean": "k3", "entropy_mean": "entropy"}


def facts_of(
    run: Run,
    opened: OpenRollout,
    row: pd.Series[Any],
    turns: Sequence[ConversationTurn] | None,
) -> list[Fact]:
    """The facts of a rollout that are recorded. turns: where it is shown as a conversation."""
    return [
        *_scores(row),
        *_lengths(opened, turns),
        *_ending(row),
        *_origin(run, row),
        *_means(row),
    ]


def _scores(row: pd.Series[Any]) -> Iterator[Fact]:
    parts = [
        f"{one_line(str(name).removeprefix(REWARD_PART), 24)} {number(float(row[name]))}"
        for name in row.index
        if str(name).startswith(REWARD_PART) and pd.notna(row[name])
    ]
    reward = row.get("reward")
    if reward is not None and pd.notna(reward):
        yield Fact("reward", number(float(reward)), parts=" · ".join(parts))
    elif parts:
        yield Fact("reward", "not recorded", parts=" · ".join(parts))
    yield from _of_metric(row, "advantage")


def _means(row: pd.Series[Any]) -> Iterator[Fact]:
    for name in _OF_TOKENS:
        yield from _of_metric(row, name)


def _of_metric(row: pd.Series[Any], name: str) -> Iterator[Fact]:
    if name in row and pd.notna(row[name]):
        metric = rollout_metric(name)
        unit = "" if metric.unit in ("", "share") else metric.unit
        words = f"{metric.label}: {metric.formula}"
        yield Fact(_SHORT_NAMES.get(name, name), number(float(row[name])), unit, help=words)


_BY_MODEL: Final = ("assistant", "response")


def _lengths(opened: OpenRollout, turns: Sequence[ConversationTurn] | None) -> Iterator[Fact]:
    if turns is None:
        yield Fact("", f"{len(opened.tokens):,}", _noun(len(opened.tokens), "token"))
        return
    if len(turns) > 2:
        yield Fact("", f"{len(turns):,}", "turns")
    calls = sum(block.kind == "call" for turn in turns for block in turn.blocks)
    if calls:
        yield Fact("", f"{calls:,}", _noun(calls, "tool call"))
    said = sum(turn.length for turn in turns if turn.role in _BY_MODEL and not turn.given)
    words = "Characters that the model wrote, without what tools answered"
    # The list counts the recorded response: of several turns, that is another text.
    by = " by the model" if len(turns) > 2 else ""
    yield Fact("", f"{said:,}", f"{_noun(said, 'char')}{by}", help=words)


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _ending(row: pd.Series[Any]) -> Iterator[Fact]:
    reason = row.get("finish_reason")
    if isinstance(reason, str) and reason:
        yield Fact("ended:", one_line(reason, 40), help="finish_reason, as recorded")
    if row.get("is_truncated") == 1:
        yield Fact("", "truncated", help="The response was cut off before it ended.")


def _origin(run: Run, row: pd.Series[Any]) -> Iterator[Fact]:
    group = row.get("group_id")
    if group is not None and pd.notna(group):
        yield Fact("group", one_line(group, 32), _solved(run, row), help=_SOLVED_HELP)
    for name in ("env", "split"):
        value = row.get(name)
        if isinstance(value, str) and value:
            yield Fact(name, one_line(value, 40))


_SOLVED_HELP: Final = (
    "Solved: the reward part that says so (such as correct) is 1; without one, the reward is 1 where all "
    "rewards of the group are 0 or 1."
)


def _solved(run: Run, row: pd.Series[Any]) -> str:
    """How many rollouts of the group are right, in words; empty where the rewards do not show it."""
    rows = run.of_step(int(row["step"]))
    members = rows[rows["group_id"] == row["group_id"]]
    parts = {
        str(name).removeprefix(REWARD_PART): name
        for name in rows.columns
        if str(name).startswith(REWARD_PART)
    }
    told = right_part([*parts])
    column = parts[told] if told else "reward"
    if column not in members:
        return ""
    values = members[column].dropna()
    if values.empty or not values.isin((0, 1)).all():
        return ""
    return f"· {int((values == 1).sum())}/{len(values)} solved"
