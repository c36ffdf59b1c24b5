"""Work that this process and a copy of it do together."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any, TypeVar

from board.store.second_process import can_be_copied, copied

Item = TypeVar("Item")
Found = TypeVar("Found")


def shared(work: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
    """What the work makes of each item, in their order: of every other one in a copy of this process, if
    it can be copied and there is a core for it.

    work: depends on nothing that changes meanwhile, makes no None, and writes nothing. What the copy
    fails at is done here, and raises here what it raises.
    """
    if len(items) < 2 or len(os.sched_getaffinity(0)) < 2 or not can_be_copied():
        yield from map(work, items)
        return
    ours, its_end = Pipe(duplex=False)
    with ours:
        with its_end:
            process = copied(lambda: _send(its_end, work, items[1::2]), its_end.fileno())
        try:
            for number, item in enumerate(items):
                found = _received(ours) if number % 2 else None
                yield work(item) if found is None else found
        finally:
            process.kill()
            process.join()


def _send(its_end: Connection, work: Callable[[Item], Any], items: Sequence[Item]) -> None:
    try:
        for item in items:
            its_end.send(work(item))
    except Exception:  # whoever waits for it hears of the end, does it again and says what is wrong
        os._exit(1)


def _received(ours: Connection) -> Any:
    """None where the copy is gone."""
    try:
        return ours.recv()
    except (EOFError, OSError, pickle.UnpicklingError):
        return None
