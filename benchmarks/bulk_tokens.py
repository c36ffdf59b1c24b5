"""How quickly token arrays of many rollouts are read again from the log by their addresses.

    python benchmarks/bulk_tokens.py [--rollouts 200000] [--megabytes 200] [--repeats 3]

Promise: 100 MB/s or 50,000 rollouts/s on one core, whichever is less, in bounded memory whatever the
log. Lines are short (a few ids and two arrays), of 200 pieces and five arrays, and of 8,000 ids and
twelve arrays; each measurement is a process of its own. all: every rollout, every array. findings: the
rollouts that findings look at, and their digests. The logs are generated: only their shape means
something.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import orjson

sys.path[:0] = [str(Path(__file__).parents[1])]

from generate import write_run  # noqa: E402

from board.analysis.findings import diagnose  # noqa: E402
from board.analysis.step_records import PLACES, StepRecords  # noqa: E402
from board.analysis.step_tokens import ReadTokens, tokens_of  # noqa: E402
from board.index.discovery.discovered_runs import discover  # noqa: E402
from board.query.open_run import Run, open_run  # noqa: E402

_OF_STEP: Final = 1000


def write_short_lines(folder: Path, rollouts: int) -> None:
    """A run of one file with three to five tokens a rollout, 1,000 rollouts a step, groups of 8."""
    folder.mkdir(parents=True)
    dice = np.random.default_rng(0)
    with (folder / "0-rank0-a.jsonl").open("wb") as file:
        for number in range(rollouts):
            logprobs = -dice.gamma(0.4, 1.0, 3 + number % 3).round(3)
            row = {"type": "sample", "step": number // _OF_STEP, "group_id": f"g{number // 8}"}
            row |= {"env": f"env {number // 8 % 5}", "prompt": f"Question {number // 8 % 1000}"}
            row |= {"response": "so four", "response_ids": dice.integers(0, 1000, len(logprobs))}
            row |= {"logprobs": logprobs, "ref_logprobs": logprobs - 0.01, "reward": number % 3 / 2}
            file.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def read_all(run: Run) -> tuple[int, int]:
    """Rollouts and bytes that were read."""
    rows = run.frame(PLACES)
    what = ReadTokens(roles=False, texts=True)
    result = [tokens_of(place, record, what).place for place, record in StepRecords(run).of(rows)]
    return len(result), int(rows["size"].sum())


def find(run: Run) -> tuple[int, int]:
    """Rollouts that findings look at; bytes are not known."""
    return diagnose(run).rollouts_read, 0


_WORK: Final[dict[str, Callable[[Run], tuple[int, int]]]] = {"all": read_all, "findings": find}


def measure(folder: Path, work: str) -> dict[str, float]:
    """Rollouts, bytes, seconds on the clock and of CPU, and the MB by which the process grew."""
    run = open_run(discover(folder).runs[0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    rollouts, size = _WORK[work](run)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6
    return {"rollouts": rollouts, "bytes": size, "wall": wall, "cpu": cpu, "grown": grown}


def _apart(folder: Path, work: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--folder", str(folder), "--work", work]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def _print_row(title: str, folder: Path, work: str, repeats: int) -> None:
    result = [_apart(folder, work) for _ in range(repeats)]
    rollouts, size = result[0]["rollouts"], result[0]["bytes"]
    wall, cpu, grown = (median(one[name] for one in result) for name in ("wall", "cpu", "grown"))
    rate = f"{size / 1e6 / cpu:.0f}" if size else ""
    print(
        f"| {title}, {work} | {rollouts:,.0f} | {wall:.2f} | {cpu:.2f} | {rate} "
        f"| {rollouts / cpu:,.0f} | {grown:.0f} |",
        flush=True,
    )


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=200_000, help="of the run of short lines")
    parser.add_argument("--megabytes", type=int, default=200, help="of each of the others")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", default="all", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(measure(args.folder, args.work)))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}\n")
    print("| lines | rollouts | s | CPU s | MB per CPU s | rollouts per CPU s | MB more memory |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["ROLLOUT_BOARD_CACHE"] = str(root / "cache")
        write_short_lines(root / "short" / "run", args.rollouts)
        write_run(root / "pieces" / "run", args.megabytes)
        write_run(root / "long" / "run", args.megabytes, long=True)
        for title in ("short", "pieces", "long"):
            for work in _WORK:
                _print_row(title, root / title, work, args.repeats)


if __name__ == "__main__":
    main()
