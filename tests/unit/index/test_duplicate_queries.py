"""The queries for copies find what a plain reading of their rules finds."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from board.query import duplicates
from board.query.database import database_of

Dumps = dict[tuple[int, int], list[int]]
"""By file and step the keys of its lines."""
DUMPS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(1, 3)),
    st.lists(st.sampled_from([0, 1, 1, 2, 3]), min_size=1, max_size=5),
    max_size=8,
)


def tells(keys: list[int]) -> bool:
    """Whether an equal dump is no chance."""
    return len(set(keys)) > 1 and 0 not in keys


def copied(dumps: Dumps) -> set[tuple[int, int]]:
    """Dumps of an earlier file too, from the first step on that both hold."""
    found: set[tuple[int, int]] = set()
    files = sorted({file for file, _ in dumps})
    for file in files:
        for earlier in (other for other in files if other < file):
            shared = [step for step in (1, 2, 3) if {(file, step), (earlier, step)} <= {*dumps}]
            for step in shared:
                own = dumps[file, step]
                if own != dumps[earlier, step] or not tells(own):
                    break
                found.add((file, step))
    return found


def merged(dumps: Dumps) -> set[tuple[int, int]]:
    """Dumps that hold all lines of several others and none else."""
    found: set[tuple[int, int]] = set()
    for (file, step), keys in dumps.items():
        whole = Counter(keys)
        others = [Counter(own) for (f, s), own in dumps.items() if f != file and s == step]
        inside = [part for part in others if part < whole]
        if len(inside) > 1 and sum(inside, Counter[int]()) == whole and tells(keys):
            found.add((file, step))
    return found


@pytest.mark.parametrize(
    ("query", "expected"),
    [(duplicates._COPIED_STEPS, copied), (duplicates._MERGED_FILES, merged)],
    ids=["copied steps", "merged files"],
)
@settings(max_examples=150, deadline=None)
@given(dumps=DUMPS, split=st.booleans())
def test_copies_are_those_of_the_rule(query, expected, dumps: Dumps, split: bool) -> None:
    if split and (0, 1) in dumps:  # one file of the lines of two others
        dumps = {**dumps, (1, 1): dumps[0, 1][::2], (2, 1): dumps[0, 1][1::2] or [3]}
    rows = [
        (file, file, step, line, 0, key)
        for (file, step), keys in dumps.items()
        for line, key in enumerate(keys)
    ]
    columns = [*zip(*rows, strict=True)] if rows else [()] * len(duplicates._SCHEMA)
    arrays = [pa.array(column, pa.int64()) for column in columns]
    with database_of().cursor() as cursor:
        cursor.register("candidates", pa.table(arrays, schema=duplicates._SCHEMA))
        found = cursor.sql(query).to_arrow_table().to_pylist()
    assert {(row["file"], row["step"]) for row in found} == expected(dumps)
    assert len(found) == sum(len(dumps[at]) for at in expected(dumps))
