"""Processes that end in every way, and what their files hold then."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from read_formats import run_at

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
ROLLOUTS = 4
QUEUED_STEPS = 2


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Runs `LOGGING` and then `program`, whose sys.argv[1:] are the arguments."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", LOGGING + program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def run(program: str, *arguments: object, code: int | None = 0) -> str:
    """As `start`, to its end. What was printed. code: that it must end with; None: any but 0."""
    process = start(program, *arguments)
    out, err = process.communicate(timeout=120)
    assert process.returncode if code is None else process.returncode == code, err
    return out


def until(process: subprocess.Popen[str], step: int) -> None:
    """Waits until the process has printed that it logged a step."""
    while process.stdout.readline().strip() != str(step):
        assert process.poll() is None, process.communicate()[1]


def last_step(out: str) -> int:
    return max((int(line) for line in out.splitlines() if line.strip().isdigit()), default=0)


@dataclass(frozen=True)
class Left:
    """What a file holds: whole lines by type, and the bytes behind the last newline."""

    lines: list[dict[str, Any]]
    tail: bytes

    @property
    def steps(self) -> list[int]:
        """The steps of the rollouts, in order."""
        return [line["step"] for line in self.lines if line["type"] == "sample"]


def left_in(folder: Path) -> Left:
    """What is left in the one file of a folder, of which each whole line is as it was logged."""
    (path,) = folder.glob("*.jsonl")
    *whole, tail = path.read_bytes().split(b"\n")
    lines = [json.loads(line) for line in whole if line]
    for line in (line for line in lines if line["type"] == "sample"):
        number = line["step"] * ROLLOUTS + line["index"]
        assert set(line["response_ids"]) == {number}
        assert len(line["logprobs"]) == len(line["response_ids"]) == 2000
        assert abs(line["logprobs"][0] - number * 0.5) <= number * 1e-5
    return Left(lines, tail)


ENDLESS = """
exporter = RolloutExporter(sys.argv[1], mode=sys.argv[2], max_inflight_steps=2)
for step in range(100_000):
    log(exporter, step)
    print(step)
"""


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_after_kill_9_the_board_shows_all_that_was_written_and_at_most_the_queue_is_lost(
    tmp_path, mode
):
    moments = random.Random(mode)
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        process = start(ENDLESS, folder, mode)
        until(process, 0)
        time.sleep(moments.uniform(0, 0.25))
        process.kill()
        logged = last_step(process.communicate(timeout=60)[0])
        left = left_in(folder)
        assert left.steps == sorted(left.steps)
        whole = [s for s in set(left.steps) if left.steps.count(s) == ROLLOUTS]
        queued = QUEUED_STEPS if mode == "thread" else 0
        assert max(whole, default=-1) >= logged - queued - 1
        assert sorted(whole) == list(range(len(whole))), "nothing is missing in the middle"
        visible = run_at(folder)
        assert len(visible.rollouts) == len(left.steps)
        assert visible.steps["complete"].iloc[0]


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("exporter.close()", 0),
        ("del exporter", 0),
        ("1 / 0", 1),
        # Whoever runs the tests in the background has them, and what they start, ignore ctrl-C.
        (
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "signal.raise_signal(signal.SIGINT)",
            None,
        ),
    ],
    ids=["end", "exit", "close", "del", "error", "ctrl-C"],
)
def test_at_an_ordinary_end_an_exception_or_ctrl_c_nothing_is_lost(tmp_path, ending, code):
    program = "exporter = RolloutExporter(sys.argv[1])\nfor step in range(20): log(exporter, step)"
    run(f"{program}\n{ending}", tmp_path, code=code)
    left = left_in(tmp_path)
    assert left.steps == [step for step in range(20) for _ in range(ROLLOUTS)]
    assert (left.lines[-1]["type"], left.lines[-1]["records"]) == ("close", 20 * ROLLOUTS)


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_with_flush_on_sigterm_what_is_queued_is_written_and_the_signal_still_ends_the_process(
    tmp_path, mode
):
    program = """
exporter = RolloutExporter(sys.argv[1], mode=sys.argv[2], flush_on_sigterm=True)
step = 0
while exporter.wants(step):
    log(exporter, step)
    step += 1
    print(step)
while True: time.sleep(0.01)
"""
    process = start(program, tmp_path, mode)
    until(process, 3)
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM, err
    left = left_in(tmp_path)
    assert left.tail == b""
    assert left.lines[-1]["type"] == "close"
    # A call that the signal found under way may have come too late: then it is counted.
    steps = max(last_step(out), 3) - 1
    assert len(left.steps) + left.lines[-1]["lost"] >= steps * ROLLOUTS


def test_the_handler_that_was_there_before_still_runs_after_all_exporters_flushed(tmp_path):
    program = """
def save(number, frame):
    print("checkpoint saved")
    sys.exit(7)
signal.signal(signal.SIGTERM, save)
for name in "ab":
    exporter = RolloutExporter(sys.argv[1] + "/" + name, flush_on_sigterm=True)
    log(exporter, 0)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
"""
    assert "checkpoint saved" in run(program, tmp_path, code=7)
    for name in "ab":
        assert left_in(tmp_path / name).lines[-1]["type"] == "close"


def test_close_gives_the_signal_back_to_who_had_it(tmp_path):
    program = """
before = signal.getsignal(signal.SIGTERM)
with RolloutExporter(sys.argv[1], flush_on_sigterm=True):
    assert signal.getsignal(signal.SIGTERM) is not before
assert signal.getsignal(signal.SIGTERM) is before
"""
    run(program, tmp_path)


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_a_forked_child_writes_nothing_and_may_open_an_exporter_of_its_own(tmp_path, mode):
    program = """
exporter = RolloutExporter(sys.argv[1], mode=sys.argv[2])
log(exporter, 0)
child = os.fork()
log(exporter, 1)
exporter.close()
if child:
    os.waitpid(child, 0)
else:
    assert not exporter.wants(1) and exporter.flush() and exporter.counts["records"] == 0
    with RolloutExporter(sys.argv[1] + "/own") as own:
        log(own, 5)
"""
    run(program, tmp_path, mode)
    assert left_in(tmp_path).steps == [0] * 4 + [1] * 4
    assert left_in(tmp_path / "own").steps == [5] * 4


def test_forked_workers_of_a_data_loader_write_nothing_and_do_not_hang(tmp_path):
    program = """
import warnings
warnings.simplefilter("ignore")
import torch

class Items(torch.utils.data.Dataset):
    exporter = RolloutExporter(sys.argv[1])
    def __len__(self): return 8
    def __getitem__(self, i):
        log(Items.exporter, 99)
        return i

for epoch in range(2):
    for _ in torch.utils.data.DataLoader(Items(), num_workers=2, multiprocessing_context="fork"):
        log(Items.exporter, epoch)
Items.exporter.close()
assert Items.exporter.counts["lost"] == 0
"""
    run(program, tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    steps = [line["step"] for line in lines if line["type"] == "sample"]
    assert steps == [0] * 32 + [1] * 32
