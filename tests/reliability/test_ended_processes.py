"""Processes that end in every way, and what their files hold then."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import Left, read, run, start
from read_formats import run_at

ENDLESS = """
exporter = RolloutExporter(sys.argv[1], mode=sys.argv[2], max_inflight_steps=2)
print("ready")
for step in range(100_000):
    log(exporter, step)
    print(step)
"""
ROLLOUTS = 4
QUEUED_STEPS = 2


def kill_after(folder: Path, mode: str, seconds: float) -> tuple[Left, int]:
    """What is left of a process killed that long after its first step; the last step it logged."""
    process = start(ENDLESS, folder, mode)
    assert process.stdout is not None
    while process.stdout.readline().strip() != "0":
        assert process.poll() is None, process.communicate()[1]
    time.sleep(seconds)
    process.kill()
    out, _ = process.communicate(timeout=60)
    (path,) = folder.glob("*.jsonl")
    logged = [int(line) for line in out.splitlines() if line.strip().isdigit()]
    return read(path), max(logged, default=0)


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_after_kill_9_the_board_shows_all_that_was_written_and_at_most_the_queue_is_lost(
    tmp_path, mode
):
    moments = random.Random(mode)
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        left, logged = kill_after(folder, mode, moments.uniform(0, 0.25))
        assert left.steps == sorted(left.steps)
        whole = [s for s in set(left.steps) if left.steps.count(s) == ROLLOUTS]
        queued = QUEUED_STEPS if mode == "thread" else 0
        assert max(whole, default=-1) >= logged - queued - 1
        assert sorted(whole) == list(range(len(whole))), "nothing is missing in the middle"
        run_ = run_at(folder)
        assert len(run_.rollouts) == len(left.steps)
        assert run_.steps["complete"].iloc[0]


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "exporter.close()", "del exporter"])
def test_at_an_ordinary_end_nothing_is_lost(tmp_path, ending):
    program = (
        "exporter = RolloutExporter(sys.argv[1])\nfor step in range(20): log(exporter, step)\n"
    )
    run(program + ending, tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    left = read(path)
    assert left.steps == [step for step in range(20) for _ in range(ROLLOUTS)]
    assert left.lines[-1]["type"] == "close"
    assert left.lines[-1]["records"] == 20 * ROLLOUTS


def test_at_an_exception_and_at_ctrl_c_nothing_is_lost(tmp_path):
    # Whoever runs the tests in the background has them, and what they start, ignore ctrl-C.
    ctrl_c = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    ctrl_c += "signal.raise_signal(signal.SIGINT)"
    for name, ending in (("error", "1 / 0"), ("ctrl-c", ctrl_c)):
        folder = tmp_path / name
        program = "exporter = RolloutExporter(sys.argv[1])\nlog(exporter, 0)\n" + ending
        process = start(program, folder)
        process.communicate(timeout=60)
        assert process.returncode != 0
        (path,) = folder.glob("*.jsonl")
        assert [line["type"] for line in read(path).lines][-2:] == ["step_end", "close"]


@pytest.mark.parametrize("mode", ["thread", "sync"])
def test_with_flush_on_sigterm_what_is_queued_is_written_and_the_signal_still_ends_the_process(
    tmp_path, mode
):
    program = """
exporter = RolloutExporter(sys.argv[1], mode=sys.argv[2], flush_on_sigterm=True)
print("ready")
step = 0
while exporter.wants(step):
    log(exporter, step)
    step += 1
    print(step)
while True: time.sleep(0.01)
"""
    process = start(program, tmp_path, mode)
    assert process.stdout is not None
    while process.stdout.readline().strip() != "3":
        assert process.poll() is None, process.communicate()[1]
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM, err
    (path,) = tmp_path.glob("*.jsonl")
    left = read(path)
    assert left.tail == b""
    assert left.lines[-1]["type"] == "close"
    logged = max((int(line) for line in out.splitlines() if line.strip().isdigit()), default=3)
    # A call that the signal found under way may have come too late: then it is counted.
    assert len(left.steps) + left.lines[-1]["lost"] >= (logged - 1) * ROLLOUTS


def test_the_handler_that_was_there_before_still_runs_after_the_flush(tmp_path):
    program = """
def save(number, frame):
    print("checkpoint saved")
    sys.exit(7)
signal.signal(signal.SIGTERM, save)
exporter = RolloutExporter(sys.argv[1], flush_on_sigterm=True)
log(exporter, 0)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
"""
    process = start(program, tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7, err
    assert "checkpoint saved" in out
    (path,) = tmp_path.glob("*.jsonl")
    assert read(path).lines[-1]["type"] == "close"


def test_two_exporters_flush_on_the_same_signal(tmp_path):
    program = """
first = RolloutExporter(sys.argv[1], flush_on_sigterm=True)
second = RolloutExporter(sys.argv[1], flush_on_sigterm=True)
log(first, 0); log(second, 0)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
"""
    process = start(program, tmp_path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    kinds = [read(path).lines[-1]["type"] for path in tmp_path.glob("*.jsonl")]
    assert kinds == ["close", "close"]


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
    (path,) = tmp_path.glob("*.jsonl")
    assert read(path).steps == [0] * 4 + [1] * 4
    (path,) = (tmp_path / "own").glob("*.jsonl")
    assert read(path).steps == [5] * 4


def test_forked_workers_of_a_data_loader_write_nothing_and_do_not_hang(tmp_path):
    program = tmp_path / "loader.py"
    program.write_text("""
import sys, warnings
warnings.simplefilter("ignore")
import torch
from exporters import RolloutExporter

class Items(torch.utils.data.Dataset):
    exporter = None
    def __len__(self): return 8
    def __getitem__(self, i):
        if Items.exporter is not None:
            Items.exporter.log(99, prompt_ids=[[1]], response_ids=[[i]])
        return i

if __name__ == "__main__":
    Items.exporter = RolloutExporter(sys.argv[1])
    for epoch in range(2):
        loader = torch.utils.data.DataLoader(
            Items(), num_workers=2, multiprocessing_context="fork"
        )
        for item in loader:
            Items.exporter.log(epoch, prompt_ids=[[1]], response_ids=item[None])
        Items.exporter.end_step(epoch)
    Items.exporter.close()
    assert Items.exporter.counts["lost"] == 0
""")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "run").glob("*.jsonl")
    sampled_groups = [line for line in path.read_text().splitlines() if '"sample"' in line]
    assert len(sampled_groups) == 16
    assert '"step":99' not in "".join(sampled_groups)
