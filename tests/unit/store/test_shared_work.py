"""Work that is shared with a copy of the process is done once, in order, whatever becomes of the copy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from board.store import shared_work
from board.store.shared_work import apart, shared

# A process of tests has threads and can't be copied: each law is run in a process of its own.


def is_found_in_order_and_half_of_it_elsewhere() -> None:
    found = list(shared(lambda item: (item, os.getpid()), range(5)))
    assert [item for item, _ in found] == list(range(5))
    elsewhere = [item for item, process in found if process != os.getpid()]
    assert elsewhere == [1, 3]


def is_done_by_two_copies_alone() -> None:
    found = list(shared(lambda item: (item, os.getpid()), range(5), copies=2, here=False))
    assert [item for item, _ in found] == list(range(5))
    processes = [process for _, process in found]
    assert len({*processes}) == 2
    assert processes[0] == processes[2] == processes[4]
    assert os.getpid() not in processes


def is_gone_on_with_where_a_copy_ended() -> None:
    own = os.getpid()

    def made() -> Iterator[tuple[int, bool]]:
        for number in range(6):
            if number == 4 and os.getpid() != own:
                os._exit(9)
            yield number, os.getpid() == own

    here = [False] * 4 + [True] * 2
    assert list(apart(made)) == list(enumerate(here))


def is_done_here_when_the_copy_ends() -> None:
    own = os.getpid()

    def work(item: int) -> int:
        if item == 3 and os.getpid() != own:
            os._exit(9)
        return item

    assert list(shared(work, range(7))) == list(range(7))


def raises_what_it_raises_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(shared(lambda item: 1 // (item - 1), range(3)))


def holds_no_file_of_the_process() -> None:
    reading, writing = os.pipe()
    found = shared(lambda item: item, range(2))
    assert next(found) == 0
    os.close(writing)
    assert os.read(reading, 1) == b""
    assert list(found) == [1]


LAWS = (
    is_done_by_two_copies_alone,
    is_gone_on_with_where_a_copy_ended,
    is_found_in_order_and_half_of_it_elsewhere,
    is_done_here_when_the_copy_ends,
    raises_what_it_raises_here,
    holds_no_file_of_the_process,
)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
def test_work_is_shared_with_a_copy():
    script = (
        "import os, sys; sys.path[:0] = sys.argv[1:]; import test_shared_work; "
        "os.sched_getaffinity = lambda _: {0, 1}; [law() for law in test_shared_work.LAWS]"
    )
    subprocess.run([sys.executable, "-c", script, *sys.path], check=True)


@pytest.mark.parametrize("copies", [True, False])
def test_without_a_second_core_or_a_copy_all_work_is_done_here(copies):
    def told(process: int) -> set[int]:
        return {0} if copies else {0, 1}

    with (
        patch.object(shared_work, "can_be_copied", lambda: copies),
        patch.object(os, "sched_getaffinity", told),
    ):
        assert set(shared(lambda _: os.getpid(), range(4))) == {os.getpid()}
