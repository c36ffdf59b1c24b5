"""Reading on a thread: what it finds, how it is stopped, and how it fails."""

from __future__ import annotations

import threading

import pytest

from board.errors import UnreadableError
from board.views._reading import Progress, Reading


def test_a_reading_begins_once_and_keeps_what_it_found() -> None:
    begun: list[int] = []
    reading: Reading[int] = Reading(lambda progress: begun.append(1) or 7)
    assert reading.finished is None
    for _ in range(2):
        reading.begin()
        reading.wait(10)
    assert (reading.result, len(begun), reading.is_running) == (7, 1, False)


def test_a_reading_that_is_stopped_ends_and_can_begin_anew() -> None:
    go = threading.Event()

    def work(progress: Progress) -> str:
        go.wait(10)
        progress(1, 2)
        return "read"

    reading = Reading(work)
    reading.begin()
    reading.stop()
    go.set()
    reading.wait(10)
    assert reading.was_stopped
    assert reading.result is None
    reading.again()
    reading.begin()
    assert reading.wait(10) == 0.5
    assert reading.result == "read"


def test_what_the_work_raises_is_raised_where_it_is_asked_for() -> None:
    def work(progress: Progress) -> int:
        raise UnreadableError("gone")

    reading = Reading(work)
    reading.begin()
    reading.wait(10)
    with pytest.raises(UnreadableError, match="gone"):
        _ = reading.result
