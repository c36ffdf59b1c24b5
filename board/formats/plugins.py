"""Readers of other packages: entry points of the group `rollout_board.readers`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from board.formats.base import Reader

GROUP: Final = "rollout_board.readers"


def installed_readers() -> tuple[Reader, ...]:
    """The readers that installed packages bring. One that can't be used is a warning, never an error."""
    return tuple(loaded(sorted(entry_points(group=GROUP), key=lambda point: point.name)))


def loaded(points: Iterable[EntryPoint]) -> Iterator[Reader]:
    """The readers that entry points name, as instances or as classes without arguments."""
    for point in points:
        try:
            found = point.load()
            reader = found() if isinstance(found, type) else found
        except Exception as error:  # it is other people's code, and the board opens without it
            warnings.warn(f"reader {point.value} can't be loaded: {error}", stacklevel=2)
            continue
        if isinstance(reader, Reader):
            yield reader
        else:
            warnings.warn(f"reader {point.value} is not a board.formats.base.Reader", stacklevel=2)
