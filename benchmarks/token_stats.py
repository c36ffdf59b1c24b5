"""Memory and time of token_stats beside the naive way, at the size of a real vocabulary.

    python benchmarks/token_stats.py [--tokens 2048] [--vocabulary 151936] [--repeats 5] [--dtypes bf16]

Each way of each dtype runs in a process of its own: memory is the peak of the resident set (VmHWM)
above what the process held once the logits were there; time is wall time. The rounds are
interleaved, and the ratio is of medians, for a machine that others use too.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from exporters.token_stats import token_stats

Way = Callable[[torch.Tensor, torch.Tensor], Any]


def naive(logits: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a trainer's author writes first."""
    logp = logits.float().log_softmax(-1)
    return logp.gather(-1, ids[..., None])[..., 0], -(logp.exp() * logp).sum(-1)


WAYS: dict[str, Way] = {
    "naive log_softmax + entropy": naive,
    "token_stats rows=16": lambda logits, ids: token_stats(logits, ids, rows=16),
    "token_stats rows=64": lambda logits, ids: token_stats(logits, ids),
    "token_stats rows=256": lambda logits, ids: token_stats(logits, ids, rows=256),
    "token_stats rows=64, top-5": lambda logits, ids: token_stats(logits, ids, topk=5),
    "token_stats rows=64, no entropy": lambda logits, ids: token_stats(logits, ids, entropy=False),
}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--dtype", choices=DTYPES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(*measure(WAYS[options.way], DTYPES[options.dtype], options))
    else:
        compare(options)


def measure(way: Way, dtype: torch.dtype, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds, and MiB of the peak above the logits, of one call in this process."""
    made = torch.Generator().manual_seed(0)
    logits = torch.empty(1, options.tokens, options.vocabulary, dtype=dtype)
    logits.normal_(0, 3, generator=made)
    ids = torch.randint(options.vocabulary, (1, options.tokens), generator=made)
    way(logits[:, :2], ids[:, :2])  # what torch loads on first use is not the call's
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = resident("VmRSS")
    start = time.perf_counter()
    way(logits, ids)
    return time.perf_counter() - start, resident("VmHWM") - before


def resident(name: str) -> float:
    """MiB that the kernel accounts to this process."""
    result = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert result is not None
    return int(result[1]) / 1024


def compare(options: argparse.Namespace) -> None:
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, torch {torch.__version__}")
    print(f"T = {options.tokens}, V = {options.vocabulary}, {options.repeats} interleaved rounds\n")
    print("| dtype | way | MiB above the logits | seconds (median) | of naive |")
    print("| --- | --- | ---: | ---: | ---: |")
    for dtype in options.dtypes:
        runs: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(options.repeats):
            for way in WAYS:
                runs[way].append(in_a_process(way, dtype, options))
        times = {way: statistics.median(run[0] for run in runs[way]) for way in WAYS}
        whole = next(iter(times.values()))
        for way in WAYS:
            memory = max(run[1] for run in runs[way])
            ratio = times[way] / whole
            print(f"| {dtype} | {way} | {memory:.0f} | {times[way]:.2f} | {ratio:.2f}x |")


def in_a_process(way: str, dtype: str, options: argparse.Namespace) -> tuple[float, float]:
    size = ["--tokens", str(options.tokens), "--vocabulary", str(options.vocabulary)]
    command = [sys.executable, __file__, "--way", way, "--dtype", dtype, *size]
    result = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(result[0]), float(result[1])


if __name__ == "__main__":
    main()
