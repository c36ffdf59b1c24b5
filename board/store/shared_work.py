"""Work that copies of this process do, beside it or in its place."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, Pipe
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from board.store.second_process import can_be_copied, copied

Item = TypeVar("Item")
Found = TypeVar("Found")


def shared(
    work: Callable[[Item], Found], items: Sequence[Item], *, copies: int = 1, here: bool = True
) -> Iterator[Found]:
    """What the work makes of each item, in their order: each its share in this process and in copies of
    it, if it can be copied and there is a core for them.

    work: depends on nothing that changes meanwhile, and writes nothing. What a copy fails at is done
    here, and raises here what it raises. here: whether this process has a share; else what memory the
    work takes goes with the copies, of which one will do without a second core.
    """
    cores = len(os.sched_getaffinity(0))
    count = min(copies + here, len(items), cores)
    if count <= here or not can_be_copied():
        yield from map(work, items)
        return
    shares = [items[number::count] for number in range(count)]
    done: list[Iterator[Found]] = [
        map(work, share) if here and share is shares[0] else apart(partial(map, work, share))
        for share in shares
    ]
    for number in range(len(items)):
        yield next(done[number % count])


def apart(make: Callable[[], Iterator[Found]]) -> Iterator[Found]:
    """What is made, one after the other, by a copy of this process that begins at once, if it can be
    copied: memory that it takes goes with the copy.

    make: as the work of `shared`, and makes the same each time.
    """
    if not can_be_copied():
        return make()
    ours, its_end = Pipe(duplex=False)
    with its_end:
        process = copied(lambda: _send(its_end, make), its_end.fileno())
    return _taken(ours, process, make)


def _taken(
    ours: Connection, process: BaseProcess, make: Callable[[], Iterator[Found]]
) -> Iterator[Found]:
    taken = 0
    try:
        with ours:
            while (found := _received(ours)) is not None:
                if not found:
                    return
                taken += 1
                yield from found
    finally:
        process.kill()
        process.join()
    yield from islice(make(), taken, None)


def _send(its_end: Connection, make: Callable[[], Iterator[Any]]) -> None:
    try:
        for found in make():
            its_end.send([found])
        its_end.send([])
    except Exception:  # whoever waits for it hears of the end, does it again and says what is wrong
        os._exit(1)


def _received(ours: Connection) -> list[Any] | None:
    """A list of what was made, which is empty after the last; None where the copy is gone."""
    try:
        return ours.recv()
    except (EOFError, OSError, pickle.UnpicklingError):
        return None
