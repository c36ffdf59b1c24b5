"""How an index of very many rollouts opens: time and memory of the Overview, of a step, of sorting.

    python benchmarks/many_rollouts.py [--rollouts 5000000]

The index is generated, without a log: what is measured is everything after the reading.
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
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from board.store import step_store
from board.store.batch import put_rows, tallies_of
from board.store.discovery import RunInfo
from board.store.log_file import LogFile
from board.store.manifest import FileState, Manifest
from board.store.run import Run, indexed_run
from board.store.storage import FolderStorage
from board.store.table import ordered

_EACH: Final = 16_384
_A_STEP: Final = 1024
_SORTED: Final = 1_000_000
_TEXT: Final = "So we add the ones, carry the ten and get forty-two, which is what was asked for. "


def make(folder: Path, rollouts: int) -> None:
    """Writes the index of a run of so many rollouts, 1,024 a step."""
    storage = FolderStorage(folder)
    rng = np.random.default_rng(0)
    state = FileState(0, "x.jsonl", "native", size=1, consumed=1)
    segments = []
    for first in range(0, rollouts, _EACH):
        numbers = np.arange(first, min(first + _EACH, rollouts))
        table = pa.table(
            {
                "step": numbers // _A_STEP,
                "line": numbers + 1,
                "offset": numbers * 1000,
                "size": np.full(len(numbers), 1000),
                "file": np.zeros(len(numbers), np.int64),
                "response_tokens": rng.integers(1, 8000, len(numbers)),
                **{
                    name: rng.normal(size=len(numbers))
                    for name in ("reward", "advantage", "k1_mean", "k3_mean", "entropy_mean")
                },
                "group_id": [f"g{number // 8}" for number in numbers],
                "prompt": [f"{number} {_TEXT}" for number in numbers],
                "response": [f"{_TEXT * 2}{number}" for number in numbers],
            }
        )
        for rank, tally in tallies_of(table).items():
            known = dict(state.tallies)
            if rank in known:
                known[rank].merge(tally)
            else:
                known[rank] = tally
            state = replace(state, tallies=known)
        segments.append(put_rows(storage, table))
    steps = frozenset(range(-(-rollouts // _A_STEP)))
    manifest = Manifest("generated", 1, (state,), tuple(segments), stale=steps, total=1)
    storage.commit(step_store.refreshed(storage, manifest, ["x.jsonl"]))


def opened(folder: Path) -> Run:
    """The run of a generated index."""
    file = LogFile(folder / "x.jsonl", "native", 1, 0, 0)
    info = RunInfo("generated", folder, (file,), (), folder)
    return indexed_run(FolderStorage(folder), info)


def measure(folder: Path, *, sort: bool) -> dict[str, float]:
    """Seconds and MB in this process."""
    found: dict[str, float] = {}

    def timed(what: str, begun: float) -> None:
        found[f"{what}, ms"] = (time.perf_counter() - begun) * 1e3
        found[f"after {what}, peak MB"] = (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        )

    begun = time.perf_counter()
    run = opened(folder)
    timed("Overview's data", begun)
    begun = time.perf_counter()
    run.of_step(int(run.steps["step"].iloc[-3]))
    timed("one step", begun)
    if sort:
        begun = time.perf_counter()
        rows = run.rollouts
        timed("the whole table", begun)
        for column in ("reward", "response_tokens", "group_id", "response"):
            begun = time.perf_counter()
            ordered(rows, column, descending=True, limit=2000)
            timed(f"sorting by {column}", begun)
    return found


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sort", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(measure(args.folder, sort=args.sort)))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for rollouts in sorted({min(_SORTED, args.rollouts), args.rollouts}):
        with tempfile.TemporaryDirectory() as temporary:
            make(Path(temporary), rollouts)
            command = [sys.executable, __file__, "--folder", temporary]
            command += ["--sort"] if rollouts <= _SORTED else []
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
        print(f"\n{rollouts:,} rollouts\n\n| | |\n|---|---|")
        for what, value in json.loads(done.stdout).items():
            print(f"| {what} | {value:.0f} |")


if __name__ == "__main__":
    main()
