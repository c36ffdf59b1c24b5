"""The commands and options of `rollout-board`; needs none of the dashboard's packages."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final, NamedTuple

from board import __version__
from board.cli.arguments import ARGUMENTS, SHORT


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
                to.add_argument(*SHORT.get(flag, ()), flag, **ARGUMENTS[argument])
    return parser


class Command(NamedTuple):
    """module: of board.cli.commands, with a function of the command's name. arguments: names in
    ARGUMENTS, those that exclude each other joined by |.
    """

    module: str
    summary: str
    arguments: str
    description: str | None = None


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        "serve",
        "open the dashboard in a browser",
        "path --port --host --allow-host --allow-any-path --no-browser --thresholds --metrics "
        "--metric-shift --labels",
    ),
    "open": Command(
        "background",
        "start a dashboard that goes on in the background, and print its address",
        "path --port --host --allow-host --allow-any-path --no-browser --background --thresholds "
        "--metrics --metric-shift --labels --json",
        "Without --background it is `serve`. With it prints the address once the dashboard answers, and "
        "returns: for scripts and coding agents. It goes on until it is stopped, as stderr says.",
    ),
    "runs": Command("discovery", "list the runs under a folder", "path --columns --json"),
    "steps": Command(
        "query",
        "the metrics of each step of a run",
        "run --source --split --env --where --group-by-prompt --reward --last --columns --labels "
        "--json|--jsonl|--csv",
    ),
    "rollouts": Command(
        "query",
        "the rollouts of a run, sorted and filtered",
        "run --source --step --split --sort --desc --env --where --group-by-prompt --reward --last "
        "--limit --columns --labels --json|--jsonl|--csv",
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
        "the differences between runs on the prompts that both saw",
        "run other --split --env --where --reward --right-from --last --match --columns --metric --by "
        "--json",
        "Pairs RUN (A) with each OTHER (B) prompt by prompt: the mean of B - A of each metric with its "
        "95 % interval over prompts; on how many prompts B won, lost or tied; and from which step the "
        "runs differ beyond chance, as two seeds may, too. Three runs or more are grouped by their "
        "settings too (docs/compare_runs.md).",
    ),
    "contrasts": Command(
        "compare",
        "what sets the winners of a group apart from its losers",
        "run --source --split --env --where --group-by-prompt --reward --last --columns --json",
        "Compares the rollouts above the mean reward of their group with those below it: words of the "
        "response, numbers and parts of the reward, with intervals over groups and false discovery "
        "rates (docs/compare_runs.md).",
    ),
    "sample-size": Command(
        "compare",
        "how many prompts are needed to detect a difference",
        "run --source --difference --gain-share --metric --split --env --where --group-by-prompt "
        "--reward --last --json",
        "Prints how many prompts, with how many rollouts each, are needed to detect a difference between "
        "two runs in a metric, given the variance of this run (docs/compare_runs.md).",
    ),
    "sql": Command(
        "query",
        "query a run with SQL",
        "run --source statement --group-by-prompt --reward --metrics --metric-shift --timeout "
        "--labels --json|--csv|--parquet",
        "Prints the rows of one SELECT, in DuckDB's SQL, over the views rollouts, steps, groups, "
        "prompts, problems and metrics of a run (docs/sql.md has their columns). It reads nothing else.",
    ),
    "show": Command(
        "analysis",
        "one whole rollout, token by token (in the table those at both ends of more than 20,000)",
        "run --source --reward --step=needed --index --json",
    ),
    "check": Command(
        "index",
        "every line and value that could not be used",
        "run --source --metrics --metric-shift --all --json",
        "Lists every problem with its file, line, field and reason. Severity lost: a line or file is "
        "not shown. partial: a value of a rollout is not shown. note: everything is shown, and the "
        "note says how it was read. Exits 1 when anything is lost or partial; notes alone exit 0. "
        "About 200 lines of each file are compared with what is shown of them; --all: every line.",
    ),
    "sniff": Command(
        "discovery",
        "why a file is or is not recognised",
        "path=sniffed --write --all --json",
        "Says for a file, or for each file of a folder that may be a log, which reader reads it, or "
        "what each reader misses, and suggests a mapping file (docs/own_format.md) with the first "
        "rollouts that it gives. Exits 0 when a file is recognised, 1 when none is.",
    ),
    "scaffold-reader": Command(
        "scaffold",
        "write a package with a reader for logs of your own, its test and a fixture, to start from",
        "name file --output=package",
        "For what a mapping can't express (docs/own_format.md). The first three lines of FILE become the "
        "fixture. The board knows the reader once the package is installed.",
    ),
    "findings": Command(
        "analysis",
        "what looks wrong in a run, worst first",
        "run --source --split --env --where --group-by-prompt --reward --last --thresholds --metrics "
        "--metric-shift --index-only --require --json",
        "Runs the rules of docs/findings.md and lists what they find, the worst first, with step, "
        "evidence, threshold and source: leads, not verdicts; then which rules checked the run, and what "
        "the others lack. Exits 1 when anything found is severe, 3 when a rule of --require did not "
        "check the run; warnings and leads alone exit 0. Reads the token arrays of at most 64 rollouts "
        "of each step, and of as many steps as fit in 256 MB of the log, at most 2,048.",
    ),
    "watch": Command(
        "watch",
        "say what goes wrong in a run while it is trained, once each, here or to a service",
        "run --source --split --env --where --group-by-prompt --reward --last --thresholds --metrics "
        "--metric-shift --index-only --notify --failures --silent --every --once --base",
        "Looks at a run again and again and tells severe findings, ranks that stopped and, if asked for, "
        "a share of failures or silence: each once, also over restarts. Prints them, and sends nothing "
        "unless --notify names a service. --once looks a single time and exits 1 when anything is wrong.",
    ),
    "export": Command(
        "export",
        "a finding or rollouts as one HTML file, or rollouts as a data set",
        "run --source --split --env --where --group-by-prompt --reward --right-from --last --finding "
        "--step --index=maybe --group --compare --limit=export --metric=colour --interactive --redact "
        "--max-mb --as --columns --margin --leave-out --by-turn --output --overwrite --thresholds "
        "--metrics --metric-shift --index-only --labels",
        "Without --as writes a page that needs no server or network: the headline, the curve with its "
        "step, the facts, the texts, and the tokens in the colours of a metric with their values on "
        "hover; --interactive: the reader itself, to page through the rollouts (docs/export.md). Give "
        "one of --finding, --step (with or without --index), --group, --compare and --where. With --as "
        "writes rollouts with their whole texts and messages, all of it or nothing (docs/datasets.md).",
    ),
    "failures": Command(
        "failures",
        "why rollouts failed, and what that did to training",
        "run --source --split --env --where --group-by-prompt --reward --right-from --last --json",
        "Counts rollouts by cause: tool_error, sandbox, judge and server are failures of infrastructure; "
        "unknown, unscored and aborted are unclear, policy is the model's own, truncated and timeout are "
        "limits (docs/failures.md). Lists failures with equal evidence, and how rewards, groups and "
        "advantages would be without those of infrastructure and the unclear ones.",
    ),
    "label": Command(
        "labels",
        "label a rollout, or write a note on it",
        "run label --source --step=labelled --index=labelled --tokens --note --clear --undo --author "
        "--labels",
        "Appends to the run's labels (docs/labels.md). The labels to choose from are those of "
        "labels.toml in the run's folder or in the folder above; without one: good, wrong, cheat, "
        "grader, broken, unclear.",
    ),
    "labels": Command(
        "labels",
        "the labels of a run, the shares of its samples, and the agreement of authors",
        "run --source --split --env --where --last --author=counted --draw --sample --seed --labels "
        "--json",
        "Prints how many rollouts have each label; for each random sample the share of the run that has "
        "it, with its 95 % interval; and how far each pair of authors agrees. --draw draws a sample of "
        "the rollouts that --split, --env and --where choose (docs/labels.md).",
    ),
    "index": Command(
        "index",
        "build or extend the index of a run",
        "run --source --engine --address --json",
        "Reads what is new in a run's log into its index, so that it opens at once later. The index "
        "is kept in the run's folder (.rollout-board), or in the user's cache where that can't be "
        "written. It can be interrupted and goes on where it stopped. The folder `index` there can be "
        "deleted at any time; labels are beside it.",
    ),
    "completion": Command(
        "completion",
        "print a completion script for your shell",
        "shell",
        "Prints a script for bash, zsh or fish. For bash, in ~/.bashrc: "
        'eval "$(rollout-board completion bash)" (docs/command_line.md).',
    ),
    "mcp": Command(
        "mcp",
        "answer a coding agent's questions about runs, by MCP over stdio",
        "path --base",
        "Serves the Model Context Protocol on stdin and stdout, for a client such as a coding agent: the "
        "runs under PATH, read only and nothing outside it (docs/agents.md). Needs the extra `mcp`.",
    ),
    "verify": Command(
        "verify",
        "check the quotes and numbers of a report against the logs",
        "report --root --strict --json",
        "Looks up each citation of a report, such as [run=NAME step=12 rollout=3], and compares what "
        "stands before it with the log (docs/verify.md). Exits 1 when one is wrong, 2 when the "
        "report or a log can't be read.",
    ),
}
