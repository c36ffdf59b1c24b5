"""What the reader says of a rollout besides its text: the facts above it, and the panel at its side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout
from board.components.reader.frame import Detail, Fact, Score
from board.core.groups.statistics import correctness_column
from board.core.metrics.definitions import REWARD_PART, reward_parts, rollout_metric
from board.core.texts.conversation import ConversationTurn
from board.query.open_run import Run
from board.query.rollouts import joined_places
from board.views.shared.text import number, one_line

TEXTS: Final = {"ground_truth": "Ground truth", "ref_response": "Reference response"}
_SCORES: Final = (
    *("reward", "ref_reward", "reward_gap", "valid_reward", "ref_valid_reward", "advantage"),
    *("k1_mean", "k3_mean", "k3_max", "mismatch_kl_mean", "entropy_mean", "response_tokens"),
)
_SOLVED_HELP: Final = (
    "Solved: the reward part that says so (such as correct) is 1; without one, the reward is 1 where all "
    "rewards of the group are 0 or 1."
)
_PREVIEW_CHARACTERS: Final = 160
_LONGEST_EXTRA: Final = 400
_LONGEST_RECORD: Final = 2_000_000
"""Characters of a record that a page shows; more of it would hold up the browser."""


def has_value(row: pd.Series[Any], name: str) -> bool:
    """Whether a row of the table of rollouts has something in this column."""
    return name in row and bool(pd.notna(row[name]))


def preview(text: Any) -> str:
    """The first words of a text, on one line."""
    start = str(text)[: 2 * _PREVIEW_CHARACTERS]
    return one_line(" ".join(start.split()), _PREVIEW_CHARACTERS)


def facts_of(
    run: Run,
    opened: OpenRollout,
    row: pd.Series[Any],
    turns: Sequence[ConversationTurn] | None,
) -> Iterator[Fact]:
    """Reward and its parts, advantage, lengths, ending, group: what is recorded of them.

    turns: where the rollout is shown as a conversation.
    """
    parts = " · ".join(
        f"{one_line(name.removeprefix(REWARD_PART), 24)} {number(float(row[name]))}"
        for name in reward_parts(row.index)
        if has_value(row, name)
    )
    if has_value(row, "reward") or parts:
        reward = float(row["reward"]) if has_value(row, "reward") else None
        yield Fact("reward", number(reward), parts=parts)
    yield from _token_mean(row, "advantage", "advantage")
    yield from _lengths(opened, turns)
    reason = row.get("finish_reason")
    if isinstance(reason, str) and reason:
        yield Fact("ended:", one_line(reason, 40), help="finish_reason, as recorded")
    if row.get("is_truncated") == 1:
        yield Fact("", "truncated", help="The response was cut off before it ended.")
    if has_value(row, "group_id"):
        yield Fact("group", one_line(row["group_id"], 32), _solved(run, row), help=_SOLVED_HELP)
    for name in ("env", "split"):
        value = row.get(name)
        if isinstance(value, str) and value:
            yield Fact(name, one_line(value, 40))
    yield from _token_mean(row, "k3_mean", "k3")
    yield from _token_mean(row, "entropy_mean", "entropy")


def _token_mean(row: pd.Series[Any], name: str, label: str) -> Iterator[Fact]:
    if has_value(row, name):
        metric = rollout_metric(name)
        unit = "" if metric.unit == "share" else metric.unit
        explained = f"{metric.label}: {metric.formula}"
        yield Fact(label, number(float(row[name])), unit, help=explained)


def _lengths(opened: OpenRollout, turns: Sequence[ConversationTurn] | None) -> Iterator[Fact]:
    if turns is None:
        yield Fact("", f"{len(opened.tokens):,}", _noun(len(opened.tokens), "token"))
        return
    if len(turns) > 2:
        yield Fact("", f"{len(turns):,}", "turns")
    calls = sum(block.kind == "call" for turn in turns for block in turn.blocks)
    if calls:
        yield Fact("", f"{calls:,}", _noun(calls, "tool call"))
    roles = ("assistant", "response")
    length = sum(turn.length for turn in turns if turn.role in roles and not turn.given)
    # The list counts the recorded response: of several turns, that is another text.
    by = " by the model" if len(turns) > 2 else ""
    explained = "Characters that the model wrote, without what tools answered"
    yield Fact("", f"{length:,}", f"{_noun(length, 'char')}{by}", help=explained)


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _solved(run: Run, row: pd.Series[Any]) -> str:
    """How many rollouts of the group are right, in words; empty where the rewards do not show it."""
    rows = run.of_step(int(row["step"]))
    column = correctness_column(rows.columns) or "reward"
    if column not in rows:
        return ""
    values = rows.loc[rows["group_id"] == row["group_id"], column].dropna()
    if values.empty or not values.isin((0, 1)).all():
        return ""
    return f"· {int((values == 1).sum())}/{len(values)} solved"


def details_of(run: Run, opened: OpenRollout, row: pd.Series[Any], *, raw: bool) -> list[Detail]:
    """The sections of the side panel. raw: with the record of the log, else a button that asks for it."""
    record = opened.record
    ids = {name: value for name, value in record.ids.items() if name not in ("env", "split")}
    extras: list[Score] = []
    for name, value in {**ids, **record.extras}.items():
        if value is not None:
            text = value if isinstance(value, str) else _as_json(value)
            mark = "…" if len(text) > _LONGEST_EXTRA else ""
            extras.append(Score(one_line(name), f"{text[:_LONGEST_EXTRA]}{mark}"))
    files = [
        Score(
            run.info.path_of(run.info.files[int(place["file"])]),
            f"line {int(place['line'])}, {int(place['size']):,} bytes",
        )
        for place in (row, *joined_places(run, row))
    ]
    raw_record = Detail("Raw record", ask="raw")
    if raw:
        text = _as_json(opened.line, indent=2)
        if len(text) > _LONGEST_RECORD:
            cut = f"… cut after {_LONGEST_RECORD:,} of {len(text):,} characters"
            text = f"{text[:_LONGEST_RECORD]}\n{cut}"
        raw_record = Detail("Raw record", text, tall=True)
    return [
        *(Detail(TEXTS[name], record.texts[name]) for name in TEXTS if name in record.texts),
        Detail("Scores", rows=_scores(row) or [Score("no score", "not recorded")]),
        *([Detail("Other columns", rows=extras)] if extras else []),
        Detail("Place in the log", rows=files),
        raw_record,
    ]


def _scores(row: pd.Series[Any]) -> list[Score]:
    scores: list[Score] = []
    for name in (*_SCORES, *reward_parts(row.index)):
        if has_value(row, name):
            metric = rollout_metric(name)
            unit = "" if metric.unit in ("", "share") else f" {metric.unit}"
            value = number(float(row[name]), metric.unit) + unit
            scores.append(Score(metric.label, value, metric.formula))
    return scores


def _as_json(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):  # ValueError: nested within itself
        return "The record is nested too deep to be shown."
