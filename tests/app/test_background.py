"""Work in the background: its result, its progress, how it is stopped and resumed, and how it fails."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from board.errors import UnreadableError
from board.views.shared.background import BackgroundTask, Report, coarse_to_fine, collect_by_step


@dataclass
class Item:
    step: int


def test_work_is_done_once_and_its_result_stays():
    calls: list[int] = []
    task: BackgroundTask[int] = BackgroundTask(lambda report: calls.append(1) or 7)
    assert task.result is None
    assert [task.finish(), task.finish()] == [7, 7]
    assert (task.result, len(calls), task.is_running, task.has_ended) == (7, 1, False, True)


def test_work_that_is_stopped_ends_at_its_next_report_and_can_be_started_again():
    go = threading.Event()

    def work(report: Report) -> str:
        go.wait(10)
        report(1, 2)
        return "read"

    task = BackgroundTask(work)
    task.start()
    task.stop()
    go.set()
    task.wait(10)
    assert (task.was_stopped, task.has_ended, task.result) == (True, False, None)
    assert task.finish() == "read"
    assert (task.done, task.total, task.was_stopped) == (1, 2, False)


def test_what_the_work_raises_is_raised_where_it_is_asked_for_and_tried_again():
    failures = [UnreadableError("gone")]

    def work(report: Report) -> int:
        if failures:
            raise failures.pop()
        return 7

    task = BackgroundTask(work)
    with pytest.raises(UnreadableError, match="gone"):
        task.finish()
    assert task.finish() == 7


def test_items_are_collected_in_the_order_of_steps():
    task = collect_by_step(iter([Item(9), Item(1), Item(1)]), 2)
    assert [item.step for item in task.finish()] == [1, 1, 9]
    assert (task.done, task.total) == (2, 2)


def test_a_collection_that_was_stopped_keeps_its_items_and_continues():
    go = threading.Event()

    def items() -> Iterator[Item]:
        yield Item(1)
        go.wait(10)
        yield Item(2)
        yield Item(3)

    task = collect_by_step(items(), 3)
    task.start()
    task.stop()
    go.set()
    task.wait(10)
    assert not task.has_ended
    assert task.done < 3
    assert [item.step for item in task.finish()] == [1, 2, 3]


def test_an_error_ends_a_collection_and_what_came_before_stays():
    def items() -> Iterator[Item]:
        yield Item(1)
        raise UnreadableError("gone")

    task = collect_by_step(items(), 2)
    task.start()
    task.wait(10)
    assert str(task.error) == "gone"
    assert task.has_ended
    assert task.partial == [Item(1)]


def test_all_steps_come_once_the_ends_first():
    steps = [1, 5, 7, 8, 20, 30, 31]
    order = coarse_to_fine(steps)
    assert sorted(order) == steps
    assert order[:3] == [31, 1, 8]
    assert coarse_to_fine([4]) == [4]
    assert coarse_to_fine([]) == []
