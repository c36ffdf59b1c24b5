"""Which of two processes does a piece of work: the one that takes its number first."""

from __future__ import annotations

import os
from multiprocessing.connection import wait
from typing import Final

_BYTES: Final = 8
"""Of a number: fewer than a pipe takes and gives at once, so that none is torn."""


class Turns:
    """Numbers that wait to be taken, in the order in which they were added, each by one process alone."""

    def __init__(self, descriptor: int | None = None) -> None:
        """descriptor: of the Turns of the process that adds them; None: it is this one."""
        self._adding = -1
        if descriptor is None:
            descriptor, self._adding = os.pipe()
            os.set_blocking(descriptor, False)
        self.descriptor = descriptor

    def add(self, number: int) -> None:
        """Lets whoever is first take the number; in the process alone that made this."""
        os.write(self._adding, number.to_bytes(_BYTES))

    def taken(self) -> int | None:
        """The next number; None where none waits."""
        try:
            return int.from_bytes(os.read(self.descriptor, _BYTES))
        except BlockingIOError:
            return None

    def awaited(self) -> int:
        """The next number, once there is one."""
        while (number := self.taken()) is None:
            wait([self.descriptor])
        return number

    def close(self) -> None:
        """Ends it; in the process that made it."""
        os.close(self.descriptor)
        os.close(self._adding)
