"""Which columns make a curve."""

from __future__ import annotations

from board.index.segments import Column
from board.query.columns import metrics_of


def test_numbers_that_tell_rollouts_apart_make_no_curve():
    ids = ("sample_idx", "taskId", "dataset.index", "request-uid", "id", "ID")
    curves = ("reward", "rewards.idx", "valid", "fluid", "idx_share", "tool_calls")
    held = [Column(name, numbers=True) for name in (*ids, *curves)]
    assert {*metrics_of(held)} == {*curves}
