"""Texts taken together are stored as those of a row are: a preview, and the whole where it is cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from board.core.options import ReadOptions
from board.formats.columns import ColumnBuilder
from board.formats.messages import conversation_text, response_text
from board.index.reading.record_row import PREVIEW_CHARS, preview, table_columns
from board.index.segments import WHOLE

CHARS = st.characters(exclude_categories=["Cs"]) | st.sampled_from("ab\0’é\U0001f600")
TEXTS = st.text(CHARS, max_size=24)
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
ROWS = st.lists(TEXTS | st.none() | st.lists(MESSAGES, min_size=1, max_size=3), min_size=1)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, times=st.sampled_from([1, 100]))
def test_texts_and_conversations_are_stored_as_those_of_a_row(rows, times):
    rows = [row * times if isinstance(row, str) else row for row in rows]
    rows += ["é" * n + "b" * m for n in (239, 240, 241) for m in (0, 1)]
    builder = ColumnBuilder(len(rows), ReadOptions())
    builder.take_exchange(rows, rows)
    found = table_columns(builder.build([1] * len(rows)))
    assert found is not None
    columns, _ = found
    for key, text_of in (("prompt", conversation_text), ("response", response_text)):
        texts = [text_of(row) if isinstance(row, list) else row for row in rows]
        assert columns[key].to_pylist() == list(map(preview, texts))
        cut = [text if text and len(text) > PREVIEW_CHARS else None for text in texts]
        assert columns[WHOLE + key].to_pylist() == cut
    assert columns["response_chars"] == [None if t is None else len(t) for t in texts]
    assert np.array_equal(columns["step"], np.ones(len(rows)))
