from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from board.analysis.stepwise import Stepwise, coarse_to_fine
from board.errors import NotFoundError


@dataclass
class Item:
    step: int


def test_all_steps_come_once_the_ends_first() -> None:
    steps = [1, 5, 7, 8, 20, 30, 31]
    order = coarse_to_fine(steps)
    assert sorted(order) == steps
    assert order[:3] == [31, 1, 8]
    assert coarse_to_fine([4]) == [4]
    assert coarse_to_fine([]) == []


def test_what_was_found_is_in_the_order_of_steps() -> None:
    scan = Stepwise(iter([Item(9), Item(1), Item(1)]), 2)
    scan.start()
    scan.join(10)
    assert [item.step for item in scan.found] == [1, 1, 9]
    assert (scan.done, scan.has_ended, scan.is_running) == (2, True, False)


def test_a_stopped_scan_keeps_what_it_has_and_goes_on_where_it_was() -> None:
    gate = threading.Event()

    def items() -> Iterator[Item]:
        yield Item(1)
        gate.wait(10)
        yield Item(2)
        yield Item(3)

    scan = Stepwise(items(), 3)
    scan.start()
    scan.stop()
    gate.set()
    scan.join(10)
    assert not scan.has_ended
    kept = scan.done
    assert kept < 3
    scan.start()
    scan.join(10)
    assert [item.step for item in scan.found] == [1, 2, 3]
    assert scan.has_ended


def test_an_error_ends_it_and_is_kept() -> None:
    def items() -> Iterator[Item]:
        yield Item(1)
        raise NotFoundError("gone")

    scan = Stepwise(items(), 2)
    scan.start()
    scan.join(10)
    assert str(scan.error) == "gone"
    assert scan.has_ended
    assert scan.done == 1
