"""How long it takes to look a step's tokens over; what the index alone answers: many_rollouts.py.

    python benchmarks/diagnose.py [--tokens 4096]

Promise: lists of tokens of a step of 512 rollouts x 4,096 tokens in 2 s. The data is generated: only its
shape means something.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import orjson

sys.path[:0] = [str(Path(__file__).parents[1])]

from board.analysis.findings import facts_of  # noqa: E402
from board.analysis.mismatch import step_mismatch  # noqa: E402
from board.analysis.step_tokens import ReadTokens, read_step  # noqa: E402
from board.core.tokens.contributions import contributions  # noqa: E402
from board.index.discovery.discovered_runs import discover  # noqa: E402
from board.query.open_run import Run, open_run  # noqa: E402

_ROLLOUTS: Final = 512
_VOCABULARY: Final = 50_000
_TIMES: Final = 5
_ARRAYS: Final = ("logprobs", "ref_logprobs", "sampling_logprobs", "old_logprobs", "entropy")


def make_step(folder: Path, tokens: int) -> Path:
    """A run of one step of 512 rollouts, five arrays each."""
    folder.mkdir()
    dice = np.random.default_rng(0)
    pieces = {"pieces": [f" w{i}" for i in range(_VOCABULARY)], "coding": "text"}
    (folder / "vocab.json").write_text(json.dumps(pieces))
    with (folder / "a.jsonl").open("wb") as out:
        for i in range(_ROLLOUTS):
            policy = -dice.exponential(size=tokens)
            row = {"type": "sample", "step": 1, "group_id": f"g{i // 8}", "rollout_id": f"r{i}"}
            row |= {
                "reward": i % 2,
                "advantage": i % 2 - 0.5,
                "response_ids": dice.zipf(1.2, tokens) % _VOCABULARY,
            }
            for name in _ARRAYS:
                row[name] = (policy + dice.normal(scale=0.01, size=tokens)).round(5)
            out.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
    return folder


def timed(work: Callable[[], object]) -> str:
    """Median (slowest) of some runs, in ms."""
    result: list[float] = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        work()
        result.append((time.perf_counter() - begun) * 1e3)
    return f"{statistics.median(result):.0f} ({max(result):.0f})"


def of_step(run: Run) -> dict[str, Callable[[], None]]:
    """What pages ask of a step's tokens."""

    def lists() -> None:
        result = contributions(read_step(run, 1, ReadTokens.of_metric("k3")), "k3")
        result.top_tokens(50)
        result.by("kind")
        result.by("piece", 50)

    def lab() -> None:
        step_mismatch(run, 1)

    return {"lists of tokens and types by k3": lists, "mismatch": lab}


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--run", type=Path, help="also: facts of this run from its index")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        (info,) = discover(make_step(Path(folder) / "run", args.tokens)).runs
        result = {what: timed(work) for what, work in of_step(open_run(info)).items()}
    if args.run:
        run = open_run(discover(args.run).runs[0])
        result["facts from the index"] = timed(lambda: facts_of(run))
    print("\n| | ms, median (slowest) |\n|---|---|")
    for what, text in result.items():
        print(f"| {what} | {text} |")


if __name__ == "__main__":
    main()
