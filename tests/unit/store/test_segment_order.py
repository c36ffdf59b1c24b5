"""Rows that are said to stand in order do, and what is read of them is what is read of others."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from board.store.discovery import discover, location_of
from board.store.manifest import Segment
from board.store.run import open_run
from board.store.segment_order import ends_of, stand_in_order

ROOT = Path(__file__).parents[3]


def _rows(*places: tuple[int, int, int | None, int, int]) -> pa.Table:
    columns = zip(*places, strict=True)
    names = ("step", "file", "rank", "line", "part")
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(names, columns, strict=True)})


@pytest.mark.parametrize(
    ("places", "is_known"),
    [
        ([(0, 0, 0, 1, 0), (0, 0, 0, 2, 0), (0, 0, 1, 1, 0), (1, 0, 0, 3, 0)], True),
        ([(0, 1, 0, 9, 0), (1, 0, 0, 1, 0)], True),  # another step, whichever file comes first
        ([(0, 0, 0, 1, 1), (0, 0, 0, 1, 2)], True),
        ([(0, 0, 0, 2, 0), (0, 0, 0, 1, 0)], False),
        ([(0, 0, 1, 1, 0), (0, 0, 0, 2, 0)], False),
        ([(0, 0, 0, 1, 0), (0, 1, 0, 1, 0)], False),  # files of one step have no order yet
        ([(1, 0, 0, 1, 0), (0, 0, 0, 2, 0)], False),
        ([(0, 0, 0, 1, 0), (0, 0, None, 2, 0)], False),  # the file's header may name its rank
    ],
)
def test_rows_in_order_are_known_within_a_segment_and_across_two(
    places: list[tuple[int, int, int | None, int, int]], is_known: bool
) -> None:
    found = ends_of(_rows(*places))
    assert (found is not None) == is_known
    each = [Segment("", 1, 0, 0, (), (), ends_of(_rows(place))) for place in places]
    assert stand_in_order(each) == is_known
    if found is not None:
        assert found == (places[0], places[-1])


def test_a_log_in_order_is_read_alike_whether_that_is_known_or_not(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "rollout_samples" / "ppo_critic", tmp_path / "run")
    run = open_run(discover(location_of(str(tmp_path))).runs[0])
    index = run.shown.index
    assert index.stands_in_order
    unknown = tuple(replace(segment, ends=None) for segment in index.manifest.segments)
    again = replace(index, manifest=replace(index.manifest, segments=unknown))
    assert not again.stands_in_order
    step = next(iter(run.counts))
    assert again.visible((step, step), None).equals(index.visible((step, step), None))
    rows = run.stored_rows(step, ("reward",)).frame(("reward", "index"))
    assert rows.equals(run.rows_of(step, ("reward",))[[*rows.columns]])
