"""Keys of rows tell apart what the index holds of them, wherever they are stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.store.row_keys import FIRST_LOOK, row_keys, second_look
from board.store.segments import columns_of, joined, table_of

NAMES = ("size", "reward", "number:rewards.a", "number:rewards.b", "prompt", "response")


def stored(*rows: dict[str, Any]) -> pa.Table:
    return table_of([{"step": 1} | row for row in rows])


def keys_of(*rows: dict[str, Any]) -> list[int]:
    return row_keys(stored(*rows), NAMES).tolist()


def test_rows_that_differ_in_anything_that_is_looked_at_have_keys_of_their_own():
    """In the sign of two scores as well, in which name a value has, or in a zero at an end."""
    scores = [
        {"rewards.a": 1.0, "rewards.b": 1.0},
        {"rewards.a": -1.0, "rewards.b": -1.0},
        *({name: value} for name in ("rewards.a", "reward") for value in (0.0, 1.0, 0.5)),
        {"size": 0},
        {"size": 1},
    ]
    said = [
        *({}, {"prompt": ""}, {"prompt": "p"}, {"prompt": "p\0"}, {"response": "p"}),
        {"prompt": "p", "response": ""},
    ]
    signs = ["-" * 900, *("-" * place + "a" + "-" * (899 - place) for place in (0, 255, 256, 899))]
    long = [{"prompt": text} for text in (*signs, "-" * 256, "-" * 512, "é" * 450)]
    rows = [one | texts for one in scores for texts in (*said, *long)]
    assert len({*keys_of(*rows)}) == len(rows)
    assert keys_of({"size": None, "offset": 3}) == [0]


TEXT = st.none() | st.text(st.sampled_from("a\0é\U0001f600"), max_size=5).map(lambda t: t * 60)
NUMBER = st.none() | st.sampled_from([0.0, -0.0, 1.0, 1e300])
ROWS = st.lists(
    st.fixed_dictionaries(
        {"size": st.none() | st.integers(0, 2), "reward": NUMBER, "rewards.a": NUMBER},
        optional={"prompt": TEXT, "response": TEXT},
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(first=ROWS, others=ROWS, data=st.data())
def test_a_row_has_the_same_key_whatever_it_is_stored_with(first, others, data):
    rows = [*first, *others]
    alone = [keys_of(row)[0] for row in rows]
    assert keys_of(*rows) == alone
    pieces = joined([stored(*part) for part in (first, others) if part])
    at = data.draw(st.integers(0, len(rows)))
    assert row_keys(pieces.slice(at), NAMES).tolist() == alone[at:]
    cut = NAMES[: data.draw(st.integers(0, len(NAMES)))]
    looks = row_keys(pieces, cut) + row_keys(pieces, [n for n in NAMES if n not in cut])
    assert looks.tolist() == alone


@pytest.mark.parametrize("repeats", FIRST_LOOK)
def test_where_a_row_stands_is_not_looked_at(repeats):
    row = dict.fromkeys(("step", "line", "offset", "size", "file", "rank", "policy_version"), 1)
    told = {"reward": 1.0, "rewards.a": 1.0, "prompt": "p", "response": "r", "response_chars": 1}
    logged = {"note": "n", "seconds": 2.0, "group_id": "g", "kl_mean": 0.5, "split": "eval"}
    names = {*second_look(columns_of(table_of([row | told | logged])), repeats)}
    names |= {*FIRST_LOOK[repeats]}
    assert names.isdisjoint({"step", "line", "offset", "file", "rank", "split", "kl_mean"})
    assert names >= {"reward", "number:rewards.a", "prompt", "response", "response_chars"}
    by_lines = repeats in ("copied_steps", "merged_files")
    beside = {"size", "text:note", "number:seconds", "group_id", "policy_version"}
    assert names & beside == (beside if by_lines else set())


def test_a_table_of_no_rows_has_no_keys():
    assert row_keys(pa.table({"prompt": pa.array([], pa.string())}), NAMES).tolist() == []
