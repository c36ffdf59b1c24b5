import threading
import time
from collections import deque
from typing import Any

import pytest

from exporters.writing.worker import Worker


class Gate:
    """Handles an item when it is let through, and keeps what it handled."""

    def __init__(self) -> None:
        self.open, self.begun = threading.Event(), threading.Event()
        self.handled: list[str] = []

    def __call__(self, item: str) -> None:
        self.begun.set()
        self.open.wait(20)
        self.handled.append(item)


def worker(gate: Gate, on_full: str = "drop", timeout: float = 0.0) -> Worker[str]:
    return Worker(gate, queue_bytes=10, max_steps=2, on_full=on_full, full_timeout=timeout)


def test_items_are_handled_in_order():
    gate = Gate()
    gate.open.set()
    queue = worker(gate, "block", 20)
    assert all(queue.put(str(i), 6, i) for i in range(20))
    assert queue.stop(20)
    assert gate.handled == [str(i) for i in range(20)]


@pytest.mark.parametrize(
    ("puts", "accepted"),
    [
        ([("a", 6, 1), ("b", 6, 1), ("c", 4, 1)], "ac"),
        ([("a", 1, 1), ("b", 1, 2), ("c", 1, 3), ("d", 1, 2)], "abd"),
        ([("a", 1000, 1), ("b", 1, 1), ("c", 0, 1)], "ac"),
    ],
    ids=["bytes", "steps", "what is bigger than the queue passes when that is empty"],
)
def test_the_queue_is_bounded(puts, accepted):
    """By bytes and by steps, of which the end of one takes no room."""
    queue = worker(gate := Gate())
    assert [queue.put(*put) for put in puts] == [put[0] in accepted for put in puts]
    gate.open.set()
    assert queue.stop(20)
    assert gate.handled == [*accepted]


def test_block_waits_for_room_rather_than_dropping():
    queue = worker(gate := Gate(), "block", 20)
    queue.put("a", 10, 1)
    threading.Timer(0.05, gate.open.set).start()
    assert queue.put("b", 10, 1)
    assert queue.stop(20)
    assert gate.handled == ["a", "b"]


def test_block_gives_up_when_its_time_is_over():
    queue = worker(gate := Gate(), "block", 0.05)
    queue.put("a", 10, 1)
    assert not queue.put("b", 10, 1)
    gate.open.set()
    assert queue.stop(20)


def test_flush_says_whether_all_was_handled_in_time():
    queue = worker(gate := Gate())
    queue.put("a", 1, 1)
    assert not queue.flush(0.05)
    gate.open.set()
    assert queue.flush(20)
    assert queue.stop(20)


def test_a_stopped_queue_takes_nothing_more_and_says_what_was_left():
    queue = worker(gate := Gate())
    queue.put("a", 1, 1)
    gate.begun.wait(20)
    queue.put("b", 1, 1)
    assert not queue.stop(0.05)
    assert queue.waiting == ("b",)
    assert not queue.put("c", 1, 1)
    gate.open.set()


def test_who_waits_for_room_is_told_at_once_when_the_queue_is_stopped():
    queue = worker(gate := Gate(), "block", 30.0)
    queue.put("a", 10, 1)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(queue.put("b", 10, 1)))
    waiting.start()
    time.sleep(0.02)
    assert not queue.stop(0.05)
    waiting.join(20)
    assert answers == [False]
    gate.open.set()


def test_a_put_that_a_signals_handler_broke_off_leaves_the_queue_at_work():
    class Interrupted(deque[Any]):
        def append(self, item: Any) -> None:
            super().append(item)
            raise KeyboardInterrupt

    gate = Gate()
    gate.open.set()
    queue = worker(gate, "block", 20)
    usual, queue._items = queue._items, Interrupted()
    for step in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            queue.put("broken off", 6, step)
    assert queue.flush(20)
    queue._items = usual
    assert all(queue.put(str(i), 6, i) for i in range(5))
    assert queue.stop(20)
    assert gate.handled == ["broken off"] * 2 + [*"01234"]
