"""Mapping files: which one a log file is read by, if any. The nearest above it wins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from board.core.problems import Problem
from board.errors import BoardError
from board.readers import known_mapping
from board.readers.locations import Location
from board.readers.mapping import MOST_BYTES, MappingReader

FILE_NAME: Final = "rollout-board.toml"


class Mappings:
    """The mapping files of the folders below a root on this machine, each read once."""

    def __init__(self, root: Location) -> None:
        self.root = root
        self._found: dict[Path, MappingReader | None] = {}
        self.problems: dict[Location, Problem] = {}
        """Of mapping files that can't be used, by their paths; files are read as if there were none."""
        self.paths: dict[str, Path] = {}
        """Where the mapping of each reader's name stands."""

    def of(self, path: Location) -> MappingReader | None:
        """The mapping of a file: of its folder, or the nearest folder above it, up to the root."""
        return self._of_folder(path.parent) if isinstance(path, Path) else None

    def _of_folder(self, folder: Path) -> MappingReader | None:
        if folder not in self._found:
            path = folder / FILE_NAME
            if self._is_here(path):
                self._found[folder] = self._read(path)
            elif folder == self.root or folder.parent == folder:
                self._found[folder] = None
            else:
                self._found[folder] = self._of_folder(folder.parent)
        return self._found[folder]

    def _is_here(self, path: Path) -> bool:
        """Whether there is such a file, links that lead out of the root apart."""
        if not path.is_file():
            return False
        root = os.path.realpath(str(self.root))
        return Path(os.path.realpath(path)).is_relative_to(root)

    def _read(self, path: Path) -> MappingReader | None:
        try:
            reader = read_mapping(path)
        except BoardError as error:
            hint = "files are read as if it were not there; see docs/formats.md"
            self.problems[path] = Problem(path.name, None, None, str(error), hint)
            return None
        self.paths[reader.name] = path
        return reader


def read_mapping(path: Path) -> MappingReader:
    """The reader that a mapping file tells of. Raises BoardError naming the file and the key."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise BoardError(f"is longer than {MOST_BYTES:,} bytes")
        return known_mapping(content.decode())
    except OSError as error:
        raise BoardError(f"{path.name} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BoardError(f"{path.name}: is no UTF-8") from None
    except BoardError as error:
        raise BoardError(f"{path.name}: {error}") from None
