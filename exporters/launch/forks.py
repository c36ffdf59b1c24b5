"""A forked process inherits files and locks that belong to its parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Disabled(Protocol):
    """What can be told that it is in a forked process."""

    def disable_in_child(self) -> None:
        """Gives up what belongs to the parent."""


_live: weakref.WeakSet[Disabled] = weakref.WeakSet()


def disable_in_children(exporter: Disabled) -> None:
    """Has `disable_in_child` of an exporter called in each process that is forked from this one."""
    _live.add(exporter)


def _disable_all() -> None:
    for exporter in list(_live):
        exporter.disable_in_child()


os.register_at_fork(after_in_child=_disable_all)
