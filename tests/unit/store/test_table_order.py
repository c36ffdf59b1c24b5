"""Sorting a table: the first rows are those that sorting all of them would put first."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.store import text_order
from board.store.table import order_by, ordered


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("column", ["number", "whole", "kind", "text", "nothing"])
@pytest.mark.parametrize("limit", [None, 1, 7, 60, 200])
def test_the_first_rows_are_those_of_the_whole_table_sorted(column, descending, limit):
    random = np.random.default_rng(2)
    rows = pd.DataFrame(
        {
            "number": random.choice([0.0, 1.0, -2.5, np.nan], 100),
            "whole": random.integers(0, 9, 100),
            "kind": pd.Categorical(random.choice(["b", "a", "c", None], 100), ["c", "a", "b"]),
            "text": pd.Series(random.choice(["x", "z", "y", None], 100), dtype="str"),
            "nothing": np.full(100, np.nan),
        },
        index=np.arange(500, 600),
    )
    values = rows[column].astype(object) if column == "kind" else rows[column]
    whole = values.sort_values(ascending=not descending, kind="stable", na_position="last")
    found = ordered(rows, column, descending=descending, limit=limit)
    assert found.index.tolist() == whole.index.tolist()[:limit]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shared", ["", "the same beginning of all "])
@pytest.mark.parametrize("kinds", [3, 40, 100_000])
def test_texts_are_in_the_order_of_their_code_points(descending, shared, kinds, monkeypatch):
    dice = np.random.default_rng(3)
    alphabet = np.array(["a", "b", "\0", "é", "中", "𝄞", "\x7f"])
    words = ["".join(dice.choice(alphabet, dice.integers(0, 12))) for _ in range(kinds // 10 + 3)]
    chosen = [shared + words[i] for i in dice.integers(0, len(words), 3000)]
    texts = pd.Series([None if i % 50 == 7 else text for i, text in enumerate(chosen)], dtype="str")
    found = ordered(pd.DataFrame({"text": texts}), "text", descending=descending)
    places = [i for i, text in enumerate(texts) if isinstance(text, str)]
    places.sort(key=lambda i: texts[i], reverse=descending)
    assert found.index.tolist() == [*places, *range(7, 3000, 50)]
    monkeypatch.setattr(text_order, "_SAMPLE", 64)
    for limit in (1, 100, 2500, 2950, 2999):
        first = ordered(pd.DataFrame({"text": texts}), "text", descending=descending, limit=limit)
        assert first.index.tolist() == found.index.tolist()[:limit]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    st.booleans(),
)
def test_whole_numbers_of_any_range_are_in_their_order(numbers, descending):
    values = pd.Series(numbers, dtype="int64")
    expected = sorted(range(len(numbers)), key=lambda i: -numbers[i] if descending else numbers[i])
    assert order_by(values, descending=descending).tolist() == expected
