"""Writes generated logs for the benchmarks. Their numbers mean nothing: only their shape does.

    python benchmarks/generate.py OUT --megabytes 200 [--tokens 200] [--rollouts 128] [--ranks 2]

writes an RLLoggingBoard-style run: string tokens and five float arrays per rollout, one file per rank.
With --long it writes a run of Rollout Board's own fields: 8,000 token ids and twelve arrays per rollout.
There are few different ones, told apart by their step and reward.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

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


_LONG_ARRAYS: Final = (
    *("response_ids", "loss_mask", "logprobs", "old_logprobs", "sampling_logprobs", "ref_logprobs"),
    *("entropy", "values", "returns", "advantages", "token_rewards", "is_masked"),
)
_LONG_TOKENS: Final = 8000
_DIFFERENT: Final = 24


def long_lines(rank: int, rollouts: int) -> Iterator[bytes]:
    """Endless lines of one rank with long arrays, `rollouts` a step; five significant digits."""
    rng = np.random.default_rng(rank)
    bodies: list[bytes] = []
    for _ in range(_DIFFERENT):
        arrays: dict[str, object] = {}
        for name in _LONG_ARRAYS:
            values = rng.normal(-1, 0.5, _LONG_TOKENS)
            whole = rng.integers(0, 150_000, _LONG_TOKENS).tolist()
            flags = np.ones(_LONG_TOKENS, int).tolist()
            drawn = [float(f"{v:.5g}") for v in values.tolist()]
            kind = {"response_ids": whole, "loss_mask": flags, "is_masked": flags}
            arrays[name] = kind.get(name, drawn)
        bodies.append(json.dumps(arrays)[1:].encode())
    for number in count():
        head = {"step": number // rollouts, "rank": rank, "reward": float(rng.random())}
        head |= {"rollout_id": f"{rank}-{number}", "group_id": f"g{number // 8}"}
        yield json.dumps(head)[:-1].encode() + b", " + bodies[number % _DIFFERENT] + b"\n"


def rank_lines(rank: int, rollouts: int, tokens: int) -> Iterator[bytes]:
    """Endless lines of one rank, `rollouts` a step."""
    rng = np.random.default_rng(rank)
    step = 0
    while True:
        for _ in range(rollouts):
            yield json.dumps(rollout(rng, step, tokens)).encode() + b"\n"
        step += 1


def write_run(
    folder: Path,
    megabytes: int,
    tokens: int = 200,
    rollouts: int = 128,
    ranks: int = 2,
    *,
    long: bool = False,
) -> None:
    """Writes a run of about so many MB; `rollouts` is per step over all ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        written, limit = 0, megabytes * 1_000_000 // ranks
        with (folder / f"data_rank{rank}.jsonl").open("wb") as file:
            each = rollouts // ranks
            for line in long_lines(rank, each) if long else rank_lines(rank, each, tokens):
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
    parser.add_argument("--long", action="store_true")
    args = parser.parse_args()
    write_run(args.out, args.megabytes, args.tokens, args.rollouts, args.ranks, long=args.long)


if __name__ == "__main__":
    main()
