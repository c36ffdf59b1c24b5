"""The command `export`: findings or rollouts of a run as one HTML file, or as a data set."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from board.analysis.rollout import open_rollout
from board.cli import output
from board.cli.commands.analysis import diagnosed
from board.cli.opened_runs import listed, narrowed_as_asked, open_run
from board.cli.terminal import one_line
from board.core.metrics.shares import counted
from board.datasets.card import Summary
from board.datasets.contents import left_out_of
from board.datasets.export import Progress, Request, write_dataset
from board.datasets.files import replacing
from board.errors import ChoiceError
from board.export.comparison_part import Side
from board.export.file_names import FileOf
from board.export.findings_page import evidence_of, finding_page, named
from board.export.page_text import Redaction
from board.export.pages import (
    PageOptions,
    addresses_of,
    comparison_page,
    extreme_rows,
    first_rows,
    group_page,
    group_rows,
    listed_page,
    rollout_page,
    step_page,
)
from board.export.rollout_part import Address
from board.export.sheet import StaticPage
from board.query.open_run import Run
from board.query.rollouts import at_step, count

_MOST_LISTED: Final = 20
_STATIC_MB: Final = 10
_INTERACTIVE_MB: Final = 20
_MOST_OF_STEP: Final = 8
_STDOUT: Final = "-"
_ADDRESS: Final = re.compile(r"(\d+):(\d+)")


_OF_PAGES: Final = {
    "finding": "--finding",
    "group": "--group",
    "compare": "--compare",
    "index": "--index",
    "interactive": "--interactive",
    "metric": "--metric",
    "redact": "--redact",
}
_OF_DATA_SETS: Final = {
    "columns": "--columns",
    "margin": "--margin",
    "leave_out": "--leave-out",
    "by_turn": "--by-turn",
    "overwrite": "--overwrite",
}


class _Selection(NamedTuple):
    """What is exported. make: makes its static page. addresses: its rollouts. title: in words. what: how
    its file is called where no name is given, after the run's. total: of how many rollouts these are.
    """

    run: Run
    make: Callable[[PageOptions], StaticPage]
    addresses: Sequence[Address]
    title: str
    what: str
    total: int | None = None


def export(args: argparse.Namespace) -> int:
    """Writes the data set or the page that the options choose."""
    others, kind = (
        (_OF_DATA_SETS, "data sets, with --as") if args.kind is None else (_OF_PAGES, "pages")
    )
    for name, option in others.items():
        if getattr(args, name) not in (None, False):
            raise ChoiceError(f"{option} is for {kind}")
    if args.kind is not None:
        return _write_dataset(args)
    if args.interactive and args.redact:
        raise ChoiceError("--redact is for static pages; leave --interactive out")
    redaction = Redaction.of(args.redact)  # a mistake is said before the run is read
    chosen = _chosen(args)(args)
    html = _interactive(args, chosen) if args.interactive else _static(args, chosen)
    if args.output == _STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(html)
        return 0
    name = FileOf(chosen.run.info.name, chosen.what).name(".html", redaction=redaction)
    path = Path(args.output or name)
    if path.is_dir():
        raise ChoiceError(f"{path} is a folder; give a file by -o")
    with replacing(path, overwrite=True) as partial_file:
        partial_file.write_bytes(html)
    print(one_line(str(path)))
    return 0


def _static(args: argparse.Namespace, chosen: _Selection) -> bytes:
    most = int((args.max_mb or _STATIC_MB) * 1e6)
    page = chosen.make(PageOptions(args.metric, args.redact, most))
    for left_out in page.left_out:
        output.say(f"left out: {left_out}")
    if args.redact:
        output.say(f"{counted(page.redactions, 'match', 'matches')} redacted")
    return page.html


def _interactive(args: argparse.Namespace, chosen: _Selection) -> bytes:
    # Imported late: the reader comes with Streamlit, which takes a second.
    from board.export.interactive import interactive_page

    html, left_out = interactive_page(
        chosen.run,
        [(one.step, one.index) for one in chosen.addresses],
        title=chosen.title,
        metric=args.metric,
        most_bytes=int((args.max_mb or _INTERACTIVE_MB) * 1e6),
        total=chosen.total,
    )
    if chosen.total is not None and (beyond := chosen.total - len(chosen.addresses)):
        output.say(f"left out: {beyond:,} of {chosen.total:,} rollouts, beyond --limit")
    if left_out:
        output.say(f"left out: {left_out:,} of {len(chosen.addresses):,} rollouts; raise --max-mb")
    return html


def _chosen(args: argparse.Namespace) -> Callable[[argparse.Namespace], _Selection]:
    """What makes the page. Raises ChoiceError where options do not go together or say nothing."""
    has_step, has_where = args.step is not None, args.where is not None
    if args.index is not None and not has_step:
        raise ChoiceError("--index needs --step: it is the position within a step")
    choices = {
        "--finding": (args.finding, _finding),
        "--compare": (args.compare, _comparison),
        "--group": (args.group, _group),
        "--index": (args.index, _rollout),
    }
    given = [name for name, (value, _) in choices.items() if value is not None]
    if len(given) > 1:
        raise ChoiceError(f"{' and '.join(given)} do not go together; give one of them")
    kind = given[0] if given else ""
    if has_step and kind in ("--finding", "--compare"):
        raise ChoiceError(f"--step and {kind} do not go together; give one of them")
    if args.limit is not None and kind:
        raise ChoiceError("--limit goes with --where, or with --step alone")
    if args.limit == 0:
        raise ChoiceError("--limit 0 leaves no rollout to export")
    if has_where and kind in ("--index", "--compare"):
        raise ChoiceError(f"--where and {kind} do not go together; give one of them")
    if kind:
        return choices[kind][1]
    if has_where:
        return _list
    if has_step:
        return _step
    raise ChoiceError(
        "say what to export: --finding K, --step S with or without --index I, --group G, "
        "--compare S:I S:J or --where EXPR"
    )


def _finding(args: argparse.Namespace) -> _Selection:
    run, diagnosis = diagnosed(args)
    finding = named(diagnosis.findings, args.finding)
    make = partial(finding_page, run, finding)
    title = f"{finding.title} in {run.info.name}"
    return _Selection(run, make, evidence_of(run, [finding]), title, f"finding_{finding.key}")


def _rollout(args: argparse.Namespace) -> _Selection:
    run, at = open_run(args), Address(args.step, args.index)
    make = partial(rollout_page, run, at)
    title = f"{at.words} of {run.info.name}"
    return _Selection(run, make, [at], title, f"step{args.step}_rollout{args.index}")


def _comparison(args: argparse.Namespace) -> _Selection:
    run, addresses = open_run(args), [*map(_address, args.compare)]

    def make(options: PageOptions) -> StaticPage:
        left, right = (Side(run, open_rollout(run, one.step, one.index), one) for one in addresses)
        return comparison_page(left, right, options)

    title = " and ".join(one.words.lower() for one in addresses)
    what = "_".join(args.compare).replace(":", "-")
    return _Selection(run, make, addresses, f"{run.info.name}: {title}", what)


def _address(text: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ChoiceError(f"--compare {text}: expected STEP:INDEX, such as 12:0")
    return Address(int(match[1]), int(match[2]))


def _group(args: argparse.Namespace) -> _Selection:
    run = narrowed_as_asked(open_run(args), args)
    rows = group_rows(run, args.group, args.step)
    make = partial(group_page, run, args.group, args.step)
    title = f"Group {args.group} of {run.info.name}"
    return _Selection(run, make, addresses_of(rows), title, f"group_{args.group}")


def _list(args: argparse.Namespace) -> _Selection:
    run, what = narrowed_as_asked(open_run(args), args), f"Rollouts with {args.where}"
    if args.step is not None:
        run, what = at_step(run, args.step), f"{what} at step {args.step}"
    rows = first_rows(run, _MOST_LISTED if args.limit is None else args.limit)
    if rows.empty:
        raise ChoiceError("no rollout passes --where, so there is nothing to export")
    total = count(run)
    make = partial(listed_page, run, rows, total, what)
    title = f"{what} of {run.info.name}"
    return _Selection(run, make, addresses_of(rows), title, "rollouts", total)


def _step(args: argparse.Namespace) -> _Selection:
    run = narrowed_as_asked(open_run(args), args)
    if args.step not in run.counts:
        run.row(args.step, 0)  # raises for a step that the run has not at all
        raise ChoiceError(f"no rollout of this split and these environments is at step {args.step}")
    most = _MOST_OF_STEP if args.limit is None else args.limit
    column = "" if args.metric is None else f"{args.metric}_mean"
    column = column if column in run.metrics else ""
    make = partial(step_page, run, args.step, most, column=column)
    every = run.of_step(args.step)  # to page through: all of them
    rows = every if args.limit is None else extreme_rows(every, args.limit)
    title = f"Step {args.step} of {run.info.name}"
    return _Selection(run, make, addresses_of(rows), title, f"step{args.step}", len(every))


def _write_dataset(args: argparse.Namespace) -> int:
    """Writes the rollouts of a run as a data set, and says on stderr how many."""
    if args.output is None:
        raise ChoiceError("--as needs -o PATH, a file or a folder to write")
    run = narrowed_as_asked(open_run(args), args)
    if args.step is not None:
        run = at_step(run, args.step)
    leave_out = None if args.leave_out is None else listed(args.leave_out)
    choices = {
        "filter": run.expression,
        "split": run.split or "",
        "environments": ", ".join(run.envs),
        "step": "" if args.step is None else str(args.step),
        "left out": ", ".join(left_out_of(args.kind, leave_out)),
        "a row": "a turn" if args.by_turn else "",
        "least difference of rewards": "" if args.margin is None else f"{args.margin:g}",
    }
    columns = None if args.columns is None else [*dict.fromkeys(listed(args.columns))]
    request = Request(
        *(args.kind, Path(args.output), columns, args.limit, args.margin),
        overwrite=args.overwrite,
        leave_out=leave_out,
        by_turn=args.by_turn,
        choices={words: text for words, text in choices.items() if text},
    )
    with closing(output.ProgressLine(text=output.rows_text)) as progress:
        is_printed = args.output == _STDOUT
        summary = (_print_dataset if is_printed else write_dataset)(run, request, progress)
    for line in summary.lines():
        output.say(line)
    if not is_printed:
        output.say(f"written to {one_line(args.output)}")
    return 0


def _print_dataset(run: Run, request: Request, progress: Progress) -> Summary:
    """Writes a data set to standard output, once all of it is there; conversations as JSON lines."""
    if request.kind == "hf":
        raise ChoiceError(
            "--as hf is a folder, which does not go to standard output; give -o FOLDER"
        )
    with tempfile.TemporaryDirectory() as folder:
        suffix = ".jsonl" if request.kind in ("sft", "dpo") else ""
        path = Path(folder) / f"rows{suffix}"
        summary = write_dataset(run, replace(request, target=path), progress)
        sys.stdout.flush()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return summary
