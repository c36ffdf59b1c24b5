"""Whose thresholds the rules go by: of a file that was named, one in the run's folder, or none."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from board.core.findings.thresholds import Thresholds, changed, parse
from board.errors import BoardError, ChoiceError, UnreadableError
from board.formats.io.locations import Location
from board.index.discovery.discovered_runs import THRESHOLDS, RunInfo
from board.index.discovery.fetched import content_of

FILE_NAME: Final = THRESHOLDS


def default_thresholds() -> dict[str, dict[str, float]]:
    """Those of the package: core/findings/thresholds.toml."""
    packaged = resources.files("board.core.findings").joinpath("thresholds.toml")
    return parse(packaged.read_text(encoding="utf-8"))


def read_thresholds(path: Location) -> dict[str, dict[str, float]]:
    """The package's thresholds with what a file changes. Raises UnreadableError or ChoiceError."""
    try:
        text = content_of(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path} can't be read: {error}") from error
    try:
        return changed(default_thresholds(), parse(text))
    except ChoiceError as error:
        raise ChoiceError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class OwnThresholds:
    """thresholds: of all rules. path: of the file that changes them, None for the package's own.
    error: why that file was not used; the package's own are, then.
    """

    thresholds: Thresholds = field(default_factory=default_thresholds)
    path: Location | None = None
    error: str = ""


def own_thresholds(info: RunInfo, named: Path | None = None) -> OwnThresholds:
    """Those that `named` changes, else those of thresholds.toml in the run's folder."""
    local = _in_folder(info.path) if isinstance(info.path, Path) else None
    path = named or local or info.thresholds
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
