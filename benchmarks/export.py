"""What exporting a step costs: RolloutExporter beside tolist + json.dumps, and beside a busy process.

    python benchmarks/export.py [--repeats 7] [--folder DIR]

One step is 64 rollouts x 8,192 tokens x 12 arrays (6.3 million values), as torch tensors. Two tables:

* writing: wall and CPU seconds from the call until the step is in the file. `tolist + json.dumps` is
  what exporters inside training loops do: a list of every array, one json.dumps a rollout, one write.
* training: two loops of matrix products of about a second a step, each product releasing Python's lock:
  one of 512 x 512 (milliseconds each, as a training on the CPU has) and one of 64 x 64 (about ten
  microseconds each: nothing but launches, the worst case for a thread beside it). Their seconds a step
  with nothing beside them, with one step logged to the exporter, with the same step written inline by
  tolist + json.dumps, and beside another process that counts on the second core.

All ways take turns in every round, so that a slow minute of the machine slows all; ratios are of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch

from exporters import RolloutExporter

ROLLOUTS, TOKENS = 64, 8192
FLOATS = (
    *("logprobs", "old_logprobs", "sampling_logprobs", "ref_logprobs", "entropy", "values"),
    *("returns", "advantages", "token_rewards"),
)
LOOPS = {512: "512 x 512 products", 64: "64 x 64 products"}
CALIBRATION_SECONDS = 0.3
BUSY = "while True: pass"


def one_step(made: torch.Generator) -> dict[str, Any]:
    """Twelve arrays [64, 8192]: ids, nine of floats, and two of flags that are not all 1."""

    def draw() -> torch.Tensor:
        return -torch.empty(ROLLOUTS, TOKENS).exponential_(2, generator=made)

    step: dict[str, Any] = {name: draw() for name in FLOATS}
    step["response_ids"] = torch.randint(150_000, (ROLLOUTS, TOKENS), generator=made)
    for name in ("loss_mask", "is_masked"):
        step[name] = torch.rand(ROLLOUTS, TOKENS, generator=made) < 0.9
    step["prompt_ids"] = torch.randint(150_000, (ROLLOUTS, 16), generator=made)
    return step


def write_with_json(file: Any, number: int, step: dict[str, Any]) -> None:
    """The usual exporter: everything to Python lists, one JSON document a rollout."""
    lists = {name: tensor.tolist() for name, tensor in step.items()}
    for row in range(ROLLOUTS):
        record = {"step": number, **{name: values[row] for name, values in lists.items()}}
        file.write(json.dumps(record) + "\n")
    file.flush()


def write_with_exporter(exporter: RolloutExporter, number: int, step: dict[str, Any]) -> float:
    """Logs the step; returns the seconds that log() took."""
    start = time.perf_counter()
    exporter.log(number, **step)
    seconds = time.perf_counter() - start
    exporter.end_step(number)
    return seconds


def train(iterations: int, matrix: torch.Tensor) -> None:
    for _ in range(iterations):
        torch.mm(matrix, matrix)


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


class Figures:
    """Seconds by name, over the rounds."""

    def __init__(self) -> None:
        self.of: dict[str, list[float]] = {}

    def add(self, name: str, seconds: float) -> None:
        """Notes what one round took."""
        self.of.setdefault(name, []).append(seconds)

    def __getitem__(self, name: str) -> float:
        return median(self.of[name])

    def visible(self, name: str, unit: float = 1) -> str:
        """Median (smallest to largest), in a table's cell."""
        seconds = [value * unit for value in self.of[name]]
        digits = 1 if unit > 1 else 3
        return (
            f"{median(seconds):.{digits}f} ({min(seconds):.{digits}f} to {max(seconds):.{digits}f})"
        )


def measure_writing(folder: Path, step: dict[str, Any], repeats: int, result: Figures) -> list[int]:
    """Seconds until the step is in the file, both ways in turn; bytes of a step of each."""
    with (folder / "json.jsonl").open("w") as file, RolloutExporter(folder / "own") as exporter:
        for number in range(repeats + 1):  # the first is not counted: it touches memory first
            wall, cpu = time.perf_counter(), time.process_time()
            in_log = write_with_exporter(exporter, number, step)
            exporter.flush()
            own = time.perf_counter() - wall, time.process_time() - cpu
            usual = timed(lambda n=number: write_with_json(file, n, step))
            if number:
                for name, seconds in (
                    ("log", in_log),
                    ("own wall", own[0]),
                    ("own cpu", own[1]),
                    ("json wall", usual[0]),
                    ("json cpu", usual[1]),
                ):
                    result.add(name, seconds)
        assert exporter.path is not None
        return [size // (repeats + 1) for size in (exporter.path.stat().st_size, file.tell())]


def measure_training(folder: Path, step: dict[str, Any], repeats: int, result: Figures) -> None:
    """Seconds of the same loops alone, beside the exporter, inline json, and a busy process."""
    with RolloutExporter(folder / "train") as exporter, (folder / "train.jsonl").open("w") as file:
        write_with_exporter(exporter, 0, step)
        exporter.flush()
        loops = {size: loop_of_a_second(size) for size in LOOPS}
        for number in range(1, repeats + 1):
            for size, loop in loops.items():
                for name, seconds in one_round(exporter, file, number, step, loop).items():
                    result.add(f"{size} {name}", seconds)


def loop_of_a_second(size: int) -> Callable[[], None]:
    matrix = torch.randn(size, size)
    tried = 20
    while (seconds := timed(partial(train, tried, matrix))[0]) < CALIBRATION_SECONDS:
        tried *= 2
    iterations = int(tried / seconds)
    return lambda: train(iterations, matrix)


def one_round(
    exporter: RolloutExporter,
    file: Any,
    number: int,
    step: dict[str, Any],
    loop: Callable[[], None],
) -> dict[str, float]:
    """Seconds of one training step in each company."""
    seconds = {"alone": timed(loop)[0]}
    seconds["exporter"] = timed(lambda: (write_with_exporter(exporter, number, step), loop()))[0]
    exporter.flush()
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        seconds["busy"] = timed(loop)[0]
    finally:
        busy.kill()
        busy.wait()
    seconds["inline json"] = timed(lambda: (write_with_json(file, number, step), loop()))[0]
    return seconds


def report(result: Figures, sizes: list[int]) -> None:
    own, usual = (size / 1e6 for size in sizes)
    print("|  | RolloutExporter | tolist + json.dumps | ratio |\n|---|---|---|---|")
    for name in ("wall", "cpu"):
        ratio = result[f"json {name}"] / result[f"own {name}"]
        cells = (result.visible(f"own {name}"), result.visible(f"json {name}"), f"{ratio:.1f}")
        print(f"| {name} s a step | {' | '.join(cells)} |")
    print(f"| MB a step | {own:.1f} | {usual:.1f} | {usual / own:.1f} |")
    print(f"| of which in log(), ms | {result.visible('log', 1000)} | all | |\n")
    for size, what in LOOPS.items():
        print(f"| loop of {what} beside | s a step | beside nothing = 1 |\n|---|---|---|")
        for name, label in (
            ("alone", "nothing"),
            ("exporter", "RolloutExporter, one step logged"),
            ("busy", "another busy process"),
            ("inline json", "tolist + json.dumps, one step inline"),
        ):
            of_all = result[f"{size} {name}"] / result[f"{size} alone"]
            print(f"| {label} | {result.visible(f'{size} {name}')} | {of_all:.2f} |")
        ratio = result[f"{size} exporter"] / result[f"{size} busy"]
        print(f"\nexporter / busy process: {ratio:.2f}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    step, result = one_step(torch.Generator().manual_seed(0)), Figures()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        sizes = measure_writing(Path(name), step, options.repeats, result)
        measure_training(Path(name), step, options.repeats, result)
    packages = ", ".join(f"{p} {version(p)}" for p in ("torch", "numpy", "orjson"))
    print(
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {packages}"
    )
    print(f"{ROLLOUTS} rollouts x {TOKENS} tokens x 12 arrays; medians of {options.repeats}\n")
    report(result, sizes)


if __name__ == "__main__":
    main()
