"""Chat messages as most logs have them, parsed without a dict for each: what a table needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from board.readers.messages import message_text
from board.readers.texts import (
    BEGINNING,
    CUT,
    PREVIEW_CHARS,
    BegunTexts,
    LongText,
    Values,
    Words,
    cut_text,
)


class SaidMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message of text alone, tool calls as JSON in texts. Equal ones have equal texts."""

    role: str
    content: str | None = None
    tool_calls: list[str] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    def told(self) -> str:
        """As message_text."""
        text = self.content or ""
        try:
            for call in self.tool_calls or ():
                parsed = _parsed(call)
                called = parsed.function or parsed
                text += f"\n[tool call] {called.name}({called.arguments})"
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return message_text({"content": self.content, "tool_calls": self.tool_calls})
        return text if self.content else text[1:]


class _Function(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What a tool call calls."""

    name: str = "?"
    arguments: str = ""


class _Call(_Function, forbid_unknown_fields=True, gc=False):
    """A tool call of the usual keys alone: the function's beside its id, or within it."""

    id: str | None = None
    type: str | None = None
    function: _Function | None = None


_parsed = msgspec.json.Decoder(_Call).decode


Said = str | list[SaidMessage] | None


def begun_said(values: Sequence[Said], kind: LongText) -> tuple[BegunTexts, list[int]]:
    """As texts.begun_texts, of texts and lists of SaidMessages. One that is given for several rows that
    follow each other is looked at once.
    """
    previews: Values = []
    lengths: Values = []
    last: Said = None
    preview = length = None
    alone = int(kind.generated)
    for one in values:
        if one is not last and (one or one != last):  # nor does an empty list after another
            last = one
            if type(one) is list and len(one) > alone:
                # As conversation_text. In functions of its own it would take half as long again.
                beginning, length = "", -2
                for message in one:
                    role, text = message.role, message.content
                    if text is None or message.tool_calls is not None:
                        text = message.told()
                    length += len(role) + len(text) + 5
                    if not beginning:
                        beginning = f"[{role}]\n{text[:BEGINNING]}"
                    elif len(beginning) < BEGINNING:
                        beginning = f"{beginning}\n\n[{role}]\n{text[:BEGINNING]}"
                preview = beginning
                if length > PREVIEW_CHARS:
                    try:
                        preview = beginning[: PREVIEW_CHARS - 1].encode() + CUT
                    except UnicodeEncodeError:
                        preview = cut_text(beginning, PREVIEW_CHARS, CUT)
            else:
                preview, length = _alone(one, kind)
        previews.append(preview)
        lengths.append(length)
    if None not in lengths:
        return BegunTexts(Words(previews), lengths), []
    both = enumerate(zip(values, lengths, strict=True))
    odd = [row for row, (one, length) in both if length is None and one is not None]
    return BegunTexts(previews, lengths), odd


def _alone(one: Said, kind: LongText) -> tuple[Any, int | None]:
    """The text of what is no conversation, and its length; None where it says nothing."""
    if one:
        if isinstance(one, str):
            text = one
        elif (text := one[0].content) is None or one[0].tool_calls is not None:
            text = one[0].told()
        return cut_text(text, PREVIEW_CHARS, CUT), len(text)
    says_nothing = one == "" or (one is not None and kind.may_be_empty)
    return ("", 0) if says_nothing else (None, None)
