"""The `rollout-board` command: everything the pages show, without a browser.

Data goes to stdout, progress and errors to stderr. Exit codes: 0 done; 1 `check` found lines or values
that could not be used, `findings` found something severe, `sniff` recognised nothing; 2 the command
could not be done as given; 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from board import __version__
from board.core.suggestions import close_to, did_you_mean
from board.errors import BoardError, ChoiceError

_COMMANDS: Final = (
    "serve",
    "runs",
    "steps",
    "rollouts",
    "sql",
    "show",
    "check",
    "sniff",
    "index",
    "findings",
)
_BROKEN_PIPE: Final = 141  # what a shell reports for a program that SIGPIPE ended

_WHERE_HELP: Final = """\
a filter over columns, such as 'reward < 0.5 and response contains "I think"': == != < <= > >= contains,
in (..), and, or, not, arithmetic and functions. A text of one word needs no quotes: env == math. prompt,
response, ref_response, ground_truth and any_text are whole texts. Case matters to == and !=, not to
contains. A rollout without a value does not match. See docs/expressions.md."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="rollout-board",
        description="Rollout logs of RL training, in a browser (serve, the default) or on the terminal.",
        epilog="`rollout-board PATH` is short for `rollout-board serve PATH`.",
    )
    parser.add_argument("--version", action="version", version=f"rollout-board {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="open the dashboard in a browser"))
    _add_runs(commands.add_parser("runs", help="list the runs under a folder"))
    _add_steps(commands.add_parser("steps", help="the metrics of each step of a run"))
    _add_rollouts(
        commands.add_parser("rollouts", help="the rollouts of a run, sorted and filtered")
    )
    _add_sql(commands.add_parser("sql", help="ask a run by SQL"))
    _add_show(commands.add_parser("show", help="one rollout whole, token by token"))
    _add_check(commands.add_parser("check", help="every line and value that could not be used"))
    _add_sniff(commands.add_parser("sniff", help="why a file is or is not recognised"))
    _add_findings(commands.add_parser("findings", help="what looks wrong in a run, worst first"))
    _add_index(commands.add_parser("index", help="build or extend the index of a run"))
    return parser


def _add_index(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Reads what is new in a run's log into its index, so that later openings take no time. The index "
        "is kept in the run's folder (.rollout-board), or in the user's cache where that can't be "
        "written. It can be interrupted and goes on where it stopped; it can be deleted at any time."
    )
    _add_run(parser)
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="what reads the log: this machine (%(default)s), or the workers of a Ray cluster, which "
        "need the run at the same path",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="of the Ray cluster; default: RAY_ADDRESS, else a Ray on this machine",
    )
    _add_json(parser)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    parser.add_argument("--port", type=int, help="default: the first free port from 8501 on")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--allow-any-path", action="store_true", help="let users of the page open any folder"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    _add_thresholds(parser)


def _add_runs(parser: argparse.ArgumentParser) -> None:
    _add_path(parser)
    _add_json(parser)


def _add_steps(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    _add_split(parser, "train, or what is not said to be of any split, where there are several")
    _add_narrowing(parser)
    parser.add_argument("--last", type=_count, metavar="N", help="the last N steps only")
    _add_output(parser, "all columns")


def _add_split(parser: argparse.ArgumentParser, default: str) -> None:
    help_text = (
        f"rollouts of this split alone, e.g. eval; all: of all of them (default: {default}). A split "
        "that is itself called all is =all"
    )
    parser.add_argument("--split", metavar="NAME", help=help_text)


def _add_narrowing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env", metavar="A,B", help="rollouts of these environments only, separated by commas"
    )
    parser.add_argument("--where", metavar="EXPR", help=_WHERE_HELP)


def _add_rollouts(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("--step", type=int, help="rollouts of this step only")
    _add_split(parser, "all")
    parser.add_argument("--sort", metavar="COLUMN", help="by this column; missing values come last")
    parser.add_argument("--desc", action="store_true", help="largest first")
    _add_narrowing(parser)
    parser.add_argument(
        "--last", type=_count, metavar="N", help="rollouts of the last N steps only"
    )
    parser.add_argument("--limit", type=_count, metavar="N", help="at most N rollouts")
    _add_output(parser, "all columns, and texts in full")


def _add_sql(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Prints the rows of one SELECT, in DuckDB's SQL, over the views rollouts, steps, groups, prompts "
        "and problems of a run (docs/sql.md has their columns). It reads nothing but the run."
    )
    _add_run(parser)
    parser.add_argument(
        "statement",
        metavar="SELECT",
        help="such as 'select step, avg(reward) from rollouts group by 1'",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="stop the statement after so long (%(default)g)",
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--json", action="store_true", help="one JSON document; null where missing")
    kinds.add_argument("--csv", action="store_true", help="comma-separated values")
    kinds.add_argument("--parquet", type=Path, metavar="FILE", help="write them to a Parquet file")


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("expected a number above 0")
    return number


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("--step", type=int, required=True, help="trainer step")
    parser.add_argument("--index", type=int, required=True, help="position within the step, from 0")
    _add_json(parser)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lists every problem with its file, line, field and reason. Severity lost: a line or file is "
        "not shown. partial: a value of a rollout is not shown. note: all is shown, and it is said how "
        "it was read. Exits 1 when anything is lost or partial; notes alone exit 0."
    )
    _add_run(parser)
    _add_json(parser)


def _add_sniff(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Says of a file, or of each file of a folder that may be a log, by which reader it is read, or "
        "what each reader misses, and suggests a mapping file (docs/own_format.md). Exits 0 when a file "
        "is recognised, 1 when none is."
    )
    help_text = "a log file, or a folder of them, here or in a store (s3://BUCKET/FOLDER)"
    parser.add_argument("path", metavar="PATH", help=help_text)
    _add_json(parser)


def _add_findings(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Runs the rules of docs/findings.md and lists what they find, the worst first, with step, "
        "evidence, threshold and source: leads, not verdicts. Exits 1 when anything found is "
        "severe; warnings and leads alone exit 0. Token arrays are read of at most 64 rollouts of each "
        "step, and of as many steps as 256 MB of the log hold."
    )
    _add_run(parser)
    _add_split(parser, "train, or what is not said to be of any split, where there are several")
    _add_narrowing(parser)
    _add_thresholds(parser)
    parser.add_argument(
        "--index-only", action="store_true", help="leave out rules that read token arrays"
    )
    _add_json(parser)


def _add_thresholds(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "a TOML file with thresholds of your own for findings; what it leaves out keeps its default "
        "(without it: thresholds.toml in the run's folder, where there is one)"
    )
    parser.add_argument("--thresholds", type=Path, metavar="F.toml", help=help_text)


def _add_path(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "a folder of runs, a run or a log file, or a URL such as s3://BUCKET/FOLDER (default: the "
        "bundled rollout_samples)"
    )
    parser.add_argument("path", nargs="?", metavar="PATH", help=help_text)


def _add_run(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "a run's folder, a log file, a URL of either, or the name of a run in the bundled "
        "rollout_samples"
    )
    parser.add_argument("run", metavar="RUN", help=help_text)
    source = (
        "which logs of a folder that holds several formats: joined (the default where they can be "
        "joined), or the name of one, as `rollout-board runs` shows it in brackets, e.g. slime_train"
    )
    parser.add_argument("--source", metavar="NAME", help=source)


def _add_output(parser: argparse.ArgumentParser, whole: str) -> None:
    parser.add_argument(
        "--columns", metavar="A,B", help="these columns only, in this order, separated by commas"
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--json", action="store_true", help="one JSON document; null where not recorded"
    )
    kinds.add_argument("--jsonl", action="store_true", help=f"a JSON document a line: {whole}")
    kinds.add_argument("--csv", action="store_true", help=f"comma-separated values: {whole}")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="one JSON document; null where not recorded"
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("expected 0 or more")
    return number


def _with_command(arguments: Sequence[str]) -> list[str]:
    """The arguments with `serve` put in front where no command is named.

    Raises ChoiceError for a word that is neither a command nor, as far as can be seen, a path.
    """
    first = arguments[0] if arguments else ""
    if first in (*_COMMANDS, "-h", "--help", "--version"):
        return [*arguments]
    is_word = first.isidentifier() and not Path(first).exists()
    has_more = len(arguments) > 1 and not arguments[1].startswith("-")
    if is_word and (has_more or close_to(first, _COMMANDS)):
        raise ChoiceError(f"unknown command {first}; {did_you_mean(first, _COMMANDS)}")
    return ["serve", *arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Raises SystemExit on arguments it can't parse."""
    try:
        given = _with_command(sys.argv[1:] if arguments is None else arguments)
    except ChoiceError as error:
        print(f"rollout-board: {error}", file=sys.stderr)
        return 2
    args = build_parser().parse_args(given)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is, whatever the locale says
    try:
        code = _run(args)
        sys.stdout.flush()
    except BoardError as error:
        print(f"rollout-board: {error}", file=sys.stderr)
        return 2
    except RecursionError:  # a parser takes a thousand arrays within each other
        print("rollout-board: what the log holds there is nested too deep", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read the output has left; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return code


def _run(args: argparse.Namespace) -> int:
    try:
        # Imported late: a training node has the exporter without what the dashboard needs.
        from board.cli import check, commands, findings, serve, sniff, sql

        if args.command == "serve":
            browser = not args.no_browser
            return serve.serve(
                args.path, args.host, args.port, args.allow_any_path, browser, args.thresholds
            )
        if args.command == "check":
            return check.check(args)
        if args.command == "findings":
            return findings.findings(args)
        if args.command == "sniff":
            return sniff.command(args)
        if args.command == "sql":
            return sql.sql(args)
        return commands.COMMANDS[args.command](args)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("board", "app"):
            raise
        raise _not_installed(error.name) from error


def _not_installed(name: str) -> BoardError:
    return BoardError(
        f'the dashboard needs {name}, which is not installed: pip install "rollout-board[board]"'
    )
