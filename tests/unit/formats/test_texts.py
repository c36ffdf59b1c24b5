"""Texts of a column, of messages and of a list say the same, whole and cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.formats.messages import conversation_text, response_text
from board.formats.stored_texts import StoredTexts
from board.formats.texts import PREVIEW_CHARS, PlainTexts, SpokenTexts, Texts, Words

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


def told(texts: Texts) -> Any:
    """All that a scan asks of texts."""
    previews = [one.decode() if isinstance(one, bytes) else one for one in listed(texts.previews())]
    cut = texts.cut_texts()
    return texts.whole(), list(texts.lengths()), previews, cut if cut is None else listed(cut)


def listed(values: Any) -> list[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else list(values)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(TEXTS | st.none(), max_size=9), large=st.booleans(), data=st.data())
def test_a_stored_column_says_what_its_texts_say(rows, large, data):
    kind = pa.large_string() if large else pa.string()
    first = data.draw(st.integers(0, len(rows)))
    kept = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))[first:]
    stored, plain = StoredTexts(pa.array(rows, kind)[first:]), PlainTexts(rows[first:])
    assert told(stored) == told(plain)
    assert told(stored.kept(kept)) == told(plain.kept(kept))


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(TEXTS, st.integers(0, 300)) | st.none()), large=st.booleans())
def test_a_stored_column_begins_as_its_texts_begin(rows, large):
    texts = [None if row is None else row[0] * (row[1] // (len(row[0]) or 1)) for row in rows]
    texts += ["é" * n + "b" * m for n in (239, 240, 241) for m in (0, 1)]
    stored = StoredTexts(pa.array([None, *texts], pa.large_string() if large else None)[1:])
    assert stored.previews().type == pa.string()
    assert told(stored) == told(PlainTexts(texts))


@pytest.mark.parametrize("generated", [True, False])
@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(TEXTS | st.none() | st.lists(MESSAGES, min_size=1, max_size=3), max_size=5),
    long=st.sampled_from([1, 100]),
)
def test_a_conversation_says_what_its_text_says(generated, rows, long):
    for row in rows:
        for message in row if isinstance(row, list) else []:
            if isinstance(message["content"], str):
                message["content"] *= long
    text_of = response_text if generated else conversation_text
    plain = PlainTexts([text_of(row) if isinstance(row, list) else row for row in rows])
    spoken = SpokenTexts(rows, generated=generated)
    assert told(spoken) == told(plain)
    kept = [bool(place % 2) for place in range(len(rows))]
    assert told(spoken.kept(kept)) == told(plain.kept(kept))


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.sampled_from(["a", "é" * 240, "b" * 241, "é" * 300]), max_size=9))
def test_a_text_is_stored_whole_where_its_preview_is_cut(rows):
    texts = PlainTexts(Words(rows))
    long = [row if len(row) > PREVIEW_CHARS else None for row in rows]
    assert texts.cut_texts() == (long if any(long) else None)
