"""What the command line answers about the bundled runs and the files of tests/formats/data.

    python tests/contract/recorded_answers.py      # records the answers of this code

Recorded before the index got another query engine: the answers must stay.
"""

import contextlib
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

PROJECT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(PROJECT))

from board import cli  # noqa: E402
from board.cli.opened_runs import opened  # noqa: E402
from board.index.discovery.discovered_runs import RunInfo, discover  # noqa: E402
from board.query.open_run import Follower, Run  # noqa: E402
from board.query.splits import splits_of  # noqa: E402

FILE = Path(__file__).with_name("recorded_answers.json.gz")
ROOTS = (PROJECT / "rollout_samples", PROJECT / "tests" / "formats" / "data")
_STEPS = 2
_ROWS = 20
_EACH = 7


def runs() -> list[RunInfo]:
    return [info for root in ROOTS for info in discover(root).runs]


def name_of(info: RunInfo) -> str:
    source = f" ({info.source})" if info.source else ""
    return f"{info.path.relative_to(PROJECT)}/{info.only or ''}{source}"


def answers(info: RunInfo, *, every: bool = True) -> dict[str, Any]:
    """Command -> what it prints as JSON, and its exit code; `every`: else of some of the commands."""
    follower = Follower()
    # The run is read once, not anew for each command.
    with mock.patch("board.cli.opened_runs.Follower", return_value=follower):
        return _answers(info, every)


def _answers(info: RunInfo, every: bool) -> dict[str, Any]:
    run = opened(info)
    steps = sorted(run.counts)
    some = steps[:: max(len(steps) // _STEPS, 1)][:_STEPS]
    # Tokens of the bundled runs are read by other tests; it takes long.
    light = ["--index-only"] if info.path.is_relative_to(ROOTS[0]) else []
    commands = [["check"], ["findings", *light], ["steps"], ["steps", "--split", "all"]]
    commands += [["steps", "--split", f"={name}"] for name in splits_of(run)]
    commands += [["findings", *light, "--split", f"={name}"] for name in splits_of(run)]
    commands += [["rollouts", "--step", str(step)] for step in some]
    first = ["rollouts", "--limit", str(_ROWS)]
    sorts = [name for name in ("reward", "response", "k3_mean", "group_id") if name in run.columns]
    commands += [[*first, "--sort", name] for name in sorts]
    commands += [[*first, "--sort", name, "--desc"] for name in sorts]
    if "reward" in run.columns:
        commands.append([*first, "--where", 'reward > 0 and response contains "a"'])
    commands = commands if every else commands[:1] + commands[1::3]
    found = {" ".join(command): _answer(info, command) for command in commands}
    return found | _of_environments(run)


def _answer(info: RunInfo, command: list[str]) -> Any:
    out = io.StringIO()
    path = str(info.path / info.only) if info.only else str(info.path)
    source = ["--source", info.source] if info.source else []
    name, *options = command
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = cli.main([name, path, *options, *source, "--json"])
    text = out.getvalue().replace(str(PROJECT), "")
    document = json.loads(text, parse_float=_short) if text.strip() else None
    return {"code": code, "document": _some(document)}


def _some(document: Any) -> Any:
    """Of a long table every seventh row."""
    return document[::_EACH] if isinstance(document, list) and len(document) > _ROWS else document


def _short(number: str) -> float:
    """Nine digits, which are more than are compared."""
    return float(f"{float(number):.9g}")


def _of_environments(run: Run) -> dict[str, Any]:
    """The table of steps of each environment, of two together, and of each split of the first."""
    if "env" not in run.columns:
        return {}
    names = sorted(run.rollouts["env"].dropna().unique())
    chosen = [(name,) for name in names[:3]] + ([tuple(names[:2])] if len(names) > 1 else [])
    return {
        f"steps of {', '.join(envs)}": _some(
            json.loads(
                run.where(envs=envs).steps_with_quantiles.to_json(
                    orient="records", double_precision=15
                ),
                parse_float=_short,
            )
        )
        for envs in chosen
    }


def record() -> None:
    """Writes FILE."""
    found = {name_of(info): answers(info) for info in runs()}
    content = json.dumps(found, sort_keys=True).encode()
    FILE.write_bytes(gzip.compress(content, mtime=0))
    print(f"{len(found)} runs, {len(content)} bytes, {FILE.stat().st_size} in the file")


if __name__ == "__main__":
    record()
