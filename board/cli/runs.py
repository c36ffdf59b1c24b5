"""From what a user types for a run to the run itself."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from board.cli.output import ProgressLine
from board.errors import NotFoundError
from board.readers.locations import Location, location_of
from board.store.discovery import Discovery, RunInfo, discover
from board.store.engines import ChooseEngine, local
from board.store.run import Follower, Run

PROJECT: Final = Path(__file__).parents[2]
"""The folder that holds `board/`: of the source, or site-packages."""
_SAMPLES: Final = PROJECT / "rollout_samples"
_NAMED: Final = 8


def default_root() -> Path:
    """The bundled runs; raises NotFoundError where the source did not come along."""
    if not _SAMPLES.is_dir():
        raise NotFoundError(
            "the bundled rollout_samples did not come with this installation; "
            "name a folder of runs, a run or a log file"
        )
    return _SAMPLES


def find_run(wanted: str) -> RunInfo:
    """The run at a path, or of that name among the bundled ones.

    Raises NotFoundError where there is none, and where a folder holds several.
    """
    path = location_of(wanted)
    if not isinstance(path, Path) or path.exists():
        return only_run(discover(path), path)
    if not _SAMPLES.is_dir():
        raise NotFoundError(f"{wanted} does not exist; give a run's folder or a log file")
    found = discover(_SAMPLES)
    if wanted not in {run.name for run in found.runs}:
        known = ", ".join(run.name for run in found.runs[:_NAMED]) or "none"
        raise NotFoundError(
            f"{wanted} does not exist, and no bundled run is called so ({known}); "
            "give a run's folder or a log file"
        )
    return found.run(wanted)


def only_run(found: Discovery, path: Location) -> RunInfo:
    """The run that `path` is, or the only one below it."""
    own = [run for run in found.runs if run.path == found.root]
    if own or len(found.runs) == 1:
        return (own or found.runs)[0]
    if not found.runs:
        raise NotFoundError(no_runs(found, path))
    names = [str(path / run.name) for run in found.runs[:_NAMED]]
    more = ", ..." if len(found.runs) > _NAMED else ""
    raise NotFoundError(f"{path} holds {len(found.runs)} runs; give one: {', '.join(names)}{more}")


def no_runs(found: Discovery, path: Location) -> str:
    """Why nothing was found under `path`, and what to do."""
    if not found.left_out:
        is_empty = isinstance(path, Path) and path.is_dir() and not any(path.iterdir())
        what = "is empty" if is_empty else "holds no .jsonl file"
        return f"{path} {what}; give a folder of rollout logs, or a log file"
    first = found.left_out[0]
    several = f", and {len(found.left_out) - 1} more" if len(found.left_out) > 1 else ""
    return f"{path} holds no rollout log: {first.path}: {first.reason}{several}"


def opened(info: RunInfo, *, persist: bool = False, engine: ChooseEngine = local) -> Run:
    """The run, read whole, with progress on stderr; persist: its index is kept however small it is."""
    progress = ProgressLine()
    try:
        return Follower(persist=persist, engine=engine).run(info, progress)
    finally:
        progress.close()
