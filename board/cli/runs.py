"""From what a user types for a run to the run that is meant; board.cli.opened_runs opens it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from board.core.problems import Problem
from board.errors import NotFoundError
from board.formats.io.locations import Location, location_of
from board.index.arrow_start import leave_pandas_out
from board.index.discovery.discovered_runs import Discovery, RunInfo, discover
from board.index.discovery.mappings import FILE_NAME, mapping_above

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


def find_run(wanted: str, source: str | None = None) -> RunInfo:
    """The run at a path, or of that name among the bundled ones.

    source: which of its folder's logs is meant; None: all of them, joined where they can be.
    Raises NotFoundError where there is none, and where a folder holds several.
    """
    leave_pandas_out()
    path = location_of(wanted)
    if not isinstance(path, Path) or path.exists():
        return only_run(discover(path), path, source)
    if not _SAMPLES.is_dir():
        raise NotFoundError(f"{wanted} does not exist; give a run's folder or a log file")
    samples = discover(_SAMPLES)
    if wanted not in {run.name for run in samples.runs}:
        known = ", ".join(run.name for run in samples.runs[:_NAMED]) or "none"
        raise NotFoundError(
            f"{wanted} does not exist, and no bundled run has that name ({known}); "
            "give a run's folder or a log file"
        )
    folder = samples.run(wanted).path
    return _of_source([run for run in samples.runs if run.path == folder], folder, source)


def only_run(discovery: Discovery, path: Location, source: str | None = None) -> RunInfo:
    """The run that `path` is, or the only one below it; source: as in find_run."""
    if not discovery.runs:
        raise NotFoundError(no_runs(discovery, path))
    own = [run for run in discovery.runs if run.path == discovery.root] or list(discovery.runs)
    folders = list(dict.fromkeys(run.path for run in own))
    if len(folders) == 1:
        return _of_source(own, path, source)
    names = [str(folder) for folder in folders[:_NAMED]]
    more = ", ..." if len(folders) > _NAMED else ""
    raise NotFoundError(f"{path} holds {len(folders)} runs; give one: {', '.join(names)}{more}")


def _of_source(runs: Sequence[RunInfo], path: Location, source: str | None) -> RunInfo:
    """The run of a source among those of one folder; without a source, the joined or the only run."""
    for run in runs:
        if run.source == source or (source is None and (run.is_joined or len(runs) == 1)):
            return run
    names = ", ".join(sorted(run.source for run in runs))
    if source is None:
        what = "formats" if len({run.formats for run in runs}) > 1 else "models or seeds"
        what = "runs" if all(file.run for run in runs for file in run.files) else what
        raise NotFoundError(
            f"{path} holds logs of {len(runs)} {what} that are not joined; "
            f"give --source with one of {names}"
        )
    raise NotFoundError(f"{path} has no source {source!r}; it has {names}")


def no_runs(discovery: Discovery, path: Location) -> str:
    """Why nothing was found under `path`, and what to do."""
    if not discovery.left_out:
        is_empty = isinstance(path, Path) and path.is_dir() and not any(path.iterdir())
        what = "is empty" if is_empty else "holds no file whose name says that it may be a log"
        if discovery.ignored:
            what += f" ({'; '.join(one.words for one in discovery.ignored)})"
        return f"{path} {what}; give a folder of rollout logs, or a log file"
    first = most_informative(discovery.left_out)
    several = f", and {len(discovery.left_out) - 1} more" if len(discovery.left_out) > 1 else ""
    reason = first.reason.removeprefix(f"{first.path}: ")
    text = f"{path} holds no rollout log: {first.path}: {reason}{several}"
    return f"{text}{mapping_hint(path)}; `rollout-board sniff {path}` says what each format lacks"


def most_informative(problems: Sequence[Problem]) -> Problem:
    """A mistake in a mapping file explains all the others."""
    return min(problems, key=lambda problem: not problem.path.endswith(FILE_NAME))


def mapping_hint(path: Location) -> str:
    """A note that a mapping file above the path is not used."""
    above = mapping_above(path)
    if above is None:
        return ""
    return f"; {above} is above the opened folder and is not used: copy it into the run's folder"
