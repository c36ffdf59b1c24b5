"""The command `export`: findings or rollouts of a run as one HTML file."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from board.analysis.rollout import open_rollout
from board.cli import output
from board.cli.commands.analysis import diagnosed
from board.cli.opened_runs import narrowed_as_asked, open_run
from board.errors import ChoiceError
from board.export.comparison_part import Side
from board.export.findings_page import finding_page, named
from board.export.numbers import counted
from board.export.page_text import Redaction, file_name
from board.export.pages import (
    PageOptions,
    comparison_page,
    first_rows,
    group_page,
    listed_page,
    rollout_page,
    step_page,
)
from board.export.rollout_part import Address
from board.export.sheet import StaticPage
from board.query.rollouts import count

_MOST_LISTED: Final = 20
_MOST_OF_STEP: Final = 8
_STDOUT: Final = "-"
_ADDRESS: Final = re.compile(r"(\d+):(\d+)")


class _Asked(NamedTuple):
    """A page, and what its file is called where no name is given, after the run's."""

    page: StaticPage
    run: str
    what: str


def export(args: argparse.Namespace) -> int:
    """Writes the page that the options choose."""
    options = PageOptions(args.metric, args.redact, int(args.max_mb * 1e6))
    Redaction.of(args.redact)  # a mistake is said before the run is read
    asked = _chosen(args)(args, options)
    for left_out in asked.page.left_out:
        output.say(f"left out: {left_out}")
    if args.redact:
        output.say(f"{counted(asked.page.redactions, 'match', 'matches')} redacted")
    if args.output == _STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(asked.page.html)
        return 0
    path = Path(
        args.output or file_name(Redaction.of(args.redact).text(f"{asked.run}_{asked.what}"))
    )
    _write(path, asked.page.html)
    print(output.one_line(str(path)))
    return 0


def _chosen(
    args: argparse.Namespace,
) -> Callable[[argparse.Namespace, PageOptions], _Asked]:
    """What makes the page. Raises ChoiceError where options do not go together or say nothing."""
    has_step, has_where = args.step is not None, args.where is not None
    if args.index is not None and not has_step:
        raise ChoiceError("--index needs --step: it is the position within a step")
    kinds = {
        "--finding": args.finding,
        "--compare": args.compare,
        "--group": args.group,
        "--index": args.index,
    }
    given = [name for name, value in kinds.items() if value is not None]
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
    of_kind = {
        "--finding": _finding,
        "--compare": _comparison,
        "--group": _group,
        "--index": _rollout,
    }
    if kind:
        return of_kind[kind]
    if has_where:
        return _list
    if has_step:
        return _step
    raise ChoiceError(
        "say what to export: --finding K, --step S with or without --index I, --group G, "
        "--compare S:I S:J or --where EXPR"
    )


def _finding(args: argparse.Namespace, options: PageOptions) -> _Asked:
    run, diagnosis = diagnosed(args)
    finding = named(diagnosis.findings, args.finding)
    page = finding_page(run, finding, options)
    return _Asked(page, run.info.name, f"finding_{finding.key}")


def _rollout(args: argparse.Namespace, options: PageOptions) -> _Asked:
    run = open_run(args)
    page = rollout_page(run, Address(args.step, args.index), options)
    return _Asked(page, run.info.name, f"step{args.step}_rollout{args.index}")


def _comparison(args: argparse.Namespace, options: PageOptions) -> _Asked:
    run = open_run(args)
    sides: list[Side] = []
    for text in args.compare:
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ChoiceError(f"--compare {text}: expected STEP:INDEX, such as 12:0")
        address = Address(int(match[1]), int(match[2]))
        sides.append(Side(run, open_rollout(run, address.step, address.index), address))
    page = comparison_page(sides[0], sides[1], options)
    return _Asked(page, run.info.name, "_".join(args.compare).replace(":", "-"))


def _group(args: argparse.Namespace, options: PageOptions) -> _Asked:
    run = narrowed_as_asked(open_run(args), args)
    page = group_page(run, args.group, args.step, options)
    return _Asked(page, run.info.name, f"group_{args.group}")


def _list(args: argparse.Namespace, options: PageOptions) -> _Asked:
    run, what = narrowed_as_asked(open_run(args), args), f"Rollouts with {args.where}"
    if args.step is not None:
        run.row(args.step, 0)  # raises for an unknown step
        run, what = run.where(steps=(args.step, args.step)), f"{what} at step {args.step}"
    rows = first_rows(run, _MOST_LISTED if args.limit is None else args.limit)
    if rows.empty:
        raise ChoiceError("no rollout passes --where, so there is nothing to export")
    page = listed_page(run, rows, count(run), what, options)
    return _Asked(page, run.info.name, "rollouts")


def _step(args: argparse.Namespace, options: PageOptions) -> _Asked:
    run = narrowed_as_asked(open_run(args), args)
    if args.step not in run.counts:
        run.row(args.step, 0)  # raises for a step that the run has not at all
        raise ChoiceError(f"no rollout of this split and these environments is at step {args.step}")
    most = _MOST_OF_STEP if args.limit is None else args.limit
    return _Asked(step_page(run, args.step, most, options), run.info.name, f"step{args.step}")


def _write(path: Path, content: bytes) -> None:
    """Writes the whole file or none: what was there stays until the new one is complete."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".export-", suffix=".tmp")
    except OSError as error:
        raise ChoiceError(f"{path} can't be written: {error.strerror}; give another -o") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise ChoiceError(f"{path} can't be written: {error.strerror}; give another -o") from error
    finally:
        with suppress(OSError):
            Path(temporary).unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
