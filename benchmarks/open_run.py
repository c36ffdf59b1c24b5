"""How fast a run opens, and in how much memory: the board beside a loop that keeps everything.

    python benchmarks/open_run.py [--megabytes 200] [--repeats 5] [--folder RUN]

Both read the same RLLoggingBoard-style run (2 ranks, 200-token rollouts) to one reward mean per step.
`loop` does what RLLoggingBoard's load_log_file does to each line, without its Streamlit calls
(HarderThenHarder/RLLoggingBoard@cf56d5d). Every measurement is a process of its own, board and loop in
turn, so that a slow minute of the machine slows both. Wall and CPU seconds run from after the imports to
the table, CPU seconds of all processes together; memory is the largest resident set of any one process,
imports included.
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
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

Result = dict[int, float]
"""Reward mean by step: what both engines must agree on."""

_LOOP_KEYS: Final = (
    *("prompt", "response", "ref_response", "reward", "ref_reward", "response_tokens"),
    *("logprobs", "ref_logprobs", "probs", "ref_probs", "values", "token_rewards"),
    *("kl", "avg_kl", "sum_kl", "log_ratio", "avg_log_ratio", "sum_log_ratio"),
    *("valid_reward", "ref_valid_reward", "response_tokens_len", "ground_truth"),
)
_ENGINES: Final = ("board", "loop")
_BYTES_OF_MAXRSS: Final = 1 if sys.platform == "darwin" else 1024


def open_with_loop() -> Callable[[Path], Result]:
    """Imports of the loop, then the loop itself: every value of every rollout stays in memory."""
    import numpy as np
    import ujson

    def add(step: dict[str, list[Any]], record: dict[str, Any]) -> None:
        for key in step:
            if key in record:
                step[key].append(record[key])
        if "response_tokens" in record:
            step["response_tokens_len"].append(len(record["response_tokens"]))
        if "logprobs" in record and "ref_logprobs" in record:
            logp, ref = np.array(record["logprobs"]), np.array(record["ref_logprobs"])
            log_ratio = logp - ref
            kl = np.exp(log_ratio) - 1 - log_ratio
            for name, values in (("log_ratio", log_ratio), ("kl", kl)):
                step[name].append(values.tolist())
                step[f"avg_{name}"].append(np.nanmean(values))
                step[f"sum_{name}"].append(np.nansum(values))
            step["probs"].append(np.exp(logp).tolist())
            step["ref_probs"].append(np.exp(ref).tolist())

    def run(folder: Path) -> Result:
        steps: dict[int, dict[str, list[Any]]] = {}
        for path in folder.glob("*.jsonl"):
            with path.open(encoding="utf8", errors="ignore") as file:
                for line in file:
                    record = ujson.loads(line)
                    record["step"] = int(record["step"])
                    add(steps.setdefault(record["step"], {key: [] for key in _LOOP_KEYS}), record)
        return {step: float(np.mean(steps[step]["reward"])) for step in sorted(steps)}

    return run


def open_with_board(folder: Path) -> Callable[[Path], Result]:
    """Imports of the board, then the run's table of steps; no index is left of an earlier opening."""
    from board.index.discovery.discovered_runs import discover
    from board.query.open_run import open_run

    shutil.rmtree(folder / ".rollout-board", ignore_errors=True)

    def run(folder: Path) -> Result:
        steps = open_run(discover(folder).runs[0]).steps
        pairs = zip(steps["step"], steps["reward_mean"], strict=True)
        return {int(step): float(mean) for step, mean in pairs}

    return run


def measure(engine: str, folder: Path) -> dict[str, Any]:
    """One opening in this process: seconds, peak MB, and the reward means to compare."""
    run = open_with_board(folder) if engine == "board" else open_with_loop()
    wall, cpu = time.perf_counter(), _cpu()
    means = run(folder)
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(w).ru_maxrss for w in who) * _BYTES_OF_MAXRSS / 1e6
    return {"wall s": wall, "CPU s": cpu, "peak MB": peak, "means": means}


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure_apart(engine: str, folder: Path) -> dict[str, Any]:
    """`measure` in a fresh process."""
    command = [sys.executable, __file__, "--engine", engine, "--folder", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    return json.loads(done.stdout)


def compare(folder: Path, repeats: int) -> dict[str, list[dict[str, Any]]]:
    """Board and loop in turn, `repeats` times each. Raises SystemExit when they disagree."""
    result: dict[str, list[dict[str, Any]]] = {engine: [] for engine in _ENGINES}
    for repeat in range(repeats):
        for engine in _ENGINES:
            print(f"run {repeat + 1} of {repeats}: {engine}", file=sys.stderr)
            result[engine].append(measure_apart(engine, folder))
    ours, theirs = (result[engine][0]["means"] for engine in _ENGINES)
    if ours.keys() != theirs.keys() or any(abs(ours[s] - theirs[s]) > 1e-9 for s in ours):
        raise SystemExit("the two engines do not agree on the reward means of the steps")
    return result


def report(result: dict[str, list[dict[str, Any]]], folder: Path) -> str:
    """The table of medians, with what it was measured on."""
    repeats = len(result["board"])
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl")) / 1e6
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pandas", "ujson"))
    lines = [
        f"{size:.0f} MB, {len(result['board'][0]['means'])} steps; "
        f"medians of {repeats} (smallest to largest), in turn",
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}",
        "",
        "|  | board | loop | loop / board |",
        "|---|---|---|---|",
    ]
    for unit in ("wall s", "CPU s", "peak MB"):
        series = {engine: [one[unit] for one in result[engine]] for engine in _ENGINES}
        cells = [f"{median(s):.4g} ({min(s):.4g} to {max(s):.4g})" for s in series.values()]
        ratio = median(series["loop"]) / median(series["board"])
        lines.append(f"| {unit} | {cells[0]} | {cells[1]} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="size of the generated run")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each engine")
    parser.add_argument(
        "--folder", type=Path, help="an RLLoggingBoard run instead of a generated one"
    )
    parser.add_argument("--engine", choices=_ENGINES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        print(json.dumps(measure(args.engine, args.folder)))
        return
    if args.folder:
        print(report(compare(args.folder, args.repeats), args.folder))
        return
    from generate import write_run

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "run")
        write_run(folder, args.megabytes)
        print(report(compare(folder, args.repeats), folder))


if __name__ == "__main__":
    main()
