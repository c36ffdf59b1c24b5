"""Small programs that export, to be run and ended in every way; and what is left of their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Every value of a rollout is its number: a line that is not what was logged shows.
LOGGING = """
import os, signal, sys, time
import numpy as np
from exporters import RolloutExporter

def log(exporter, step, rollouts=4, tokens=2000):
    number = np.arange(rollouts)[:, None] + step * rollouts
    ids = np.broadcast_to(number, (rollouts, tokens))
    values = ids * 0.5 + np.linspace(0, 0.25, tokens)
    exporter.log(step, prompt_ids=ids[:, :2], response_ids=ids, logprobs=values)
    exporter.end_step(step)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Runs `LOGGING` and then `program`, whose sys.argv[1:] are the arguments."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", LOGGING + program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """As `start`, to its end; a program that fails is an error."""
    process = start(program, *arguments)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return subprocess.CompletedProcess(process.args, 0, out, err)


@dataclass(frozen=True)
class Left:
    """What a file holds: whole lines by type, and the bytes behind the last newline."""

    lines: list[dict[str, Any]]
    tail: bytes

    @property
    def steps(self) -> list[int]:
        """The steps of the rollouts, in order."""
        return [line["step"] for line in self.lines if line["type"] == "sample"]


def read(path: Path) -> Left:
    """Raises an error where a whole line is not what was logged."""
    *whole, tail = path.read_bytes().split(b"\n")
    lines = [json.loads(line) for line in whole if line]
    for line in lines:
        if line["type"] == "sample":
            check(line)
    return Left(lines, tail)


def check(line: dict[str, Any]) -> None:
    """Raises an error where a rollout is not the one that its step and index say."""
    number = line["step"] * 4 + line["index"]
    assert set(line["response_ids"]) == {number}
    assert len(line["logprobs"]) == len(line["response_ids"]) == 2000
    assert abs(line["logprobs"][0] - number * 0.5) <= number * 1e-5
