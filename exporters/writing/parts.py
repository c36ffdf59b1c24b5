"""A rank's log as files of limited size, behind each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from exporters.writing.files import RankFile


class Parts:
    """Appends lines to a file and goes on with the next one when it is full.

    header: the first line of a part, given its number; None for formats that know no header. on_closed
    is called with the path of every full part.
    """

    def __init__(
        self,
        folder: Path,
        name: Callable[[int], str],
        header: Callable[[int], bytes] | None,
        rotate_bytes: int,
        on_closed: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """Opens the first part. Raises OSError where that cannot be done."""
        self._folder, self._name, self._header = folder, name, header
        self._limit, self._on_closed = rotate_bytes, on_closed
        self._number = 0
        self._file = self._open(0)
        self._begun = self._file.size

    @property
    def path(self) -> Path:
        """The file that is written to now."""
        return self._file.path

    def append(self, line: bytes) -> int:
        """Writes one line; returns at which byte of the file it begins.

        Raises OSError after cutting the file back to its last whole line.
        """
        if self._file.is_deleted:
            self._replace(self._open(self._number + 1))
        elif self._file.size > self._begun and self._file.size + len(line) > self._limit:
            self._rotate()
        return self._file.append(line)

    def sync(self) -> None:
        """Returns once the disk has what was written. Raises OSError."""
        self._file.sync()

    def close(self) -> None:
        """Closes the last part, which stays as it is."""
        self._file.close()

    def _rotate(self) -> None:
        try:
            following = self._open(self._number + 1)
        except OSError:  # no room for a new file: the old one may still take a line
            return
        full = self._file.path
        self._replace(following)
        self._on_closed(full)

    def _replace(self, following: RankFile) -> None:
        self._file.close()
        self._file = following
        self._number += 1
        self._begun = following.size

    def _open(self, number: int) -> RankFile:
        file = RankFile(self._folder / self._name(number))
        if self._header is not None:
            try:
                file.append(self._header(number))
            except OSError:
                file.close()
                with contextlib.suppress(OSError):
                    file.path.unlink()
                raise
        return file
