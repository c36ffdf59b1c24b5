"""Runs as commands open them: with progress, and narrowed as options ask."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Collection
from contextlib import closing
from typing import Final

from board.cli.output import ProgressLine, say
from board.cli.runs import find_run, mapping_hint, most_informative
from board.core.problems import RUN_ITSELF
from board.errors import ChoiceError, NotFoundError, did_you_mean
from board.index.discovery.discovered_runs import RunInfo
from board.index.discovery.mapping_editor import is_generic
from board.index.reading.workers import ChooseEngine, local_engine
from board.query import splits
from board.query.columns import known_columns
from board.query.labels.matching import with_labels
from board.query.open_run import Follower, OpenOptions, Run
from board.query.outlines import may_tell, outlined, pays, tells
from board.query.predicate import parsed
from board.query.splits import chosen_split, splits_of
from board.query.steps import NO_STEPS
from board.query.trainer.metrics import TrainerMetrics, TrainerMetricsReader

_OPPOSITES: Final = ("!=", "not ", "not(")


def open_run(
    args: argparse.Namespace, *, persist: bool = False, engine: ChooseEngine = local_engine
) -> Run:
    """The run that the arguments name; persist and engine as in `opened`."""
    options = options_of(args)
    return opened(find_run(args.run, args.source), options, persist=persist, engine=engine)


def open_for(args: argparse.Namespace, names: Collection[str]) -> Run:
    """The run that the arguments name, of which columns of these names alone are asked for: an outline
    where that holds them and the log is not read yet.
    """
    info, options = find_run(args.run, args.source), options_of(args)
    if may_tell(names) and pays(info, Follower(options).unread(info)):
        with closing(ProgressLine()) as progress:
            run = Follower(outlined(options)).run(info, progress)
        if tells(run, names):
            _check_reward(run)
            return run
    return opened(info, options)


def options_of(args: argparse.Namespace) -> OpenOptions:
    """How the arguments ask a run to be opened."""
    return OpenOptions(
        group_by_prompt=getattr(args, "group_by_prompt", False),
        reward=getattr(args, "reward", None),
        right_from=getattr(args, "right_from", None),
    )


def trainer_metrics(run: Run, args: argparse.Namespace) -> TrainerMetrics:
    """The trainer's metrics of a run, as `--metrics` and `--metric-shift` say, read with progress.

    Raises NotFoundError where there is no such path.
    """
    if args.metrics is not None and not args.metrics.exists():
        raise NotFoundError(f"--metrics {args.metrics} does not exist; give a file or a folder")
    reader, whole = TrainerMetricsReader(args.metrics), run.whole or run
    with closing(ProgressLine()) as progress:
        reader.read(whole, progress)
    return reader.metrics(whole, args.metric_shift)


def narrowed_as_asked(run: Run, args: argparse.Namespace) -> Run:
    """The run with the rollouts alone that `--split`, `--env`, `--last` and `--where` choose."""
    chosen = of_environments(of_split(run, args.split), args.env)
    return where_as_asked(of_last_steps(chosen, args.last), args.where)


def of_last_steps(run: Run, number: int | None) -> Run:
    """The rollouts of the last steps of those that the run has; None: of all."""
    if number is None:
        return run
    last = sorted(run.counts)[-number:] if number else []
    return run.where(steps=(last[0], last[-1]) if last else NO_STEPS)


def where_as_asked(run: Run, expression: str | None) -> Run:
    """The rollouts that a filter chooses. Where it says what a value is not, those without a value are
    left out too, which is said.
    """
    chosen = run.where(expression or "")
    if expression and any(sign in expression for sign in _OPPOSITES):
        for name in parsed(run.columns, expression).names:
            value = run.column(name) if name in run.columns else run.rows.whole_text(name)
            sql = f"SELECT count(*) AS n FROM {run.view} AS rollouts WHERE {run.condition} AND {value}"
            count = run.table(f"{sql} IS NULL")["n"][0].as_py()
            if count:
                say(
                    f"{count:,} rollouts have no {name}, and a comparison with it does not hold for "
                    f"them, nor its opposite; `or missing({name})` adds them"
                )
    return chosen


def opened(
    info: RunInfo,
    options: OpenOptions | None = None,
    *,
    persist: bool = False,
    engine: ChooseEngine = local_engine,
) -> Run:
    """The run, read whole, with progress on stderr; persist: stores its index however small it is."""
    with closing(ProgressLine()) as progress:
        run = with_labels(Follower(options, persist=persist, engine=engine).run(info, progress))
    _check_reward(run)
    if is_generic(info) and (hint := mapping_hint(info.root)):
        say(f"{info.name} is read by the names of its keys{hint}")
    for problem in run.problems:
        if problem.path == RUN_ITSELF and problem.severity == "note":
            say(f"{info.name}: {problem.reason}; {problem.hint}")
    lost = [problem for problem in run.problems if problem.severity == "lost"]
    if lost and not run.rollout_count:
        first = most_informative(lost)
        several = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
        say(
            f"{info.name}: no rollout could be read: {first.path}: {first.reason}{several}; "
            "`rollout-board check` names all problems"
        )
    return run


def _check_reward(run: Run) -> None:
    """Says where a chosen reward is not used, as the run has its own; raises ChoiceError for a part that
    it does not have.
    """
    chosen = run.options.reward
    if chosen is None:
        return
    if run.reward is None:
        has = "its rewards are recorded" if "reward" in run.columns else "it has no named rewards"
        say(f"{run.info.name}: {has}; --reward is not used")
        return
    for name, _ in chosen.parts:
        if name not in run.reward.parts:
            hint = did_you_mean(name, run.reward.parts)
            raise ChoiceError(f"the reward of {run.info.name} has no part {name!r}; {hint}")


def of_split(run: Run, written: str | None) -> Run:
    """The run with the rollouts of a split alone: training's by default, which is said on
    stderr where others are left out. Raises ChoiceError for a split that it does not have.
    """
    chosen = chosen_split(run, written or "")
    if written is None and chosen is not run:
        counts = {name: sum(by_step.values()) for name, by_step in splits_of(run).items()}
        others = ", ".join(
            f"{count} {splits.written(name)}"
            for name, count in counts.items()
            if name != chosen.split
        )
        unnamed = chosen.split == splits.TRAIN and not _names_split(run, splits.TRAIN)
        of_split = "that name no split" if unnamed else f"of split {chosen.split}"
        say(
            f"rollouts {of_split}; left out: {others} (--split NAME for one of these, "
            "--split all for all together)"
        )
    return chosen


def _names_split(run: Run, name: str) -> bool:
    """Whether a rollout says that it is of a split: those that name none are training's too."""
    table = run.table(f"SELECT count(*) AS n FROM {run.view} WHERE split = $name", {"name": name})
    return bool(table["n"][0].as_py())


def of_environments(run: Run, written: str | None) -> Run:
    """The run with the rollouts of environments alone, as `--env A,B` names them. Raises ChoiceError for
    one that it does not have.
    """
    if not (names := listed(written)):
        return run
    from board.query.environments import of_known_environments  # it takes all about groups along

    return of_known_environments(run, names)


def listed(written: str | None) -> list[str]:
    """The names of a list with commas; one that has a comma itself stands in double quotes."""
    cells = next(csv.reader([written or ""], skipinitialspace=True), [])
    return [name.strip() for name in cells if name.strip()]


def listed_columns(written: str | None, known: Collection[str]) -> list[str]:
    """The columns that are asked for; none where they are left to the command. Raises ChoiceError for a
    column that is not known, and for a list without a name.
    """
    names = listed(written)
    if written is not None and not names:
        raise ChoiceError(f"--columns {written!r} names no column; {did_you_mean('', known)}")
    return known_columns(names, known)
