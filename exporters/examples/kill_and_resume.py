"""Kills a GRPO training with SIGKILL and resumes it on another number of ranks.

    python -m exporters.examples.kill_and_resume --out runs/resumed

Two ranks train until the log holds the rollouts of step `--kill-after`; then both are killed, with no
chance to clean up. One rank goes on from the last checkpoint to the end, into the same folder.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Trains on two ranks, kills them, and goes on with one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, type=Path, help="folder of the run's log")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--kill-after", type=int, default=12, help="a step that both ranks ended")
    parser.add_argument("--warm-up-steps", type=int, default=400)
    parser.add_argument("--warmed-up", help="as in train_grpo_arithmetic")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        shared = ["--out", str(options.out), "--steps", str(options.steps)]
        shared += ["--warm-up-steps", str(options.warm_up_steps)]
        shared += ["--warmed-up", options.warmed_up or f"{scratch}/model"]
        shared += ["--checkpoints", f"{scratch}/checkpoints"]
        ranks = launch(2, shared)
        try:
            wait_for_step(options.out, options.kill_after, ranks)
        finally:
            for rank in ranks:
                rank.send_signal(signal.SIGKILL)
                rank.wait()
        print(f"killed: {[path.name for path in sorted(options.out.glob('*.jsonl'))]}", flush=True)
        (rank,) = launch(1, [*shared, "--resume"])
        if rank.wait() != 0:
            raise SystemExit(f"the resumed training ended with {rank.returncode}")


def launch(size: int, options: list[str]) -> list[subprocess.Popen[bytes]]:
    """`size` ranks of the training, each a child of this process.

    torchrun would end the other ranks in an orderly way when one is killed.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "exporters.examples.train_grpo_arithmetic", *options]
    return [
        subprocess.Popen(
            command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(size)
    ]


def wait_for_step(folder: Path, step: int, ranks: list[subprocess.Popen[bytes]]) -> None:
    """Returns once every rank wrote the end of `step`; both begin at step 1."""
    while sum(
        path.read_text().count('"step_end"') >= step for path in folder.glob("*.jsonl")
    ) < len(ranks):
        if any(rank.poll() is not None for rank in ranks):
            raise SystemExit("the training ended before it was killed")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
