"""Runs as commands open them: with progress, and narrowed as options ask."""

from __future__ import annotations

import argparse

from board.cli.output import ProgressLine, say
from board.cli.runs import most_telling
from board.core.suggestions import did_you_mean
from board.errors import ChoiceError
from board.index.discovery.discovered_runs import RunInfo
from board.index.reading.workers import ChooseEngine, local_engine
from board.query import splits
from board.query.narrowing import chosen_split, environments_of, narrowed, splits_of, where
from board.query.open_run import RUN_ITSELF, Follower, Run


def of_split(run: Run, written: str | None) -> Run:
    """The run with the rollouts of a split alone: training's unless told otherwise, which is said on
    stderr where others are left out. Raises ChoiceError for a split that it does not have.
    """
    chosen = chosen_split(run, written or "")
    left = {name: sum(of.values()) for name, of in splits_of(run).items()}
    if written is None and chosen is not run:
        left.pop(chosen.split or "", None)
        others = ", ".join(f"{count} {splits.written(name)}" for name, count in left.items())
        say(
            f"rollouts of split {chosen.split}; left out: {others} (--split NAME for one of these, "
            "--split all for all together)"
        )
    return chosen


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
    chosen = of_environments(run, args.env)
    return where(chosen, args.where) if args.where else chosen


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
        first = most_telling(lost)
        where = f"{run.info.name}: no rollout could be read: {first.path}: {first.reason}"
        say(f"{where}{several}; `rollout-board check` names all problems")
