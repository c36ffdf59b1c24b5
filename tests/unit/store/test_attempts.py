from __future__ import annotations

import numpy as np
import pytest

from board.store.attempts import attempts_of
from board.store.manifest import short_header
from board.store.tally import Tally


def written_again(steps: np.ndarray) -> np.ndarray:
    """Which rollouts, one a line, a restart wrote again; bool [n]."""
    tally = Tally()
    lines = np.arange(len(steps))
    tally.add_rows(steps, lines)
    lost = np.zeros(len(steps), bool)
    for restart in tally.restarts():
        lost |= (lines < restart.line) & (steps >= restart.step)
    return lost


def superseded(*steps: int) -> list[int]:
    """Positions that were written again."""
    return np.flatnonzero(written_again(np.array(steps, np.int64))).tolist()


@pytest.mark.parametrize(
    ("steps", "lost"),
    [
        ((), []),
        ((1,), []),
        ((1, 1, 2, 2, 3), []),
        ((0, 10, 20, 35), []),
        ((1, 2, 3, 2, 3, 4), [1, 2]),
        ((1, 2, 3, 1, 2, 3), [0, 1, 2]),
        ((1, 1, 2, 2, 3, 2, 2, 3, 3), [2, 3, 4]),
        ((1, 2, 3, 3, 2, 3, 2, 3), [1, 2, 3, 4, 5]),
        ((1, 1, 2, 2, 1), [0, 1, 2, 3]),
        ((1, 2, 3, 0, 5), []),
    ],
)
def test_what_a_restart_writes_again_is_superseded(steps, lost):
    assert superseded(*steps) == lost


@pytest.mark.parametrize(
    "steps",
    [
        (1, 1, 1, 2, 1, 2, 2, 2),
        (1, 1, 1, 1, 2, 2, 1, 2, 3, 3, 2, 3),
    ],
)
def test_ranks_that_share_a_file_and_are_a_little_out_of_step_are_no_restart(steps):
    assert superseded(*steps) == []


def test_a_file_in_no_order_is_not_taken_for_restarts():
    steps = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 8))
    assert superseded(*steps) == []


def test_a_file_sorted_downwards_is_no_restart():
    assert superseded(*range(20, 0, -1)) == []


def test_no_rows_but_the_written_again_are_superseded_by_several_restarts():
    runs = [np.repeat(np.arange(start, start + 6), 4) for start in (0, 3, 5)]
    lost = written_again(np.concatenate(runs))
    kept = np.concatenate(runs)[~lost]
    assert np.unique(kept, return_counts=True)[1].tolist() == [4] * 11
    assert (np.diff(kept) >= 0).all()


def header(**fields):
    return short_header(fields)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "x", None, True, [1]])
def test_a_header_with_odd_values_is_read_as_saying_nothing(wrong):
    attempts, of_file = attempts_of(
        [header(attempt="a", started=wrong, start_step=wrong, world_size=wrong)]
    )
    assert of_file == ["a"]
    assert (attempts[0].started, attempts[0].start_step, attempts[0].world_size) == (0, None, None)


def test_attempts_are_ordered_by_when_they_started_and_not_by_name():
    files = [header(attempt="b", started=1), header(attempt="a", started=2), None]
    attempts, of_file = attempts_of(files)
    assert [attempt.name for attempt in attempts] == ["b", "a"]
    assert of_file == ["b", "a", None]
