"""From what a user types for a run to the run itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from board.cli.output import ProgressLine, say
from board.core.problems import Problem
from board.core.suggestions import did_you_mean
from board.errors import ChoiceError, NotFoundError
from board.formats.io.locations import Location, location_of
from board.index.discovery.discovered_runs import Discovery, RunInfo, discover
from board.index.discovery.mappings import FILE_NAME, mapping_above
from board.index.reading.workers import ChooseEngine, local_engine
from board.query import splits
from board.query.narrowing import environments_of, narrowed, shown_split, splits_of, where
from board.query.open_run import RUN_ITSELF, Follower, Run

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

    source: of its folder's logs the one that is meant; None: all of them, joined where they can be.
    Raises NotFoundError where there is none, and where a folder holds several.
    """
    path = location_of(wanted)
    if not isinstance(path, Path) or path.exists():
        return only_run(discover(path), path, source)
    if not _SAMPLES.is_dir():
        raise NotFoundError(f"{wanted} does not exist; give a run's folder or a log file")
    found = discover(_SAMPLES)
    if wanted not in {run.name for run in found.runs}:
        known = ", ".join(run.name for run in found.runs[:_NAMED]) or "none"
        raise NotFoundError(
            f"{wanted} does not exist, and no bundled run is called so ({known}); "
            "give a run's folder or a log file"
        )
    folder = found.run(wanted).path
    return _of_source([run for run in found.runs if run.path == folder], folder, source)


def only_run(found: Discovery, path: Location, source: str | None = None) -> RunInfo:
    """The run that `path` is, or the only one below it; source: as of find_run."""
    if not found.runs:
        raise NotFoundError(no_runs(found, path))
    own = [run for run in found.runs if run.path == found.root] or list(found.runs)
    folders = list(dict.fromkeys(run.path for run in own))
    if len(folders) == 1:
        return _of_source(own, path, source)
    names = [str(folder) for folder in folders[:_NAMED]]
    more = ", ..." if len(folders) > _NAMED else ""
    raise NotFoundError(f"{path} holds {len(folders)} runs; give one: {', '.join(names)}{more}")


def _of_source(runs: Sequence[RunInfo], path: Location, source: str | None) -> RunInfo:
    """Of the runs of one folder that of a source; without one, the joined or the only one."""
    if source is None and len(runs) > 1:
        source = next((run.source for run in runs if run.is_joined), None)
    if source is None and len(runs) == 1:
        return runs[0]
    for run in runs:
        if run.source == source:
            return run
    names = ", ".join(sorted(run.source for run in runs))
    if source is None:
        raise NotFoundError(
            f"{path} holds logs of {len(runs)} formats that are not joined; "
            f"give --source with one of {names}"
        )
    raise NotFoundError(f"{path} has no source {source!r}; it has {names}")


def no_runs(found: Discovery, path: Location) -> str:
    """Why nothing was found under `path`, and what to do."""
    if not found.left_out:
        is_empty = isinstance(path, Path) and path.is_dir() and not any(path.iterdir())
        what = "is empty" if is_empty else "holds no file whose name says that it may be a log"
        if found.beside:
            what += f" ({'; '.join(one.words for one in found.beside)})"
        return f"{path} {what}; give a folder of rollout logs, or a log file"
    first = _telling_most(found.left_out)
    several = f", and {len(found.left_out) - 1} more" if len(found.left_out) > 1 else ""
    reason = first.reason.removeprefix(f"{first.path}: ")
    said = f"{path} holds no rollout log: {first.path}: {reason}{several}"
    return f"{said}{not_held(path)}; `rollout-board sniff {path}` says what each format lacks"


def _telling_most(problems: Sequence[Problem]) -> Problem:
    """A mistake in a mapping file explains all the others."""
    return min(problems, key=lambda problem: not problem.path.endswith(FILE_NAME))


def not_held(path: Location) -> str:
    """What to add to why nothing is recognised at a path: a mapping file above it does not hold."""
    above = mapping_above(path)
    if above is None:
        return ""
    return (
        f"; {above} lies above what is opened and so does not hold: copy it into the run's folder"
    )


def of_split(run: Run, written: str | None) -> Run:
    """The run with the rollouts of a split alone: training's unless told otherwise, which is said on
    stderr where others are left out. Raises ChoiceError for a split that it does not have.
    """
    found = shown_split(run, written or "")
    left = {name: sum(of.values()) for name, of in splits_of(run).items()}
    if written is None and found is not run:
        left.pop(found.split or "", None)
        others = ", ".join(f"{count} {splits.written(name)}" for name, count in left.items())
        say(
            f"rollouts of split {found.split}; left out: {others} (--split NAME for one of these, "
            "--split all for all together)"
        )
    return found


def of_environments(run: Run, written: str | None) -> Run:
    """The run with the rollouts of environments alone, as `--env A,B` names them. Raises ChoiceError for
    one that it does not have.
    """
    names = [name.strip() for name in (written or "").split(",") if name.strip()]
    if not names:
        return run
    known = environments_of(run)
    for name in names:
        if name not in known:
            raise ChoiceError(
                f"{run.info.name} has no environment {name!r}; {did_you_mean(name, known)}"
            )
    return narrowed(run, names)


def narrowed_as_asked(run: Run, args: argparse.Namespace) -> Run:
    """The run with the rollouts alone that `--env` and `--where` choose."""
    found = of_environments(run, args.env)
    return where(found, args.where) if args.where else found


def opened(info: RunInfo, *, persist: bool = False, engine: ChooseEngine = local_engine) -> Run:
    """The run, read whole, with progress on stderr; persist: its index is kept however small it is."""
    progress = ProgressLine()
    try:
        run = Follower(persist=persist, engine=engine).run(info, progress)
    finally:
        progress.close()
    for problem in run.problems:
        if problem.path == RUN_ITSELF and problem.severity == "note":
            say(f"{problem.reason}; {problem.hint}")
    if not run.rollout_count:
        _say_why_empty(run)
    return run


def _say_why_empty(run: Run) -> None:
    lost = [problem for problem in run.problems if problem.severity == "lost"]
    if lost:
        several = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
        first = _telling_most(lost)
        where = f"{run.info.name}: no rollout could be read: {first.path}: {first.reason}"
        say(f"{where}{several}; `rollout-board check` names all problems")
