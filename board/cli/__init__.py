"""The `rollout-board` command: everything the pages show, without a browser.

Data goes to stdout, progress and errors to stderr. Exit codes: 0 done; 1 `check` found lines or values
that could not be used, `findings` found something severe, `sniff` recognised nothing; 2 the command
could not be done as given; 130 interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from board.cli.parser import COMMANDS, build_parser
from board.cli.terminal import harmless_output
from board.core.metrics.own_metrics import own_metrics
from board.errors import BoardError, ChoiceError, close_to, did_you_mean

__all__ = ["build_parser", "main"]

_INTERRUPTED: Final = 130
_QUERY_INTERRUPTED: Final = "Query interrupted"
"""What DuckDB says of Ctrl-C, in a RuntimeError."""
_BROKEN_PIPE: Final = 141  # what a shell reports for a program that SIGPIPE ended


def _with_command(arguments: Sequence[str]) -> list[str]:
    """The arguments with `serve` put in front where no command is named.

    Raises ChoiceError for a word that is neither a command nor, as far as can be seen, a path.
    """
    first = arguments[0] if arguments else ""
    if first in (*COMMANDS, "-h", "--help", "--version"):
        return [*arguments]
    is_word = first.isidentifier() and not Path(first).exists()
    has_more = len(arguments) > 1 and not arguments[1].startswith("-")
    if is_word and (has_more or close_to(first, COMMANDS)):
        raise ChoiceError(f"unknown command {first}; {did_you_mean(first, COMMANDS)}")
    return ["serve", *arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Raises SystemExit on arguments it can't parse."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is, whatever the locale says
    with harmless_output():
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    try:
        given = _with_command(sys.argv[1:] if arguments is None else arguments)
    except ChoiceError as error:
        print(f"rollout-board: {error}", file=sys.stderr)
        return 2
    args = build_parser().parse_args(given)
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
        return _INTERRUPTED
    except RuntimeError as error:
        if str(error) != _QUERY_INTERRUPTED:
            raise
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has left; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return code


def _module(name: str) -> ModuleType:
    gc.disable()  # a collection would look through all that was imported by then, again and again
    atexit.register(gc.freeze)  # and once more when the process ends
    try:
        return importlib.import_module(f"board.cli.commands.{name}")
    finally:
        gc.enable()


def _run(args: argparse.Namespace) -> int:
    if getattr(args, "labels_file", None) is not None:
        os.environ["ROLLOUT_BOARD_LABELS"] = str(args.labels_file.absolute())
    own_metrics()  # what is wrong in a user's file is said before anything is shown
    try:
        # Imported late: a training node has the exporter without what the dashboard needs.
        importlib.import_module("board.cli.output").begin(args.command)
        module = _module(COMMANDS[args.command].module)
        return getattr(module, args.command.replace("-", "_"))(args)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("board", "app"):
            raise
        raise BoardError(
            f"the dashboard needs {error.name}, which is not installed: "
            'pip install "rollout-board[board]"'
        ) from error
