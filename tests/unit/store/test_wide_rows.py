"""What is kept by row is the table that was put: whole, some of its columns, and some of its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from board.store.storage import FolderStorage


@pytest.fixture(scope="module")
def table() -> pa.Table:
    dice = np.random.default_rng(0)
    count = 700
    numbers = dice.normal(size=count)
    numbers[[3, 300]] = np.nan, -np.inf
    return pa.table(
        {
            "step": np.arange(count) % 9,
            "mean": numbers,
            "env": pa.array(np.repeat(["a", "b", "a", "é"], count // 4)),
            "count": dice.integers(-(2**62), 2**62, count),
            "some": pa.array([None if n % 7 else n for n in range(count)], pa.int64()),
            "split": pa.array(["train", None] * (count // 2)),
            "ranks": pa.array([[*range(n % 3)] for n in range(count)], pa.list_(pa.int64())),
        }
    )


def same(found: pa.Table, expected: pa.Table) -> bool:
    """NaN is NaN, too."""
    return found.schema.equals(expected.schema) and str(found.to_pydict()) == str(
        expected.to_pydict()
    )


@pytest.mark.parametrize("names", [None, ("mean", "step", "no such"), ("ranks", "env"), ("count",)])
def test_a_table_kept_by_row_is_read_as_it_was(
    tmp_path: Path, table: pa.Table, names: tuple[str, ...] | None
) -> None:
    storage = FolderStorage(tmp_path)
    name = storage.put("env_checks", table)
    expected = table if names is None else table.select([n for n in names if n != "no such"])
    for _ in range(2):  # the second time its footer is known
        assert same(storage.get(name, names), expected)
        places = np.array([699, 0, 5, 255, 256, 5])
        if names is not None:
            assert same(storage.take(name, names, places), expected.take(pa.array(places)))
    assert same(storage.take(name, ("mean",), np.zeros(0, np.int64)), table.select(["mean"])[:0])


def test_rows_of_an_environment_or_a_split_are_found_where_they_are(
    tmp_path: Path, table: pa.Table
) -> None:
    storage = FolderStorage(tmp_path)
    for kind in ("env_steps", "groups"):  # by row, and not
        name = storage.put(kind, table)
        for column, texts in (("env", ("é", "a")), ("env", ("z",)), ("split", ("train",))):
            held = np.isin(np.array(table.column(column).to_pylist(), object), texts)
            assert storage.places(name, column, texts).tolist() == np.flatnonzero(held).tolist()
        assert storage.places(name, "no such", ("a",)).tolist() == []
