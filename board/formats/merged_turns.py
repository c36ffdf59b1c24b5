"""The rows of one trajectory, a row for each turn, as the fields of one rollout.

What each row repeats of the turns before is there once: a prompt or a conversation that begins with what
was said so far only adds what is new. Of other fields the rollout has the last value, and in `by_turn`
all of them where they differ, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core import schema
from board.core.records import Remark
from board.formats.field_values import EXTRA, FAILURE
from board.formats.fields import Fields
from board.formats.messages import is_messages
from board.formats.parse import is_list

BY_TURN: Final = "by_turn"
"""The field of a rollout that has the values of each of its rows, where they differ."""
_ARRAYS: Final = (
    *("response_ids", "response_tokens"),
    *(*schema.TOKEN_ARRAY_FIELDS, *schema.TOPK_FIELDS),
)
_JOINED: Final = frozenset(
    (*_ARRAYS, "prompt", "response", "messages", "segments", "prompt_ids", "remarks")
)
_REWARDS_DIFFER: Final = Remark(
    "reward",
    "the rows of a trajectory have different rewards",
    "the rollout has that of its last row; by_turn has each",
    "note",
)

_Message = Mapping[str, Any]


def merged_turns(rows: Sequence[Fields], left_out: Sequence[str] = ()) -> Fields:
    """The fields of the rollout whose turns these rows are, in order; at least one.

    left_out: fields that number the turns.
    """
    merged: Fields = {}
    by_turn: dict[str, list[Any]] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        if key in _JOINED or key in left_out:
            continue
        values = [row.get(key) for row in rows]
        recorded = [value for value in values if value is not None]
        merged[key] = recorded[-1] if recorded else None
        if any(value != recorded[0] for value in recorded) and key != FAILURE:
            by_turn[key.removeprefix(EXTRA)] = values
    remarks = dict.fromkeys(remark for row in rows for remark in row.get("remarks") or ())
    if "reward" in by_turn:
        remarks[_REWARDS_DIFFER] = None
    merged |= _conversation(rows) | _tokens(rows)
    if remarks:
        merged["remarks"] = (*remarks,)
    if by_turn:
        merged[BY_TURN] = by_turn
    return merged


def _conversation(rows: Sequence[Fields]) -> Fields:
    """Prompt, response and messages: turn after turn, each without what was said before."""
    said: list[_Message] = []
    before, answer = "", ""
    for row in rows:
        prompt, generated = row.get("prompt"), _generated(row.get("response"))
        if isinstance(prompt, str):
            given = _new_text(prompt, before, answer)
            said += [{"role": "user", "content": given}] if given else []
            said += generated
            before, answer = prompt, str(row.get("response") or "")
            continue
        messages = row.get("messages")
        if prompt is None and generated and is_messages(messages):  # they are what was given
            prompt = messages[:-1] if _is_same(messages[-1], generated[-1]) else messages
        _add_messages(said, [*(prompt if is_messages(prompt) else ()), *generated])
    asked = rows[0].get("prompt")
    if isinstance(asked, str):
        response = said[1:] if asked else said
    else:
        count = len(asked) if is_messages(asked) else 0
        asked, response = said[:count] or None, said[count:]
    fields: Fields = {"prompt": asked, "response": response or None}
    if said:
        fields["messages"] = said
    return fields


def _generated(response: Any) -> list[_Message]:
    if is_messages(response):
        return [*response]
    return [] if response is None else [{"role": "assistant", "content": response}]


def _new_text(prompt: str, before: str, answer: str) -> str:
    """What a prompt adds to the one before and its answer; all of it where it does not begin with it."""
    if not before or not prompt.startswith(before):
        return prompt
    rest = prompt[len(before) :]
    for text in (answer, answer.strip()):
        if text and text in rest:
            head, _, tail = rest.partition(text)
            return f"{head.strip()}\n{tail.strip()}".strip()
    return rest.strip()


def _add_messages(said: list[_Message], messages: Sequence[_Message]) -> None:
    """Adds the messages of a turn that were not said before; its last one is new in any case."""
    known = 0
    while known < min(len(said), len(messages)) and _is_same(said[known], messages[known]):
        known += 1
    said[:known] = [max(pair, key=len) for pair in zip(said[:known], messages, strict=False)]
    if known == len(said):
        said += messages[known:]
        return
    *others, last = messages
    places = [i for i, message in enumerate(others) if _is_same(message, said[-1])]
    after = places[-1] + 1 if places else len(others)
    early = [message for message in others[:after] if not any(_is_same(message, m) for m in said)]
    said += [*early, *others[after:], last]


def _is_same(one: _Message, other: _Message) -> bool:
    """Whether two messages are one that was logged twice, perhaps with more beside its text."""
    if one == other:
        return True
    said = one.get("content") or one.get("tool_calls")
    if not said or any(one.get(key) != other.get(key) for key in ("role", "content", "tool_calls")):
        return False
    return one.items() >= other.items() or other.items() >= one.items()


def _tokens(rows: Sequence[Fields]) -> Fields:
    """The token arrays of all turns, one after the other, and which turn each token is of."""
    names = [n for n in _ARRAYS if any(row.get(n) is not None for row in rows)]
    fields: Fields = {"prompt_ids": rows[0].get("prompt_ids")}
    if not any(is_list(row.get(name)) for name in names for row in rows):
        return fields | {name: rows[-1].get(name) for name in names}
    counts = [_count(row, names) for row in rows]
    for name in names:
        missing = 1 if name == "loss_mask" else None
        pairs = zip(rows, counts, strict=True)
        parts = [_of_tokens(row.get(name), count, missing) for row, count in pairs]
        fields[name] = [value for part in parts for value in part]
    return fields | {"segments": _segments(rows, counts)}


def _count(row: Fields, names: Sequence[str]) -> int:
    return next((len(row[name]) for name in names if is_list(row.get(name))), 0)


def _of_tokens(value: Any, count: int, missing: int | None) -> list[Any]:
    """The values of a turn's tokens; a number stands for each of them."""
    return value if is_list(value) else [missing if value is None else value] * count


def _segments(rows: Sequence[Fields], counts: Sequence[int]) -> list[dict[str, Any]]:
    segments: list[dict[str, Any]] = []
    begin = 0
    for number, (row, count) in enumerate(zip(rows, counts, strict=True), 1):
        logged = row.get("segments")
        if is_messages(logged):
            for segment in logged:
                ends = {key: segment.get(key) for key in ("start", "end")}
                moved = {k: begin + v for k, v in ends.items() if isinstance(v, int)}
                segments.append({**segment, **moved})
        elif count:
            turn = {"start": begin, "end": begin + count, "role": "assistant"}
            segments.append({**turn, "name": f"turn {number}"})
        begin += count
    return segments
