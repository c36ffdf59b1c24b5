"""How long it takes to look a run over: a step's tokens, and the rules on an index of many rollouts.

    python benchmarks/diagnose.py [--rollouts 1000000] [--tokens 4096]

Promises: lists of tokens of a step of 512 rollouts x 4,096 tokens in 2 s; what the index alone answers
in 300 ms at a million rollouts. The data is generated: only its shape means something.
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

from board.core import mismatch  # noqa: E402
from board.core.contributions import contributions  # noqa: E402
from board.core.findings import find  # noqa: E402
from board.core.findings.facts import Facts  # noqa: E402
from board.core.groups import by_step, pass_at_k_by_step  # noqa: E402
from board.core.rule_counts import count_rules  # noqa: E402
from board.store.discovery import discover  # noqa: E402
from board.store.findings import default_thresholds, facts_of  # noqa: E402
from board.store.run import Run, open_run  # noqa: E402
from board.store.step_tokens import ReadTokens, read_step  # noqa: E402

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
            row |= {"reward": i % 2, "response_ids": dice.zipf(1.2, tokens) % _VOCABULARY}
            for name in _ARRAYS:
                row[name] = (policy + dice.normal(scale=0.01, size=tokens)).round(5)
            out.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
    return folder


def make_facts(rollouts: int) -> Facts:
    """What an index of so many rollouts holds, 1,024 a step in groups of 8."""
    dice = np.random.default_rng(0)
    step_of = np.arange(rollouts) // 1024
    steps = np.unique(step_of)
    reward = (dice.random(rollouts) < 0.4).astype(float)
    columns = {
        "reward": reward,
        "rewards.correct": reward,
        "rewards.format": dice.random(rollouts),
        "advantage": dice.normal(size=rollouts),
        "response_tokens": dice.integers(1, 8000, rollouts).astype(float),
        "is_truncated": (dice.random(rollouts) < 0.05).astype(float),
        "rank": (np.arange(rollouts) % 1024 // 128).astype(float),
    }
    curves = {
        f"{name}_mean": np.full(len(steps), values.mean()) for name, values in columns.items()
    }
    curves |= {name: dice.random(len(steps)) for name in ("k3_mean", "entropy_mean")}
    codes = np.arange(rollouts) % 1024 // 8
    return Facts(steps, curves, step_of, np.arange(rollouts) % 1024, columns, codes)


def timed(work: Callable[[], object]) -> str:
    """Median (slowest) of some runs, in ms."""
    found: list[float] = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        work()
        found.append((time.perf_counter() - begun) * 1e3)
    return f"{statistics.median(found):.0f} ({max(found):.0f})"


def of_step(run: Run) -> dict[str, str]:
    """Timings of what a page asks of a step's tokens."""

    def lists() -> None:
        found = contributions(read_step(run, 1, ReadTokens.of_metric("k3")), "k3")
        found.top_rollouts(50)
        found.top_tokens(50)
        found.by("kind")
        found.by("piece", 50)

    def lab() -> None:
        tokens = read_step(run, 1)
        d = mismatch.log_ratio(tokens)
        assert d is not None
        mismatch.decompose(tokens)
        count_rules(tokens)
        for cut in (mismatch.by_kind, mismatch.by_position, mismatch.by_probability):
            cut(tokens, d)

    return {"lists of rollouts, tokens and types by k3": timed(lists), "mismatch": timed(lab)}


def of_index(rollouts: int) -> dict[str, str]:
    """Timings of what the index alone answers. Facts remember their groups, so they are made anew."""
    thresholds = default_thresholds()

    def fresh() -> Facts:
        return Facts(**{name: getattr(facts, name) for name in facts.__dataclass_fields__})

    def grouped() -> None:
        groups = fresh().groups
        assert groups is not None
        by_step(groups)
        for k in (1, 4, 8):
            pass_at_k_by_step(groups, k)

    facts = make_facts(rollouts)
    return {
        "groups by step and pass@1, 4, 8": timed(grouped),
        "all rules on the index": timed(lambda: find(fresh(), thresholds)),
    }


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--run", type=Path, help="also: facts of this run from its index")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        (info,) = discover(make_step(Path(folder) / "run", args.tokens)).runs
        found = of_step(open_run(info))
    found |= of_index(args.rollouts)
    if args.run:
        run = open_run(discover(args.run).runs[0])
        found["facts from the index"] = timed(lambda: facts_of(run))
    print("\n| | ms, median (slowest) |\n|---|---|")
    for what, text in found.items():
        print(f"| {what} | {text} |")


if __name__ == "__main__":
    main()
