"""The commands that say how a run was read: `index`, which keeps its index, and `check`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from board.analysis.audit import Audit, audit_all, audit_sample
from board.cli import output
from board.cli.opened_runs import open_run, opened, trainer_metrics
from board.cli.output import ProgressLine
from board.cli.runs import no_runs, only_run
from board.core.problems import Problem, count_of
from board.errors import ChoiceError, NotFoundError
from board.formats.io.locations import below, location_of
from board.index.discovery.discovered_runs import discover
from board.index.discovery.run_info import IgnoredFiles
from board.index.reading.workers import ChooseEngine, local_engine
from board.query.group_sizes import incomplete_groups
from board.query.open_run import Run
from board.query.trainer.agreement import agreements
from board.query.trainer.metrics import TrainerMetrics


def index(args: argparse.Namespace) -> int:
    """Builds or extends the index of a run, and says what it covers; 2 where it can't be kept."""
    begun = time.monotonic()
    with _engine(args) as engine:
        run = open_run(args, persist=True, engine=engine)
    document = {
        "run": run.info.name,
        "index": None if run.index_folder is None else str(run.index_folder),
        "bytes": run.info.bytes,
        "bytes_read": run.done,
        "steps": len(run.counts),
        "rollouts": run.rollout_count,
        "problems": count_of(run.problems, "lost") + count_of(run.problems, "partial"),
        "seconds": round(time.monotonic() - begun, 3),
    }
    if args.json:
        output.print_json({"rows": [document]})
    else:
        output.print_fields(document.items())
    # Why there is none on the disk was said when the run was opened.
    return 0 if run.index_folder is not None else 2


def _engine(args: argparse.Namespace) -> AbstractContextManager[ChooseEngine]:
    """What `--engine` and `--address` ask for."""
    if args.engine == "ray":
        from board.index.reading import ray_engine  # late, as is what it imports

        return ray_engine.connected(args.address)
    if args.address is not None:
        raise ChoiceError("--address names a Ray cluster: it goes with --engine ray")
    return nullcontext(local_engine)


def check(args: argparse.Namespace) -> int:
    """Lists every line and value that could not be used; 1 when something of the log is not shown."""
    # Imported late: it brings pandas, which `index` can do without.
    from board.analysis.contradictions import contradictions

    path = location_of(args.run)
    is_name = isinstance(path, Path) and not path.exists()
    folder = None if is_name else discover(path)
    if folder is not None and not folder.runs:
        if folder.left_out:
            # Where nothing is read, what was left out is all there is.
            lost = tuple(replace(problem, severity="lost") for problem in folder.left_out)
            return _report(args, str(path), lost, None, folder.ignored)
        raise NotFoundError(no_runs(folder, path))
    run = opened(only_run(folder, path, args.source)) if folder else open_run(args)
    trainer = trainer_metrics(run, args)
    audit = _audit(run, args)
    problems = (*run.problems, *audit.problems, *trainer.problems, *incomplete_groups(run))
    problems += contradictions(run)
    if folder is None:
        return _report(args, run.info.name, problems, run, (), trainer, audit)
    if not run.info.only and run.info.path != folder.root:
        # Paths as seen from the folder that was named.
        problems = [replace(p, path=below(run.info.path / p.path, folder.root)) for p in problems]
    problems = (*problems, *folder.left_out)
    return _report(args, run.info.name, problems, run, folder.ignored, trainer, audit)


def _audit(run: Run, args: argparse.Namespace) -> Audit:
    """Whether what lines hold is shown: of a sample of them, with `--all` of every line."""
    if not args.all:
        return audit_sample(run)
    with closing(ProgressLine()) as progress:
        return audit_all(run, progress)


def _report(
    args: argparse.Namespace,
    name: str,
    problems: tuple[Problem, ...],
    run: Run | None,
    ignored: tuple[IgnoredFiles, ...],
    trainer: TrainerMetrics | None = None,
    audit: Audit | None = None,
) -> int:
    """Prints what `check` found; the exit code. ignored: files that belong to no run."""
    compared = agreements(run, trainer) if run and trainer else []
    joins, ignored = (
        (run.rows.joins.counts, (*run.info.ignored, *ignored)) if run else ((), ignored)
    )
    counts = {
        "files": len(run.info.files) if run else 0,
        "steps": len(run.counts) if run else 0,
        "rollouts": run.rollout_count if run else 0,
        "superseded": run.superseded if run else 0,
        "repeated": run.repeated if run else 0,
    }
    by_severity = {
        "lost": count_of(problems, "lost"),
        "partial": count_of(problems, "partial"),
        "notes": count_of(problems, "note"),
    }
    code = 1 if by_severity["lost"] or by_severity["partial"] else 0
    if args.json:
        document = {
            "run": name,
            **counts,
            "joins": [asdict(join) for join in joins],
            **{name: by_severity[name] for name in ("lost", "partial")},
            "note": by_severity["notes"],
            "audited": {"lines": audit.lines, "files": audit.files} if audit else None,
            "rows": [asdict(problem) for problem in problems],
            "beside": [asdict(one) for one in ignored],
            "metrics": [asdict(one) for one in trainer.sources] if trainer else [],
            "agreement": [one.document() for one in compared],
        }
        output.print_json(document)
        return code
    lines = [f"{name}: {', '.join(f'{key} {count}' for key, count in counts.items())}"]
    lines += [join.words for join in joins]
    for one, files in _by_reason(problems, each=args.all):
        count = "1 line" if one.count == 1 else f"{one.count} lines"
        count += f" in {files} files, this is the first" if files > 1 else ""
        lines.append(f"{one.severity:8}{one.where}  {one.reason}  ({count})")
        lines += [f"{'':8}{one.hint}"] if one.hint else []
    lines += [audit.summary] if audit else []
    lines += [f"skipped by name: {one.words}" for one in ignored]
    lines += [one.summary for one in trainer.sources] if trainer else []
    lines += [one.summary for one in compared]
    total = (
        f"{', '.join(f'{count} {name}' for name, count in by_severity.items())} "
        "(lost: not shown; partial: shown without a value; note: all is shown)"
    )
    output.print_lines([*lines, total if problems else "no problems"])
    return code


def _by_reason(problems: Iterable[Problem], *, each: bool) -> list[tuple[Problem, int]]:
    """Problems of the same reason as one, with their number of files. each: every one by itself."""
    if each:
        return [(one, 1) for one in problems]
    groups: dict[tuple[str, str | None, str, str], list[Problem]] = {}
    for one in problems:
        groups.setdefault((one.severity, one.field, one.reason, one.hint), []).append(one)
    return [
        (replace(own[0], count=sum(one.count for one in own)), len({one.path for one in own}))
        for own in groups.values()
    ]
