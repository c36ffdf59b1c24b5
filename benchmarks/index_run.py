"""How fast a large run is indexed and in how much memory, and how fast it then answers.

    python benchmarks/index_run.py [--short RUN] [--long RUN] [--megabytes 1100] [--repeats 3]

Indexes two generated runs (200 string tokens and 5 arrays a rollout; 8,000 ids and 12 arrays) with the
board, in one process and in as many as it takes by itself, and reads them with a loop in the style of
RLLoggingBoard's loader (see open_run.py), all in turn, each in a process of its own. Seconds run from
after the imports to the table of steps; memory is the largest resident set of any one process.
Then, on the index: re-opening, one rollout, following 1 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from open_run import open_with_loop

_ENGINES: Final = ("board", "board, 1 process", "loop")
_ASKED: Final = 20


def index(engine: str, folder: Path) -> dict[str, float]:
    """One indexing in this process: seconds, CPU seconds, peak MB of a process, rollouts' mean reward."""
    run = open_with_loop() if engine == "loop" else index_with_board(engine, folder)
    wall, cpu = time.perf_counter(), _cpu()
    means = run(folder)
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(w).ru_maxrss for w in who) * 1024 / 1e6
    return {"wall s": wall, "CPU s": cpu, "peak MB": peak, "check": sum(means.values())}


def index_with_board(engine: str, folder: Path) -> Callable[[Path], dict[int, float]]:
    """Imports of the board, with no index left of an earlier measurement."""
    shutil.rmtree(folder / ".rollout-board", ignore_errors=True)
    from board.index.discovery.discovered_runs import discover
    from board.index.reading import workers
    from board.query.open_run import Follower

    if engine != "board":
        workers.__dict__["POOL_BYTES"] = 1 << 60  # so that it takes one process

    def run(folder: Path) -> dict[int, float]:
        steps = Follower(persist=True).run(discover(folder).runs[0]).steps
        return dict(zip(steps["step"].tolist(), steps["reward_mean"].tolist(), strict=True))

    return run


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def answer(folder: Path) -> dict[str, float]:
    """Milliseconds of what pages ask of an index, warm; median of several."""
    from board.analysis.rollout import open_rollout
    from board.index.discovery.discovered_runs import discover
    from board.query.open_run import Follower

    info = discover(folder).runs[0]
    run = Follower(persist=True).run(info)
    steps = run.steps["step"].tolist()
    places = [(steps[i * len(steps) // _ASKED], i % 8) for i in range(_ASKED)]
    follower = Follower(persist=True)
    follower.run(info)
    result = {
        "re-open, ms": _median_ms(lambda: Follower(persist=True).run(discover(folder).runs[0])),
        "one rollout, ms": median(_ms(lambda p=p: open_rollout(run, *p)) for p in places),
    }
    path = Path(str(info.files[0].path))
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - (2 << 20), 0))
        tail = file.read()
    last = tail[tail.rindex(b"\n", 0, -(1 << 20)) + 1 :]
    try:
        with path.open("ab") as file:
            file.write(last)
        took = _ms(lambda: follower.run(discover(folder).runs[0]))
    finally:
        os.truncate(path, size)
    return {**result, f"following {len(last) / 1e6:.1f} MB, ms": took}


def _ms(call: Any) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e3


def _median_ms(call: Any) -> float:
    return median(_ms(call) for _ in range(5))


def apart(*arguments: str) -> dict[str, float]:
    """The same script in a fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, __file__, *arguments]
    return json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout
    )


def compare(name: str, folder: Path, repeats: int) -> None:
    """Prints the tables of one run."""
    result: dict[str, list[dict[str, float]]] = {engine: [] for engine in _ENGINES}
    for repeat in range(repeats):
        for engine in _ENGINES:
            print(f"{name}: {repeat + 1} of {repeats}, {engine}", file=sys.stderr)
            result[engine].append(apart("--engine", engine, "--folder", str(folder)))
    if len({round(one["check"], 6) for results in result.values() for one in results}) > 1:
        raise SystemExit("the engines do not agree on the reward means of the steps")
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl")) / 1e9
    print(f"\n### {name}, {size:.2f} GB, medians of {repeats} in turn\n")
    print("| | wall s | CPU s | CPU s/GB | peak MB | speed, loop = 1 |\n|---|---|---|---|---|---|")
    loop = median(one["wall s"] for one in result["loop"])
    for engine, results in result.items():
        wall, cpu, peak = (
            median(r[key] for r in results) for key in ("wall s", "CPU s", "peak MB")
        )
        cells = f"{wall:.2f} | {cpu:.2f} | {cpu / size:.2f} | {peak:.0f} | {loop / wall:.2f}"
        print(f"| {engine} | {cells} |")
    asked = apart("--engine", "answer", "--folder", str(folder))
    print("\n" + "; ".join(f"{what} {value:.1f}" for what, value in asked.items()))


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", type=Path)
    parser.add_argument("--long", type=Path)
    parser.add_argument("--megabytes", type=int, default=1100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(
            json.dumps(
                answer(args.folder) if args.engine == "answer" else index(args.engine, args.folder)
            )
        )
        return
    from generate import write_run

    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as temporary:
        for name, given in (("short", args.short), ("long", args.long)):
            folder = given or Path(temporary, name)
            if given is None:
                write_run(folder, args.megabytes, long=name == "long")
            compare(name, folder, args.repeats)


if __name__ == "__main__":
    main()
