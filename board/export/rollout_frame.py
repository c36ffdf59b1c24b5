"""What surrounds a rollout in the reader: facts above it, its turns, notes, and details beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from board.analysis.rollout import OpenRollout
from board.components.reader.frame import Detail, Fact, Frame, Score
from board.components.token_data import TokenContent
from board.core.metrics.definitions import REWARD_PART, reward_parts, rollout_metric
from board.core.texts.conversation import ConversationTurn, conversation_of, think_tags
from board.export.display_text import number, one_line
from board.export.rollout_content import content_of, has_tokens
from board.export.rollout_facts import TEXTS, has_text, has_value, notes_of, scores_of
from board.query.groups import rule_of
from board.query.open_run import Run
from board.query.rollouts import joined_places

_SOLVED_HELP: Final = (
    "Solved: right by the rule that solve rates have, of the rollouts that it judges (Run settings: "
    "Right from a score of)"
)
_PREVIEW_CHARACTERS: Final = 160
_LONGEST_EXTRA: Final = 400
_LONGEST_RECORD: Final = 2_000_000
"""Characters of a record that a page shows; more of it would hold up the browser."""
_LONGEST_DATA: Final = 1024
"""Characters of an address `data:` that are copied with the messages."""


def content_and_frame(
    run: Run,
    opened: OpenRollout,
    *,
    read: Literal["", "tokens", "text"] = "",
    think: str = "",
    raw: bool = False,
    ids_note: str = "",
) -> tuple[TokenContent, Frame]:
    """A rollout by its tokens, or as a conversation, and what surrounds it.

    read: which of the two, where both are recorded; "" for what suits the rollout. think: names of
    reasoning tags, separated by commas; "" for the usual ones. raw: with the record of the log, else a
    button that asks for it. ids_note: said over tokens that are shown as ids.
    """
    turns = _turns(opened, read, think)
    content = TokenContent([], {}) if turns is not None else content_of(opened)
    row: Mapping[str, Any] = run.row(opened.step, opened.index)
    frame = Frame(
        title=f"Rollout {opened.index}",
        place=(opened.step, opened.index),
        facts=[*facts_of(run, opened, row, turns)],
        notes=_notes(opened, ids_note if turns is None else ""),
        details=details_of(run, opened, row, raw=raw),
        turns=turns,
        messages=_messages_text(opened),
        can_switch=has_tokens(opened) and has_text(opened),
    )
    return content, frame


def _turns(opened: OpenRollout, read: str, think: str) -> list[ConversationTurn] | None:
    """The rollout as a conversation, where no tokens are recorded or the text is asked for."""
    # Ids that nothing decodes say nothing to a reader: the text comes first there.
    as_text = read == "text" or (not read and opened.tokens_are_ids)
    if has_tokens(opened) and not (as_text and has_text(opened)):
        return None
    return conversation_of(opened.record.messages, opened.record.texts, think_tags(think))


def _notes(opened: OpenRollout, ids_note: str) -> list[str]:
    """What the reader should know of how the rollout was read, in sentences."""
    notes = [one_line(note, 400) for note in notes_of(opened)]
    if opened.tokens_are_ids and ids_note:
        notes.append(one_line(ids_note, 400))
    if has_tokens(opened) and opened.tokens and not opened.metrics:
        notes.append("The log holds tokens of this rollout and no values for them.")
    return notes


def _messages_text(opened: OpenRollout) -> str:
    """The messages as JSON for copying; data of images are left out."""
    if not opened.record.messages:
        return ""
    try:
        messages = _without_data(list(opened.record.messages))
        return json.dumps(messages, indent=1, ensure_ascii=True, default=str)
    except RecursionError:
        return ""


def _without_data(value: Any) -> Any:
    """The value with long `data:` addresses cut after their type."""
    if isinstance(value, str):
        is_data = value.startswith("data:") and len(value) > _LONGEST_DATA
        return f"{value.partition(',')[0]},…" if is_data else value
    if isinstance(value, Mapping):
        return {str(name): _without_data(one) for name, one in value.items()}
    return [_without_data(one) for one in value] if isinstance(value, list) else value


def preview(text: Any) -> str:
    """The first words of a text, on one line."""
    start = str(text)[: 2 * _PREVIEW_CHARACTERS]
    return one_line(" ".join(start.split()), _PREVIEW_CHARACTERS)


def facts_of(
    run: Run, opened: OpenRollout, row: Mapping[str, Any], turns: Sequence[ConversationTurn] | None
) -> Iterator[Fact]:
    """What is recorded of reward, lengths, ending and group. turns: of one shown as a conversation."""
    parts = " · ".join(
        f"{one_line(name.removeprefix(REWARD_PART), 24)} {number(float(row[name]))}"
        for name in reward_parts(row.keys())
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


def _token_mean(row: Mapping[str, Any], name: str, label: str) -> Iterator[Fact]:
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


def _solved(run: Run, row: Mapping[str, Any]) -> str:
    """How many rollouts of the group are right, in words; empty where the rewards do not show it."""
    # Of a group all rollouts count, also those that are not chosen.
    rows = (run.whole or run).of_step(int(row["step"]))
    rule = rule_of(run)
    if rule.column not in rows or math.isnan(rule.right_from):
        return ""
    values = rows.loc[rows["group_id"] == row["group_id"], rule.column].dropna()
    right, wrong = (values >= rule.right_from).sum(), (values <= rule.wrong_to).sum()
    return f"· {right}/{right + wrong} solved" if right + wrong else ""


def details_of(run: Run, opened: OpenRollout, row: Mapping[str, Any], *, raw: bool) -> list[Detail]:
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


def _scores(row: Mapping[str, Any]) -> list[Score]:
    return [
        Score(own.label, f"{number(value, own.unit)} {own.unit_after_label}".rstrip(), own.formula)
        for own, value in scores_of(row)
    ]


def _as_json(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):  # ValueError: nested within itself
        return "The record is nested too deep to be shown."
