"""A rollout as the reader takes it: tokens and values, prompt, facts above it, details beside it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from board.analysis.rollout import OpenRollout
from board.components.reader.frame import Detail, Fact, Score
from board.components.token_data import PromptPart, ScaleSpan, TokenContent, TokenSegment
from board.core.arrays import FloatArray
from board.core.groups.statistics import correctness_column
from board.core.metrics.definitions import (
    REWARD_PART,
    Metric,
    in_menu_order,
    reward_parts,
    rollout_metric,
    token_metric,
)
from board.core.texts.conversation import ConversationTurn
from board.core.texts.messages import TOOL_ROLES, error_within
from board.core.texts.turns import (
    Turn,
    from_markers,
    from_messages,
    of_tokens,
    over_tokens,
    token_starts,
    without_markers,
)
from board.core.tokens.pieces import joined
from board.query.open_run import Run
from board.query.rollouts import joined_places
from board.views.shared import cache, state
from board.views.shared.background import show_progress
from board.views.shared.text import number, one_line

MaskedFloats = np.ma.MaskedArray[Any, np.dtype[np.float64]]

_MARKER_CHARACTERS: Final = 32
_MARKER_TOKENS: Final = 6
"""What a chat template writes before a message is at most so long."""
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


def signature_of(run: Run, opened: OpenRollout) -> str:
    """Differs between any two contents of the reader."""
    place = f"{run.info.name}/{run.info.mtime}/{opened.step}/{opened.index}"
    chosen = "/".join(str(state.get(name)) for name in ("tokenizer", "think", "reader_as"))
    return f"{place}/{run.options.read}/{chosen}"


def has_tokens(opened: OpenRollout) -> bool:
    """Whether there is anything to show token by token."""
    recorded = opened.record.response_ids, opened.record.response_tokens
    return any(one is not None for one in recorded) or bool(opened.metrics)


def content_of(opened: OpenRollout) -> TokenContent:
    """A rollout as the reader takes it."""
    length = len(opened.tokens)
    # An array may be longer than there are tokens.
    count = max([length, *(len(values) for values in opened.metrics.values())])
    metrics = metrics_of(opened, count)
    ids = opened.record.response_ids
    return TokenContent(
        [*opened.tokens, *[""] * (count - length)],
        metrics,
        specs_of(metrics),
        loss_mask=metrics.get("loss_mask"),
        ids=None if ids is None or len(ids) != length else _fitted(ids.values(), count),
        surplus=count - length,
        segments=segments_of(opened, count),
        prompt=prompt_parts(opened),
        top_k=opened.top_k,
        advantage=opened.record.scores.get("advantage"),
        clip=opened.clip,
    )


def metrics_of(opened: OpenRollout, count: int) -> dict[str, MaskedFloats]:
    """Name -> [count] values in the order of the menu; what is not recorded is masked."""
    return {name: _fitted(opened.metrics[name], count) for name in in_menu_order(opened.metrics)}


def _fitted(values: FloatArray, length: int) -> MaskedFloats:
    """[length] values; NaN and what is missing at the end are masked. NaN alone was measured so."""
    recorded = np.asarray(values[:length], np.float64)
    padded = np.pad(recorded, (0, length - len(recorded)), constant_values=np.nan)
    missing = np.isnan(padded)
    if missing[: len(recorded)].all():
        missing[: len(recorded)] = False
    return np.ma.masked_array(padded, mask=missing)


def specs_of(metrics: Mapping[str, Any]) -> dict[str, Metric]:
    """Words for the arrays that the board knows; the reader finds words for the others itself."""
    known = {name: token_metric(name) for name in metrics}
    return {name: metric for name, metric in known.items() if metric.label != name}


def segments_of(opened: OpenRollout, count: int) -> list[TokenSegment]:
    """Who speaks in which of `count` tokens: as recorded, by chat markers, or by messages."""
    turns = of_tokens(opened.tokens, opened.record.segments, opened.record.messages)
    segments: list[TokenSegment] = []
    for turn in _covered(turns, count, role=""):
        error = ""
        if turn.role in TOOL_ROLES:
            text = without_markers(joined(opened.tokens[turn.start : turn.end]), closing=True)
            error = error_within(text, opened.record.messages)
        segments.append(TokenSegment(turn.start, turn.end, turn.role, turn.name, error))
    return segments


def prompt_parts(opened: OpenRollout) -> list[PromptPart]:
    """What was given to the model, by role: from its tokens, its text, or the messages before."""
    if opened.prompt_tokens is not None:
        return _parts_of_tokens(opened.prompt_tokens, opened)
    prompt = opened.record.texts.get("prompt")
    if prompt is not None:
        turns = from_markers(prompt) or from_messages(prompt, opened.record.messages)
        covered = _covered(turns, len(prompt), _MARKER_CHARACTERS)
        return [PromptPart(prompt[t.start : t.end], t.role, t.name) for t in covered]
    return _parts_of_messages(opened)


def _parts_of_tokens(tokens: Sequence[str], opened: OpenRollout) -> list[PromptPart]:
    text = joined(tokens)
    turns = from_markers(text, token_starts(tokens)) or from_messages(text, opened.record.messages)
    recorded = opened.record.prompt_ids
    ids = [] if recorded is None else recorded.values().tolist()
    parts: list[PromptPart] = []
    for turn in _covered(over_tokens(turns, tokens), len(tokens), _MARKER_TOKENS):
        own = tokens[turn.start : turn.end]
        known = ids[turn.start : turn.end] if len(ids) == len(tokens) else ()
        parts.append(PromptPart(joined(own), turn.role, turn.name, own, known))
    return parts


def _covered(
    turns: Sequence[Turn], length: int, marker: int = 0, role: str = "prompt"
) -> list[Turn]:
    """Turns without gaps. A gap of at most `marker` before a turn belongs to it, as its marker; any other
    is a turn of this role.
    """
    covered: list[Turn] = []
    position = 0
    for turn in turns:
        is_marker = turn.start - position <= marker
        if not is_marker:
            covered.append(Turn(position, turn.start, role))
        covered.append(replace(turn, start=position) if is_marker else turn)
        position = turn.end
    if position < length:
        covered.append(Turn(position, length, role))
    return covered


def _parts_of_messages(opened: OpenRollout) -> list[PromptPart]:
    """Messages up to the first one that is part of the response."""
    response = joined(opened.tokens)
    parts: list[PromptPart] = []
    for message in opened.record.messages:
        content = message.get("content")
        if not isinstance(content, str):
            continue
        if content.strip() and content.strip() in response:
            break
        role, name = str(message.get("role", "")), str(message.get("name") or "")
        parts.append(PromptPart(content, role, name))
    return parts


def step_spans(run: Run, step: int) -> dict[str, ScaleSpan]:
    """The range of each token metric over the rollouts of a step, for the colour scale."""
    spans = show_progress(
        cache.step_spans(run, step),
        f"Reading step {step}",
        describe=lambda done, total: f"{done:,} of {total:,} rollouts",
    )
    assert spans is not None, "nobody can stop it"
    part = "" if spans.read == spans.total else f"{spans.read} of "
    words = f"p1–p99 of the step's {part}{spans.total:,} rollouts"
    return {name: ScaleSpan(low, high, words) for name, (low, high) in spans.spans.items()}


def length_notes(opened: OpenRollout) -> list[str]:
    """Arrays that are longer or shorter than the response: values stay at the position they had."""
    length = len(opened.tokens)
    others: dict[int, list[str]] = defaultdict(list)
    for name, values in opened.metrics.items():
        if len(values) != length:
            others[len(values)].append(name)
    notes: list[str] = []
    for count, names in others.items():
        what = f"the last {length - count:,} tokens are shown without a value."
        if count > length:
            what = f"the last {count - length:,} are shown below as values without a token."
        verb = "has" if len(names) == 1 else "have"
        notes.append(f"{', '.join(names)} {verb} {count:,} entries for {length:,} tokens: {what}")
    return notes


def has_value(row: pd.Series[Any], name: str) -> bool:
    """Whether a row of the table of rollouts has something in this column."""
    return name in row and bool(pd.notna(row[name]))


def preview(text: Any) -> str:
    """The first words of a text, on one line."""
    start = str(text)[: 2 * _PREVIEW_CHARACTERS]
    return one_line(" ".join(start.split()), _PREVIEW_CHARACTERS)


def facts_of(
    run: Run, opened: OpenRollout, row: pd.Series[Any], turns: Sequence[ConversationTurn] | None
) -> Iterator[Fact]:
    """What is recorded of reward, lengths, ending and group. turns: of one shown as a conversation."""
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
        yield _count(len(opened.tokens), "token")
        return
    if len(turns) > 2:
        yield _count(len(turns), "turn")
    calls = sum(block.kind == "call" for turn in turns for block in turn.blocks)
    if calls:
        yield _count(calls, "tool call")
    roles = ("assistant", "response")
    length = sum(turn.length for turn in turns if turn.role in roles and not turn.given)
    # The list counts the recorded response: of several turns, that is another text.
    by = " by the model" if len(turns) > 2 else ""
    yield _count(length, "char", by, "Characters that the model wrote, without what tools answered")


def _count(count: int, noun: str, after: str = "", explained: str = "") -> Fact:
    return Fact("", f"{count:,}", f"{noun if count == 1 else f'{noun}s'}{after}", help=explained)


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
    files: list[Score] = []
    for place in (row, *joined_places(run, row)):
        file, line, size = (int(place[name]) for name in ("file", "line", "size"))
        files.append(Score(run.info.path_of(run.info.files[file]), f"line {line}, {size:,} bytes"))
    text = _as_json(opened.line, indent=2) if raw else ""
    if len(text) > _LONGEST_RECORD:
        cut = f"… cut after {_LONGEST_RECORD:,} of {len(text):,} characters"
        text = f"{text[:_LONGEST_RECORD]}\n{cut}"
    return [
        *(Detail(TEXTS[name], record.texts[name]) for name in TEXTS if name in record.texts),
        Detail("Scores", rows=_scores(row) or [Score("no score", "not recorded")]),
        *([Detail("Other columns", rows=extras)] if extras else []),
        Detail("Place in the log", rows=files),
        Detail("Raw record", text, tall=True) if raw else Detail("Raw record", ask="raw"),
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
