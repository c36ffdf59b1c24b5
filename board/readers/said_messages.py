"""Chat messages as most logs have them, parsed without a dict for each: what a table needs of them."""

from __future__ import annotations

from collections.abc import Sequence

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

    @property
    def text(self) -> str:
        """As message_text."""
        if self.tool_calls is None:
            return self.content or ""
        try:
            calls = [_parsed(call) for call in self.tool_calls]
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return message_text({"content": self.content, "tool_calls": self.tool_calls})
        told = [f"[tool call] {call.name}({call.arguments})" for call in calls]
        return "\n".join([self.content, *told] if self.content else told)


class _Call(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A tool call of the usual keys alone."""

    name: str
    arguments: str
    id: str = ""
    type: str = ""


_parsed = msgspec.json.Decoder(_Call).decode


Said = str | Sequence[SaidMessage] | None


def begun_said(values: Sequence[Said], kind: LongText) -> tuple[BegunTexts, list[int]]:
    """As texts.begun_texts, of texts and lists of SaidMessages."""
    previews: Values = []
    lengths: Values = []
    odd: list[int] = []
    last: Said = None
    preview = length = None
    for row, one in enumerate(values):
        if one != last:  # nearly all rollouts of a prompt follow each other
            last, preview, length = one, None, None
            found = None if one is None else _begun(one, kind)
            if found is not None:
                beginning, length = found
                preview = cut_text(beginning, PREVIEW_CHARS, CUT)
        if length is None and one is not None:
            odd.append(row)
        previews.append(preview)
        lengths.append(length)
    return BegunTexts(previews if None in lengths else Words(previews), lengths), odd


def _begun(one: str | Sequence[SaidMessage], kind: LongText) -> tuple[str, int] | None:
    """The beginning and length of the text; None where there are no messages and that is no text."""
    if type(one) is str:
        return one, len(one)
    if not one:
        return ("", 0) if kind.may_be_empty else None
    messages: Sequence[SaidMessage] = one  # pyright: ignore[reportAssignmentType]  # no str: see above
    if kind.generated and len(messages) == 1:
        text = messages[0].text
        return text, len(text)
    beginning, length, between = "", -2, ""
    for message in messages:
        role = message.role
        text = message.content if message.tool_calls is None else message.text
        text = text or ""
        length += len(role) + len(text) + 5
        if len(beginning) < BEGINNING:
            beginning += f"{between}[{role}]\n{text[:BEGINNING]}"
        between = "\n\n"
    return beginning, length
