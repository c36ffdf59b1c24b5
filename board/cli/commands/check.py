"""The command `check`: every line and value that could not be used, and which files were ignored."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from board.cli import output
from board.cli.opened_runs import opened
from board.cli.runs import find_run, no_runs, only_run
from board.core.problems import Problem, count_of
from board.errors import NotFoundError
from board.formats.io.locations import Location, below, location_of
from board.index.discovery.discovered_runs import discover
from board.index.discovery.run_info import IgnoredFiles
from board.query.joins import JoinCount
from board.query.open_run import Run

_CHECKED: Final = ("files", "steps", "rollouts", "superseded", "repeated")


def main(args: argparse.Namespace) -> int:
    """Every problem; 1 when something of the log is not shown."""
    path = location_of(args.run)
    discovery = discover(path) if not isinstance(path, Path) or path.exists() else None
    if discovery is None:
        run = opened(find_run(args.run, args.source))
        document = _check_document(run.info.name, run.problems, run)
    elif discovery.runs:
        run = opened(only_run(discovery, path, args.source))
        problems = (
            *(_relative_to(discovery.root, run, p) for p in run.problems),
            *discovery.left_out,
        )
        document = _check_document(run.info.name, problems, run, discovery.ignored)
    elif discovery.left_out:
        document = _check_document(str(path), discovery.left_out, None, discovery.ignored)
    else:
        raise NotFoundError(no_runs(discovery, path))
    if args.json:
        output.print_json(document)
    else:
        _print_check(document)
    return 1 if document["lost"] or document["partial"] else 0


def _relative_to(root: Location, run: Run, problem: Problem) -> Problem:
    """The problem with its path relative to the folder that the user named."""
    if run.info.only or run.info.path == root:
        return problem
    return replace(problem, path=below(run.info.path / problem.path, root))


def _check_document(
    name: str,
    problems: tuple[Problem, ...],
    run: Run | None,
    ignored: tuple[IgnoredFiles, ...] = (),
) -> dict[str, Any]:
    """ignored: files that belong to no run."""
    return {
        "run": name,
        "files": len(run.info.files) if run else 0,
        "steps": len(run.steps) if run else 0,
        "rollouts": run.rollout_count if run else 0,
        "superseded": run.superseded if run else 0,
        "repeated": run.repeated if run else 0,
        "joins": [asdict(join) for join in run.joins] if run else [],
        "lost": count_of(problems, "lost"),
        "partial": count_of(problems, "partial"),
        "notes": count_of(problems, "note"),
        "problems": [asdict(problem) for problem in problems],
        "beside": [asdict(one) for one in (*(run.info.ignored if run else ()), *ignored)],
    }


def _print_check(document: Mapping[str, Any]) -> None:
    counts = ", ".join(f"{key} {document[key]}" for key in _CHECKED)
    print(f"{output.one_line(document['run'])}: {counts}")
    for join in document["joins"]:
        print(output.one_line(JoinCount(**join).words))
    for problem in document["problems"]:
        _print_problem(Problem(**problem))
    for one in document["beside"]:
        print(output.one_line(f"skipped by name: {IgnoredFiles(**one).words}"))
    if not document["problems"]:
        print("no problems")
        return
    print(
        f"{document['lost']} lost, {document['partial']} partial, {document['notes']} notes "
        "(lost: not shown; partial: shown without a value; note: all is shown)"
    )


def _print_problem(problem: Problem) -> None:
    count = "1 line" if problem.count == 1 else f"{problem.count} lines"
    print(output.one_line(f"{problem.severity:8}{problem.where}  {problem.reason}  ({count})"))
    if problem.hint:
        print(output.one_line(f"{'':8}{problem.hint}"))
