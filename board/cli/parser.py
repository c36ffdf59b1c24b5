"""The commands and options of `rollout-board`; needs none of the dashboard's packages."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from board import __version__

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
    for name, command in COMMANDS.items():
        own = commands.add_parser(name, help=command.summary, description=command.description)
        for add_arguments in command.arguments:
            add_arguments(own)
    return parser


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, help="default: the first free port from 8501 on")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--allow-any-path", action="store_true", help="let users of the page open any folder"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")


def _add_steps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--last", type=_count, metavar="N", help="the last N steps only")
    _add_output(parser, "all columns")


def _add_rollouts(parser: argparse.ArgumentParser) -> None:
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


def _add_statement(parser: argparse.ArgumentParser) -> None:
    example = "such as 'select step, avg(reward) from rollouts group by 1'"
    parser.add_argument("statement", metavar="SELECT", help=example)
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


def _add_rollout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=int, required=True, help="trainer step")
    parser.add_argument("--index", type=int, required=True, help="position within the step, from 0")


def _add_sniffed(parser: argparse.ArgumentParser) -> None:
    help_text = "a log file, or a folder of them, here or in a store (s3://BUCKET/FOLDER)"
    parser.add_argument("path", metavar="PATH", help=help_text)


def _add_index_only(parser: argparse.ArgumentParser) -> None:
    help_text = "leave out rules that read token arrays"
    parser.add_argument("--index-only", action="store_true", help=help_text)


def _add_engine(parser: argparse.ArgumentParser) -> None:
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


def _add_path(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "a folder of runs, a run or a log file, or a URL such as s3://BUCKET/FOLDER (default: the "
        "bundled rollout_samples)"
    )
    parser.add_argument("path", nargs="?", metavar="PATH", help=help_text)


def _add_split(
    parser: argparse.ArgumentParser,
    default: str = "train, or what is not said to be of any split, where there are several",
) -> None:
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


def _add_thresholds(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "a TOML file with thresholds of your own for findings; what it leaves out keeps its default "
        "(without it: thresholds.toml in the run's folder, where there is one)"
    )
    parser.add_argument("--thresholds", type=Path, metavar="F.toml", help=help_text)


def _add_output(parser: argparse.ArgumentParser, whole: str) -> None:
    """whole: what the formats for other programs hold."""
    parser.add_argument(
        "--columns", metavar="A,B", help="these columns only, in this order, separated by commas"
    )
    kinds = parser.add_mutually_exclusive_group()
    _add_json(kinds)
    kinds.add_argument("--jsonl", action="store_true", help=f"a JSON document a line: {whole}")
    kinds.add_argument("--csv", action="store_true", help=f"comma-separated values: {whole}")


def _add_json(parser: argparse._ActionsContainer) -> None:
    help_text = "one JSON document; null where not recorded"
    parser.add_argument("--json", action="store_true", help=help_text)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("expected 0 or more")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("expected a number above 0")
    return number


class Command(NamedTuple):
    """module: of board.cli.commands, with a function of the command's name. arguments: each adds some of
    its arguments.
    """

    module: str
    summary: str
    arguments: Sequence[Callable[[argparse.ArgumentParser], None]]
    description: str | None = None


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        "serve", "open the dashboard in a browser", (_add_path, _add_server, _add_thresholds)
    ),
    "runs": Command("discovery", "list the runs under a folder", (_add_path, _add_json)),
    "steps": Command(
        "query",
        "the metrics of each step of a run",
        (_add_run, _add_split, _add_narrowing, _add_steps),
    ),
    "rollouts": Command(
        "query", "the rollouts of a run, sorted and filtered", (_add_run, _add_rollouts)
    ),
    "sql": Command(
        "query",
        "ask a run by SQL",
        (_add_run, _add_statement),
        "Prints the rows of one SELECT, in DuckDB's SQL, over the views rollouts, steps, groups, prompts "
        "and problems of a run (docs/sql.md has their columns). It reads nothing but the run.",
    ),
    "show": Command(
        "analysis", "one rollout whole, token by token", (_add_run, _add_rollout, _add_json)
    ),
    "check": Command(
        "index",
        "every line and value that could not be used",
        (_add_run, _add_json),
        "Lists every problem with its file, line, field and reason. Severity lost: a line or file is "
        "not shown. partial: a value of a rollout is not shown. note: all is shown, and it is said how "
        "it was read. Exits 1 when anything is lost or partial; notes alone exit 0.",
    ),
    "sniff": Command(
        "discovery",
        "why a file is or is not recognised",
        (_add_sniffed, _add_json),
        "Says of a file, or of each file of a folder that may be a log, by which reader it is read, or "
        "what each reader misses, and suggests a mapping file (docs/own_format.md). Exits 0 when a file "
        "is recognised, 1 when none is.",
    ),
    "findings": Command(
        "analysis",
        "what looks wrong in a run, worst first",
        (_add_run, _add_split, _add_narrowing, _add_thresholds, _add_index_only, _add_json),
        "Runs the rules of docs/findings.md and lists what they find, the worst first, with step, "
        "evidence, threshold and source: leads, not verdicts. Exits 1 when anything found is "
        "severe; warnings and leads alone exit 0. Token arrays are read of at most 64 rollouts of each "
        "step, and of as many steps as 256 MB of the log hold.",
    ),
    "index": Command(
        "index",
        "build or extend the index of a run",
        (_add_run, _add_engine, _add_json),
        "Reads what is new in a run's log into its index, so that later openings take no time. The index "
        "is kept in the run's folder (.rollout-board), or in the user's cache where that can't be "
        "written. It can be interrupted and goes on where it stopped; it can be deleted at any time.",
    ),
}
