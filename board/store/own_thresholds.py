"""Whose thresholds the rules go by: of a file that was named, one in the run's folder, or none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from board.core.findings.thresholds import Thresholds
from board.errors import BoardError
from board.store.discovery import RunInfo
from board.store.findings import default_thresholds, read_thresholds

FILE_NAME: Final = "thresholds.toml"


@dataclass(frozen=True, slots=True)
class OwnThresholds:
    """thresholds: of all rules. path: of the file that changes them, None for the package's own.
    error: why that file was not used; the package's own are, then.
    """

    thresholds: Thresholds = field(default_factory=default_thresholds)
    path: Path | None = None
    error: str = ""


def own_thresholds(info: RunInfo, named: Path | None = None) -> OwnThresholds:
    """Those that `named` changes, else those of thresholds.toml in the run's folder on this machine."""
    path = named or (_in_folder(info.path) if isinstance(info.path, Path) else None)
    if path is None:
        return OwnThresholds()
    try:
        return OwnThresholds(read_thresholds(path), path)
    except BoardError as error:
        return OwnThresholds(path=path, error=str(error))


def _in_folder(folder: Path) -> Path | None:
    """The file, unless it is a link that leads out of the folder."""
    path = folder / FILE_NAME
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        return path if inside and path.is_file() else None
    except OSError:
        return None
