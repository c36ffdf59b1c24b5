"""The command that shows a run while it trains, as one would type it."""

from __future__ import annotations

import os
import shlex
import socket
from contextlib import suppress

_PORT = 8501
_ELSEWHERE = ("SSH_CONNECTION", "SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST")
"""Environment variables of a machine that its user sits at another one of."""


def print_board_command(target: str) -> None:
    """Prints the command for a run's folder, and how its page is reached from one's own machine. Never
    raises.
    """
    command = f"rollout-board {shlex.quote(target)}"
    lines = [f"Rollouts of this run: {command}"]
    if any(map(os.environ.get, _ELSEWHERE)):
        lines = [
            f"Rollouts of this run: {command} --no-browser --port {_PORT}",
            f"and on your own machine: ssh -N -L {_PORT}:127.0.0.1:{_PORT} {socket.gethostname()}, "
            f"then http://127.0.0.1:{_PORT}",
        ]
    with suppress(OSError, ValueError):  # a closed output is no reason to end a training
        print("\n".join(lines), flush=True)
