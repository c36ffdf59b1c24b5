"""Texts that are looked at in part say what the whole texts say."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.readers.messages import conversation_text, is_messages, response_text
from board.readers.said_messages import SaidMessage, begun_said
from board.readers.stored_texts import StoredTexts
from board.readers.texts import LongText, PlainTexts, SpokenTexts, Texts, begun_texts

SIGN = "…".encode()
SIZE = 8
CHARS = st.characters(exclude_categories=["Cs"]) | st.sampled_from("ab\0’é\U0001f600")
TEXTS = st.text(CHARS, max_size=3 * SIZE)
PARTS = st.sampled_from([{"type": "text", "text": "é" * 9}, {"type": "image"}, "a", None])
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", None, 3]),
        "content": TEXTS | st.none() | st.lists(PARTS, max_size=2),
    },
    optional={
        "tool_calls": st.sampled_from([None, ['{"name": "add", "arguments": "{}"}'], [3], "x"]),
        "reasoning": TEXTS,
    },
)


def told(texts: Texts, size: int) -> Any:
    """All that a scan asks of texts, what was cut as text."""
    cut = [one.decode() if isinstance(one, bytes) else one for one in texts.cut(size, SIGN)]
    return texts.whole(), list(texts.lengths()), cut


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(TEXTS | st.none(), max_size=9), large=st.booleans(), data=st.data())
def test_a_stored_column_says_what_its_texts_say(rows, large, data):
    kind = pa.large_string() if large else pa.string()
    first = data.draw(st.integers(0, len(rows)))
    kept = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))[first:]
    stored, plain = StoredTexts(pa.array(rows, kind)[first:]), PlainTexts(rows[first:])
    assert told(stored, SIZE) == told(plain, SIZE)
    assert told(stored.kept(kept), SIZE) == told(plain.kept(kept), SIZE)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(TEXTS, st.integers(0, 300)) | st.none()), large=st.booleans())
def test_a_stored_column_begins_as_its_texts_begin(rows, large):
    texts = [None if row is None else row[0] * (row[1] // (len(row[0]) or 1)) for row in rows]
    texts += ["é" * n + "b" * m for n in (239, 240, 241) for m in (0, 1)]
    stored = StoredTexts(pa.array([None, *texts], pa.large_string() if large else None)[1:])
    assert stored.previews().type == pa.string()
    assert stored.previews().to_pylist() == said(PlainTexts(texts))[0]


@pytest.mark.parametrize("generated", [True, False])
@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(TEXTS | st.none() | st.lists(MESSAGES, min_size=1, max_size=3), max_size=5),
    size=st.sampled_from([2, SIZE, 511, 512, 600]),
    long=st.sampled_from([1, 100]),
)
def test_a_conversation_says_what_its_text_says(generated, rows, size, long):
    for row in rows:
        for message in row if isinstance(row, list) else []:
            if isinstance(message["content"], str):
                message["content"] *= long
    text_of = response_text if generated else conversation_text
    plain = PlainTexts([text_of(row) if isinstance(row, list) else row for row in rows])
    spoken = SpokenTexts(rows, generated=generated)
    assert told(spoken, size) == told(plain, size)
    kept = [bool(place % 2) for place in range(len(rows))]
    assert told(spoken.kept(kept), size) == told(plain.kept(kept), size)


SAME = st.sampled_from([{"role": "user", "content": "é" * n} for n in (1, 300)])
ANYTHING = TEXTS | st.none() | st.lists(MESSAGES | SAME, max_size=3)
ODD = st.sampled_from([0, 1.5, True, {}, {"role": "user"}, [3], ["role"], [{}], [None], [["role"]]])
EQUAL = st.sampled_from([[{"role": "user", "content": one}] * 2 for one in (1, True, 1.0)])


@pytest.mark.parametrize("kind", [LongText(False), LongText(True), LongText(True, True)], ids=str)
@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ANYTHING | ODD | EQUAL, max_size=8))
def test_what_is_kept_of_a_text_is_what_its_row_shows(kind, rows):
    rows = [row for row in rows for _ in range(2)]  # a prompt follows itself
    begun, odd = begun_texts(rows, kind)
    is_empty = [kind.may_be_empty and isinstance(row, list) and not row for row in rows]
    plain = [is_messages(row) or isinstance(row, str | None) for row in rows]
    assert odd == [i for i in range(len(rows)) if not plain[i] and not is_empty[i]]
    text_of = response_text if kind.generated else conversation_text
    texts = PlainTexts(
        [
            text_of(row) if is_messages(row) else "" if empty else row
            for row, empty in zip(rows, is_empty, strict=True)
        ]
    )
    kept = [row not in odd for row in range(len(rows))]
    assert said(begun.kept(kept)) == said(texts.kept(kept))


def said(texts: Texts) -> Any:
    """What a table has of texts, what was cut as text."""
    previews = texts.previews()
    return [p.decode() if isinstance(p, bytes) else p for p in previews], [*texts.lengths()]


SAID = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", ""])},
    optional={
        "content": TEXTS | st.none(),
        "tool_call_id": st.none() | st.just("c0"),
        "tool_calls": st.none()
        | st.lists(
            st.sampled_from(
                [
                    '{"name": "add", "arguments": "{}", "id": "c0"}',
                    '{"id": 3, "function": {"name": "add", "arguments": {"a": 1e400}}}',
                    '{"name": "add", "name": "b", "arguments": "\\ud800"}',
                    '{"arguments": "x"}',
                    '{"id": "c0", "type": "function", "function": {"arguments": "{}", "name": "add"}}',
                    '{"name": "a", "function": {"arguments": "x"}, "type": null}',
                    '{"name": "a", "function": null}',
                    '{"name": "a", "function": "b"}',
                    '{"name": null, "index": 0}',
                    "[1]",
                    "",
                ]
            )
        ),
    },
)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(TEXTS | st.none() | st.lists(SAID, max_size=3), max_size=6),
    generated=st.booleans(),
    may_be_empty=st.booleans(),
)
def test_messages_without_dicts_say_what_those_of_dicts_say(rows, generated, may_be_empty):
    kind = LongText(generated, may_be_empty)
    parsed = msgspec.convert(rows, list[str | list[SaidMessage] | None])
    (begun, odd), (expected, expected_odd) = begun_said(parsed, kind), begun_texts(rows, kind)
    assert (said(begun), odd) == (said(expected), expected_odd)
