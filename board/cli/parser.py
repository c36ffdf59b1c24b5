"""The commands and options of `rollout-board`; needs none of the dashboard's packages."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

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
        for arguments in command.arguments.split():
            several = arguments.split("|")
            to = own.add_mutually_exclusive_group() if len(several) > 1 else own
            for argument in several:
                flag, *_ = argument.partition("=")
                to.add_argument(*_SHORT.get(flag, ()), flag, **_ARGUMENTS[argument])
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("expected 0 or more")
    return number


def _megabytes(text: str) -> float:
    number = float(text)
    if not 0.5 <= number <= 1000:
        raise argparse.ArgumentTypeError("expected 0.5 to 1000")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("expected a number above 0")
    return number


_ARGUMENTS: Final[Mapping[str, dict[str, Any]]] = {
    "run": {
        "metavar": "RUN",
        "help": "a run's folder, a log file, a URL of either, or the name of a run in the bundled "
        "rollout_samples",
    },
    "other": {
        "metavar": "OTHER",
        "nargs": "+",
        "help": "another run, or several, each compared with RUN",
    },
    "path": {
        "nargs": "?",
        "metavar": "PATH",
        "help": "a folder of runs, a run or a log file, or a URL such as s3://BUCKET/FOLDER (default: "
        "the bundled rollout_samples)",
    },
    "path=sniffed": {
        "metavar": "PATH",
        "help": "a log file, or a folder of them, here or in a store (s3://BUCKET/FOLDER)",
    },
    "statement": {
        "metavar": "SELECT",
        "help": "such as 'select step, avg(reward) from rollouts group by 1'",
    },
    "--source": {
        "metavar": "NAME",
        "help": "which logs of a folder that holds several formats: joined (the default where they can "
        "be joined), or the name of one, as `rollout-board runs` shows it in brackets, e.g. "
        "slime_train",
    },
    "--split": {
        "metavar": "NAME",
        "help": "rollouts of this split alone, e.g. eval; all: of all of them (default: train, or what "
        "is not said to be of any split, where there are several; of the command rollouts: all). A "
        "split that is itself called all is =all",
    },
    "--env": {
        "metavar": "A,B",
        "help": "rollouts of these environments only, separated by commas",
    },
    "--where": {"metavar": "EXPR", "help": _WHERE_HELP},
    "--group-by-prompt": {
        "action": "store_true",
        "help": "for logs without group_id: rollouts of a step with the same prompt form a group",
    },
    "--metrics": {
        "type": Path,
        "metavar": "PATH",
        "help": "a file or folder with scalars of the trainer, elsewhere than in the run's folder; of a "
        "folder that has one called like the run, only that is read",
    },
    "--metric-shift": {
        "type": int,
        "metavar": "N",
        "help": "steps to add to the trainer's own (default: found by a metric that both have)",
    },
    "--names": {
        "action": "store_true",
        "help": "list the metrics with their file and number of points",
    },
    "--step": {"type": int, "help": "rollouts of this step only"},
    "--step=needed": {"type": int, "required": True, "help": "trainer step"},
    "--index": {"type": int, "required": True, "help": "position within the step, from 0"},
    "--last": {"type": _count, "metavar": "N", "help": "the last N steps only"},
    "--sort": {"metavar": "COLUMN", "help": "by this column; missing values come last"},
    "--desc": {"action": "store_true", "help": "largest first"},
    "--limit": {"type": _count, "metavar": "N", "help": "at most N rollouts"},
    "--columns": {
        "metavar": "A,B",
        "help": "these columns only, in this order, separated by commas",
    },
    "--index=maybe": {"type": int, "help": "with --step: this rollout alone, from 0"},
    "--finding": {
        "metavar": "K",
        "help": "a finding: its number in the list of `rollout-board findings` of the same options, from "
        "1 for the first and worst, or its rule's name, such as part_falls",
    },
    "--group": {
        "metavar": "G",
        "help": "the rollouts of this group_id; with --step where several steps have it",
    },
    "--compare": {
        "nargs": 2,
        "metavar": ("S:I", "S:J"),
        "help": "two rollouts side by side, each as STEP:INDEX",
    },
    "--limit=export": {
        "type": _count,
        "metavar": "N",
        "help": "at most N rollouts: of --where the first (20), of --step those with the lowest and the "
        "highest rewards (8)",
    },
    "--metric=colour": {
        "metavar": "NAME",
        "help": "the token metric that colours the tokens, such as k3 or entropy (default: the first "
        "that is recorded)",
    },
    "--redact": {
        "metavar": "REGEX",
        "help": "remove what this regular expression of Python matches, from texts, tokens, titles and "
        "names; a match may span tokens",
    },
    "--max-mb": {
        "type": _megabytes,
        "default": 10.0,
        "metavar": "MB",
        "help": "the largest file; what does not fit is left out, and that is said (%(default)g)",
    },
    "--output": {
        "metavar": "FILE",
        "help": "the file; - for stdout (default: named after the run and the choice, in the current "
        "folder, and printed)",
    },
    "--json": {"action": "store_true", "help": "one JSON document; null where not recorded"},
    "--jsonl": {
        "action": "store_true",
        "help": "a JSON document a line: all columns, and texts in full",
    },
    "--csv": {
        "action": "store_true",
        "help": "comma-separated values: all columns, and texts in full",
    },
    "--parquet": {"type": Path, "metavar": "FILE", "help": "write them to a Parquet file"},
    "--timeout": {
        "type": _seconds,
        "default": 60.0,
        "metavar": "SECONDS",
        "help": "stop the statement after so long (%(default)g)",
    },
    "--thresholds": {
        "type": Path,
        "metavar": "F.toml",
        "help": "a TOML file with thresholds of your own for findings; what it leaves out keeps its "
        "default (without it: thresholds.toml in the run's folder, where there is one)",
    },
    "--all": {
        "action": "store_true",
        "help": "list each file, also where several have the same reason",
    },
    "--write": {
        "action": "store_true",
        "help": "save the suggested mapping as rollout-board.toml beside the file, where there is none",
    },
    "--match": {
        "choices": ("steps", "tokens", "time"),
        "default": "steps",
        "help": "compare the same steps (%(default)s), or the runs up to as many response tokens, or "
        "as much time since their first step",
    },
    "--metric": {
        "metavar": "NAME",
        "default": "reward",
        "help": "the metric of rollouts that is meant (%(default)s)",
    },
    "--by": {
        "metavar": "A,B",
        "help": "group runs that have the same values of these settings (default: of all that "
        "differ, but seeds)",
    },
    "--difference": {
        "type": float,
        "required": True,
        "metavar": "X",
        "help": "the difference of means that should be seen",
    },
    "--index-only": {"action": "store_true", "help": "leave out rules that read token arrays"},
    "--engine": {
        "choices": ("local", "ray"),
        "default": "local",
        "help": "what reads the log: this machine (%(default)s), or the workers of a Ray cluster, which "
        "need the run at the same path",
    },
    "--address": {
        "metavar": "HOST:PORT",
        "help": "of the Ray cluster; default: RAY_ADDRESS, else a Ray on this machine",
    },
    "--port": {"type": int, "help": "default: the first free port from 8501 on"},
    "--host": {"default": "127.0.0.1", "help": "address to listen on (%(default)s)"},
    "--allow-any-path": {"action": "store_true", "help": "let users of the page open any folder"},
    "--no-browser": {"action": "store_true", "help": "print the address, open nothing"},
}
"""What each is to argparse. What follows a = tells arguments of one name apart."""
_SHORT: Final = {"--output": ("-o",)}


class Command(NamedTuple):
    """module: of board.cli.commands, with a function of the command's name. arguments: names in
    _ARGUMENTS, those that exclude each other joined by |.
    """

    module: str
    summary: str
    arguments: str
    description: str | None = None


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        "serve",
        "open the dashboard in a browser",
        "path --port --host --allow-any-path --no-browser --thresholds --metrics --metric-shift",
    ),
    "runs": Command("discovery", "list the runs under a folder", "path --json"),
    "steps": Command(
        "query",
        "the metrics of each step of a run",
        "run --source --split --env --where --group-by-prompt --last --columns --json|--jsonl|--csv",
    ),
    "rollouts": Command(
        "query",
        "the rollouts of a run, sorted and filtered",
        "run --source --step --split --sort --desc --env --where --group-by-prompt --last --limit "
        "--columns --json|--jsonl|--csv",
    ),
    "metrics": Command(
        "query",
        "the trainer's own scalars of each step",
        "run --source --metrics --metric-shift --names --last --columns --json|--csv",
        "Prints what the trainer logged, by step: from step_end lines, JSON lines, trainer_state.json, "
        "CSV, TensorBoard, W&B and Trackio files in the run's folder (docs/trainer_metrics.md).",
    ),
    "compare": Command(
        "compare",
        "the differences of runs on the prompts that both saw",
        "run other --split --env --match --columns --metric --by --json",
        "Pairs RUN (A) with each OTHER (B) prompt by prompt: the mean of B - A of each metric with its "
        "95 % interval, by a bootstrap over prompts; on how many prompts B won, lost or was equal; and "
        "from which step the runs differ beyond chance. Three runs or more are grouped by their "
        "settings, too (docs/compare_runs.md).",
    ),
    "contrasts": Command(
        "compare",
        "what winners of a group have that its losers have not",
        "run --split --env --json",
        "Compares the rollouts above the mean reward of their group with those below it: words of the "
        "response, numbers and parts of the reward, with intervals over groups and false discovery "
        "rates (docs/compare_runs.md).",
    ),
    "sample-size": Command(
        "compare",
        "how many prompts show a difference",
        "run --difference --metric --split --env --json",
        "Prints how many prompts, and rollouts of each, show a difference of two runs in a metric, by "
        "the variance of this run (docs/compare_runs.md).",
    ),
    "sql": Command(
        "query",
        "ask a run by SQL",
        "run --source statement --group-by-prompt --metrics --metric-shift --timeout "
        "--json|--csv|--parquet",
        "Prints the rows of one SELECT, in DuckDB's SQL, over the views rollouts, steps, groups, "
        "prompts, problems and metrics of a run (docs/sql.md has their columns). It reads nothing else.",
    ),
    "show": Command(
        "analysis", "one rollout whole, token by token", "run --source --step=needed --index --json"
    ),
    "check": Command(
        "index",
        "every line and value that could not be used",
        "run --source --metrics --metric-shift --all --json",
        "Lists every problem with its file, line, field and reason. Severity lost: a line or file is "
        "not shown. partial: a value of a rollout is not shown. note: all is shown, and it is said how "
        "it was read. Exits 1 when anything is lost or partial; notes alone exit 0.",
    ),
    "sniff": Command(
        "discovery",
        "why a file is or is not recognised",
        "path=sniffed --write --all --json",
        "Says of a file, or of each file of a folder that may be a log, by which reader it is read, or "
        "what each reader misses, and suggests a mapping file (docs/own_format.md) with the first "
        "rollouts that it gives. Exits 0 when a file is recognised, 1 when none is.",
    ),
    "findings": Command(
        "analysis",
        "what looks wrong in a run, worst first",
        "run --source --split --env --where --group-by-prompt --thresholds --metrics --metric-shift "
        "--index-only --json",
        "Runs the rules of docs/findings.md and lists what they find, the worst first, with step, "
        "evidence, threshold and source: leads, not verdicts. Exits 1 when anything found is "
        "severe; warnings and leads alone exit 0. Token arrays are read of at most 64 rollouts of each "
        "step, and of as many steps as 256 MB of the log hold.",
    ),
    "export": Command(
        "export",
        "a finding or rollouts as one HTML file, to send or print",
        "run --source --split --env --where --group-by-prompt --finding --step --index=maybe --group "
        "--compare --limit=export --metric=colour --redact --max-mb --output --thresholds --metrics "
        "--metric-shift --index-only",
        "Writes a page that needs no server, script or network: the headline, the curve with its step, "
        "the facts, the texts, and the tokens in the colours of a metric with their values on hover "
        "(docs/export.md). Give one of --finding, --step (with or without --index), --group, --compare "
        "and --where.",
    ),
    "failures": Command(
        "failures",
        "why rollouts failed, and what that did to training",
        "run --source --split --env --where --group-by-prompt --json",
        "Counts rollouts by cause: tool_error, sandbox, judge and server are failures of infrastructure; "
        "policy and truncated are the model's own (docs/failures.md). Lists failures with equal "
        "evidence, and how rewards, groups and advantages would be without those of infrastructure.",
    ),
    "index": Command(
        "index",
        "build or extend the index of a run",
        "run --source --engine --address --json",
        "Reads what is new in a run's log into its index, so that later openings take no time. The index "
        "is kept in the run's folder (.rollout-board), or in the user's cache where that can't be "
        "written. It can be interrupted and goes on where it stopped; it can be deleted at any time.",
    ),
}
