"""Writes generated logs for the benchmarks. Their numbers mean nothing: only their shape does.

    python benchmarks/generate.py OUT --megabytes 200 [--tokens 200] [--rollouts 128] [--ranks 2]

writes an RLLoggingBoard-style run: string tokens and five float arrays per rollout, one file per rank.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_WORDS = [
    "so",
    " the",
    " answer",
    " is",
    " 4",
    "2",
    ".",
    "\n",
    " we",
    " add",
    " carry",
    " one",
    " ten",
]


def rollout(rng: np.random.Generator, step: int, tokens: int) -> dict[str, object]:
    """One rollout in RLLoggingBoard's format."""
    pieces = [_WORDS[i] for i in rng.integers(0, len(_WORDS), tokens)]
    logprobs = -rng.gamma(0.4, 1.0, tokens)
    return {
        "prompt": f"Question {rng.integers(1000)}: what is the sum?",
        "response": "".join(pieces),
        "response_tokens": pieces,
        "logprobs": logprobs.tolist(),
        "ref_logprobs": (logprobs + rng.normal(0, 0.1, tokens)).tolist(),
        "values": rng.normal(0, 1, tokens).tolist(),
        "token_rewards": rng.normal(0, 0.01, tokens).tolist(),
        "entropy": rng.gamma(1.0, 0.5, tokens).tolist(),
        "reward": float(rng.random()),
        "ref_reward": float(rng.random()),
        "step": step,
    }


def rank_lines(rank: int, rollouts: int, tokens: int) -> Iterator[bytes]:
    """Endless lines of one rank, `rollouts` a step."""
    rng = np.random.default_rng(rank)
    step = 0
    while True:
        for _ in range(rollouts):
            yield json.dumps(rollout(rng, step, tokens)).encode() + b"\n"
        step += 1


def write_run(
    folder: Path, megabytes: int, tokens: int = 200, rollouts: int = 128, ranks: int = 2
) -> None:
    """Writes a run of about so many MB; `rollouts` is per step over all ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        written, limit = 0, megabytes * 1_000_000 // ranks
        with (folder / f"data_rank{rank}.jsonl").open("wb") as file:
            for line in rank_lines(rank, rollouts // ranks, tokens):
                written += file.write(line)
                if written >= limit:
                    break


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rollouts", type=int, default=128)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    write_run(args.out, args.megabytes, args.tokens, args.rollouts, args.ranks)


if __name__ == "__main__":
    main()
