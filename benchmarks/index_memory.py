"""In how much memory a run of very many rollouts is indexed, whether it has many steps or a single one.

    python benchmarks/index_memory.py [--shape steps] [--rollouts 1000000] [--folder KEPT]

Writes logs of short lines, for what is kept of a rollout counts and not how long its line is, lets
`rollout-board index` read each in a process of its own, as it is, with as many processes as it takes,
and prints the peak of each of them (VmHWM of /proc/PID/status, which other than ru_maxrss is not that
of whatever began the process). Linux only.

    steps   verl's lines, 1,024 a step, in groups of 8
    step    verifiers' lines, all of one step, in groups of 8
    alone   verifiers' lines, all of one step, every prompt another one
    ids     open-instruct's lines, 1,024 a step, whose ids are looked through for rollouts written twice
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final

_GROUP: Final = 8
_STEP: Final = 1024
_TEXT: Final = "So we add the ones, carry the ten and get forty-two, which is what was asked. " * 4
_POLL_SECONDS: Final = 0.01


def verl(number: int) -> str:
    """A line of verl's dump of rollouts."""
    group = number // _GROUP
    return (
        f'{{"input": "Question {group}: {_TEXT}", "output": "{number} {_TEXT}", "gts": "{group % 97}", '
        f'"score": {number % 11 / 10}, "step": {number // _STEP}, "acc": {number % 2}.0, '
        f'"pred": "{number % 89}", "uid": "{group}_{number % _GROUP}_0"}}\n'
    )


def verifiers(number: int, group: int | None = None) -> str:
    """A line of verifiers' results."""
    group = number // _GROUP if group is None else group
    return (
        f'{{"example_id": {group}, "answer": "{group % 97}", '
        f'"prompt": [{{"role": "user", "content": "Question {group}: {_TEXT}"}}], '
        f'"completion": [{{"role": "assistant", "content": "{number} {_TEXT}"}}], '
        f'"reward": {number % 11 / 10}, "is_completed": true, "stop_condition": "no_tools_called", '
        f'"metrics": {{"correct": {number % 2}.0, "num_turns": {number % 3}.0}}, '
        f'"token_usage": {{"input_tokens": 300.0, "output_tokens": {number % 501}.0}}}}\n'
    )


def alone(number: int) -> str:
    """As `verifiers`, a group and a prompt of its own."""
    return verifiers(number, number)


def ids(number: int) -> str:
    """A line of open-instruct's rollouts."""
    return (
        f'{{"step": {number // _STEP}, "sample_idx": {number}, "prompt_idx": {number // _GROUP}, '
        f'"prompt_tokens": [1, 2, 3], "response_tokens": [4, 5, {number % 900}], '
        f'"reward": {number % 11 / 10}, "advantage": {number % 7 - 3}.0, "finish_reason": "stop", '
        f'"dataset": "gsm8k", "ground_truth": "{number % 97}"}}\n'
    )


_SHAPES: Final[dict[str, tuple[str, Callable[[int], str]]]] = {
    "steps": ("1.jsonl", verl),
    "step": ("results.jsonl", verifiers),
    "alone": ("results.jsonl", alone),
    "ids": ("run_rollouts_000000.jsonl", ids),
}


def written(folder: Path, shape: str, rollouts: int) -> Path:
    """The folder of a log; what an earlier call wrote is left as it is."""
    run = folder / f"{shape}-{rollouts}"
    name, line = _SHAPES[shape]
    if not run.exists():
        run.mkdir(parents=True)
        with (run / name).open("w") as file:
            file.writelines(map(line, range(rollouts)))
    shutil.rmtree(run / ".rollout-board", ignore_errors=True)
    return run


def peaks(command: list[str]) -> tuple[list[float], float]:
    """Peak MB of each process of a command, the first one's first, and seconds on the clock."""
    begun = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    result: dict[int, int] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        while process.poll() is None:
            for pid in _family(process.pid):
                result[pid] = _peak(pid) or result.get(pid, 0)
            time.sleep(_POLL_SECONDS)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return [kilobytes * 1024 / 1e6 for kilobytes in result.values()], time.perf_counter() - begun


def _family(pid: int) -> Iterator[int]:
    """The process and all that it and its own began."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return
    for child in children.split():
        yield from _family(int(child))


def _peak(pid: int) -> int:
    """Kilobytes; 0 where the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def measured(folder: Path, shape: str, rollouts: int) -> str:
    """One row of the table."""
    run = written(folder, shape, rollouts)
    size = sum(path.stat().st_size for path in run.iterdir() if path.is_file())
    code = "import sys; from board.cli import main; sys.exit(main())"
    result, took = peaks([sys.executable, "-c", code, "index", str(run)])
    text = ", ".join(f"{peak:.0f}" for peak in result)
    return (
        f"| {shape} | {rollouts:,} | {size / 1e6:,.0f} | {max(result):.0f} | {text} | {took:.1f} |"
    )


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=_SHAPES, action="append")
    parser.add_argument("--rollouts", type=int, action="append")
    parser.add_argument(
        "--folder", type=Path, help="where logs stay, and need not be written again"
    )
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}\n")
    heads = ("log", "rollouts", "MB", "peak MB of a process", "of each", "wall s")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    with nullcontext(args.folder) if args.folder else tempfile.TemporaryDirectory() as place:
        for shape in args.shape or _SHAPES:
            for rollouts in args.rollouts or (200_000, 1_000_000):
                print(measured(Path(place), shape, rollouts), flush=True)
                if not args.folder:
                    shutil.rmtree(Path(place))


if __name__ == "__main__":
    main()
