"""The options of `rollout-board`, as argparse takes them; parser.py says which command has which."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from board.cli import argument_types

_WHERE_HELP: Final = """\
a filter over columns, such as 'reward < 0.5 and response contains "I think"': == != < <= > >= contains,
in (..), and, or, not, arithmetic and functions. A text of one word needs no quotes: env == math. prompt,
response, ref_response, ground_truth and any_text are whole texts. Case matters to == and !=, not to
contains. A rollout without a value does not match. See docs/expressions.md."""


ARGUMENTS: Final[Mapping[str, dict[str, Any]]] = {
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
    "name": {"metavar": "NAME", "help": "the name of the reader, such as my_trainer"},
    "file": {"type": Path, "metavar": "FILE", "help": "a log of JSON lines that it is to read"},
    "--output=package": {
        "metavar": "FOLDER",
        "help": "a folder that there is not yet (default: NAME_reader in the current one)",
    },
    "shell": {
        "choices": ("bash", "zsh", "fish"),
        "metavar": "SHELL",
        "help": "%(choices)s",
    },
    "statement": {
        "metavar": "SELECT",
        "help": "such as 'select step, avg(reward) from rollouts group by 1'",
    },
    "--source": {
        "metavar": "NAME",
        "help": "which log to read in a folder that holds several formats: joined (the default where "
        "they can be joined), or the name of one, as `rollout-board runs` shows it in brackets, e.g. "
        "slime_train",
    },
    "--split": {
        "metavar": "NAME",
        "help": "rollouts of this split only, e.g. eval; all: of every split (default: train, or the "
        "rollouts without a split, where there are several splits; for the command rollouts: all). For "
        "a split that is itself called all, write =all",
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
    "--reward": {
        "type": argument_types.reward,
        "metavar": "PART:WEIGHT,..",
        "help": "for logs with parts of the reward and no total: what the reward is, such as "
        "correct:1,format:0.5 (default: the sum of the parts, where the trainer's reward agrees)",
    },
    "--right-from": {
        "type": float,
        "metavar": "SCORE",
        "help": "from which score on a rollout is right, others being wrong: of the part of the reward "
        "that says what is right, else of the reward (default: 1 of such a part; of rewards the higher "
        "of their two most frequent values, and the lower is wrong)",
    },
    "--gain-share": {
        "type": argument_types.share,
        "metavar": "SHARE",
        "help": "the share of the prompts that gain where the mean does, above 0 up to 1 (default: by "
        "the prompts that come in both halves of the run, else each gains half of the metric's range)",
    },
    "--metrics": {
        "type": Path,
        "metavar": "PATH",
        "help": "a file or folder with scalars of the trainer, elsewhere than in the run's folder; in "
        "a folder that has one with the run's name, only that one is read",
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
    "--step=labelled": {"type": int, "help": "trainer step"},
    "--index=labelled": {"type": int, "help": "position within the step, from 0"},
    "--last": {"type": argument_types.count, "metavar": "N", "help": "the last N steps only"},
    "--sort": {"metavar": "COLUMN", "help": "sort by this column; missing values come last"},
    "--desc": {"action": "store_true", "help": "largest first"},
    "--limit": {"type": argument_types.positive, "metavar": "N", "help": "at most N rollouts"},
    "--columns": {
        "metavar": "A,B",
        "help": "these columns only, in this order, separated by commas; a name with a comma stands in "
        "double quotes",
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
        "type": argument_types.positive,
        "metavar": "N",
        "help": "at most N rollouts: with --where the first (20), with --step those with the lowest and "
        "the highest rewards (8; with --interactive all); in a data set the first N rows (all)",
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
        "type": argument_types.megabytes,
        "metavar": "MB",
        "help": "the largest size of the page; what does not fit is left out, and the page says so "
        "(10; with --interactive 20)",
    },
    "--interactive": {
        "action": "store_true",
        "help": "the reader itself with its data, which works offline",
    },
    "--output": {
        "metavar": "PATH",
        "help": "the page's file, - for stdout (default: named after the run and the choice, in the "
        "current folder, and printed); with --as a file, or for hf, and for sft and dpo without an "
        "ending, a folder",
    },
    "--json": {"action": "store_true", "help": "one JSON document; null where not recorded"},
    "--jsonl": {
        "action": "store_true",
        "help": "one JSON document per line: all columns, and texts in full",
    },
    "--csv": {
        "action": "store_true",
        "help": "comma-separated values: all columns, and texts in full",
    },
    "--parquet": {"type": Path, "metavar": "FILE", "help": "write the rows to a Parquet file"},
    "--timeout": {
        "type": argument_types.seconds,
        "default": 60.0,
        "metavar": "SECONDS",
        "help": "stop the statement after this many seconds (%(default)g)",
    },
    "--thresholds": {
        "type": Path,
        "metavar": "F.toml",
        "help": "a TOML file with thresholds of your own for findings; what it leaves out keeps its "
        "default (without it: thresholds.toml in the run's folder, where there is one)",
    },
    "--all": {
        "action": "store_true",
        "help": "list every file, even where several have the same reason",
    },
    "--write": {
        "action": "store_true",
        "help": "save the suggested mapping as rollout-board.toml beside the file, unless there "
        "is one already",
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
        "help": "the metric of rollouts to use (%(default)s)",
    },
    "--by": {
        "metavar": "A,B",
        "help": "group runs that have the same values of these settings (default: all settings that "
        "differ, except seeds)",
    },
    "--difference": {
        "type": float,
        "required": True,
        "metavar": "X",
        "help": "the difference of means to detect",
    },
    "label": {
        "nargs": "?",
        "metavar": "LABEL",
        "help": "the label; leave it out with --note, --clear or --undo",
    },
    "--labels": {
        "type": Path,
        "dest": "labels_file",
        "metavar": "FILE",
        "help": "a file for the labels of all runs (default: labels.jsonl in the folder .rollout-board "
        "of each run, or in the user's cache)",
    },
    "--author": {"metavar": "NAME", "help": "who labels (default: your user name)"},
    "--author=counted": {
        "metavar": "NAME",
        "help": "count the labels of this author only (default: the last label of each rollout)",
    },
    "--note": {"metavar": "TEXT", "help": "a note on the rollout"},
    "--tokens": {
        "metavar": "A-B",
        "help": "label these tokens of the response, from 0, both included",
    },
    "--clear": {"action": "store_true", "help": "remove the author's label, or that of --tokens"},
    "--undo": {"action": "store_true", "help": "undo the author's last entry"},
    "--draw": {
        "type": argument_types.count,
        "metavar": "N",
        "help": "draw a random sample of N rollouts to label, stratified by step and reward",
    },
    "--sample": {"metavar": "NAME", "help": "name of the sample to draw (default: sample01, ...)"},
    "--seed": {
        "type": int,
        "help": "seed of the random draw (default: the number of samples that the run has)",
    },
    "--require": {
        "action": "append",
        "metavar": "RULE",
        "help": "exit 3 where this rule could not check the run; may be given several times",
    },
    "--notify": {
        "action": "append",
        "metavar": "URL",
        "help": "where to send alerts, too, as Apprise names services, such as slack://TOKENS or "
        "mailto://USER:PASSWORD@HOST; may be given several times; needs the extra `notify`",
    },
    "--failures": {
        "type": argument_types.share,
        "metavar": "SHARE",
        "help": "alert when infrastructure or an unclear cause failed more than this share of the "
        "rollouts of the last 10 steps, such as 0.05",
    },
    "--silent": {
        "type": argument_types.seconds,
        "metavar": "MINUTES",
        "help": "alert when nothing was written to the log for this long",
    },
    "--every": {
        "type": argument_types.seconds,
        "default": 60.0,
        "metavar": "SECONDS",
        "help": "how long to wait between two looks (%(default)g)",
    },
    "--once": {"action": "store_true", "help": "look a single time; exit 1 when anything is wrong"},
    "--index-only": {"action": "store_true", "help": "leave out rules that read token arrays"},
    "--as": {
        "choices": ("parquet", "jsonl", "csv", "hf", "sft", "dpo"),
        "dest": "kind",
        "help": "a data set in place of a page. parquet, jsonl, csv: a table of rollouts; hf: a Hugging "
        "Face data set folder of it; "
        "sft: conversations; dpo: pairs of the best and the worst rollout of each group",
    },
    "--margin": {
        "type": float,
        "metavar": "X",
        "help": "for dpo: the smallest difference of the two rewards (default: any above 0)",
    },
    "--leave-out": {
        "metavar": "A,B",
        "help": "which rollouts are left out of a data set: infrastructure (failed by it), truncated "
        "(ended by a limit), unscored (without a reward), duplicates, or nothing (default: of sft "
        "infrastructure,truncated,duplicates; of dpo infrastructure, and truncated as the better one; of "
        "tables nothing)",
    },
    "--by-turn": {
        "action": "store_true",
        "help": "for sft and dpo: each turn that the model wrote is a row, with all before it as its "
        "prompt; of a pair the first turn that differs",
    },
    "--overwrite": {"action": "store_true", "help": "replace the data set that is there"},
    "--engine": {
        "choices": ("local", "ray"),
        "default": "local",
        "help": "what reads the log: this machine (%(default)s), or the workers of a Ray cluster, which "
        "need the run at the same path",
    },
    "--address": {
        "metavar": "HOST:PORT",
        "help": "address of the Ray cluster (default: RAY_ADDRESS, else Ray on this machine)",
    },
    "--port": {"type": int, "help": "port to listen on (default: the first free one from 8501 on)"},
    "--host": {"default": "127.0.0.1", "help": "address to listen on (%(default)s)"},
    "--allow-host": {
        "action": "append",
        "metavar": "NAME",
        "help": "a name under which browsers reach the dashboard, as that of a reverse proxy; may be "
        "given several times",
    },
    "--allow-any-path": {"action": "store_true", "help": "let users of the page open any folder"},
    "--base": {
        "default": "",
        "metavar": "URL",
        "help": "address of a dashboard on the same folder, such as http://127.0.0.1:8501, which links "
        "begin with (default: links are relative to it)",
    },
    "report": {"type": Path, "metavar": "REPORT", "help": "a report in Markdown"},
    "--root": {
        "default": ".",
        "metavar": "PATH",
        "help": "the folder of the runs that it cites, or a run (default: the current folder)",
    },
    "--strict": {
        "action": "store_true",
        "help": "fail, too, where a citation names a place alone, and on numbers and quotes without one, "
        "or a report without any",
    },
    "--background": {
        "action": "store_true",
        "help": "return as soon as the dashboard answers; it goes on without this terminal",
    },
    "--no-browser": {"action": "store_true", "help": "print the address, open nothing"},
}
"""What each is to argparse. What follows a = tells arguments of one name apart."""
SHORT: Final = {"--output": ("-o",)}
