"""What people would use instead, measured beside the board: whole processes, in turns, the same answer.

    python benchmarks/peers.py [--only events,...] [--rounds 3] [--folder DIR]

Each peer is installed from the package index into an environment of its own in DIR, where the generated
data stays too, so that a second run needs neither. A row is one question: both sides have to give the
same answer, else it ends with an error. Printed are the medians in seconds and their ratio with its range
over the rounds. Files are in the page cache, since each is written or read just before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
CURVES, POINTS = 100, 10_000
MOST_SECONDS = 120
"""That a server may take to answer."""
WRITE_EVENTS = """
import random, sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
folder, curves, points = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
writer, values = EventFileWriter(folder, max_queue_size=10_000), random.Random(0)
for step in range(points):
    for number in range(curves):
        value = Summary.Value(tag=f"group{number % 7}/metric{number}", simple_value=values.random())
        writer.add_event(Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=[value])))
writer.close()
"""

STEPS, TRACES = 1250, 16
WRITE_TRACES = """
import random, sys
from trackio.sqlite_storage import SQLiteStorage
words, steps, traces = random.Random(0), int(sys.argv[1]), int(sys.argv[2])
SQLiteStorage.write_trace_sessions = staticmethod(lambda project, rows: 0)

def trace(step):
    reply = " ".join(words.choices(["so", "then", "the", "answer", "is", "seven"], k=200))
    said = [("user", f"What is {step} + 7?"), ("assistant", reply)]
    messages = [{"role": role, "content": text} for role, text in said]
    metadata = {"reward": words.random(), "group_id": step}
    return {"_type": "trackio.trace", "messages": messages, "metadata": metadata, "spans": []}

calls = [{"rollouts": [trace(step) for _ in range(traces)]} for step in range(steps)]
ids = [f"call {step}" for step in range(steps)]
SQLiteStorage.bulk_log("project", "run", calls, steps=[*range(steps)], log_ids=ids)
"""
COUNT_TRACES = """
import json
from trackio.sqlite_storage import SQLiteStorage
print(json.dumps(SQLiteStorage.get_trace_steps("project", "run")["steps"]))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A question, and how each side answers it; each call is timed and returns the answer."""

    question: str
    peer: str
    theirs: Callable[[], Any]
    ours: Callable[[], Any]


def environment(folder: Path, *packages: str) -> Path:
    """The Python of an environment that holds these packages, made where there is none yet."""
    place = folder / "environments" / packages[0].partition("==")[0]
    python = place / "bin" / "python"
    if not (place / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
        (place / "done").touch()
    return python


def version_of(python: Path, package: str) -> str:
    """The package with the version that an environment has."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    output = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return f"{package} {output.stdout.strip()}"


def board(cache: Path, *arguments: str) -> Any:
    """What a command of the board prints as JSON. cache: where it keeps what it has read."""
    code = "import sys; from board.cli import main; sys.exit(main(sys.argv[1:]))"
    settings = {"PYTHONPATH": str(ROOT), "ROLLOUT_BOARD_CACHE": str(cache)}
    command = [sys.executable, "-c", code, *arguments, "--json"]
    output = subprocess.run(
        command, check=True, stdout=-1, stderr=-1, env={**os.environ, **settings}
    )
    return json.loads(output.stdout)


# Event files


def events(folder: Path) -> Iterator[Row]:
    """One curve of many, of event files."""
    python = environment(folder, "tensorboard==2.21.0")
    run = folder / f"events_{CURVES}x{POINTS}"
    if not run.exists():
        making = run.with_suffix(".tmp")
        shutil.rmtree(making, ignore_errors=True)
        sizes = [str(CURVES), str(POINTS)]
        subprocess.run([python, "-c", WRITE_EVENTS, str(making / "tb"), *sizes], check=True)
        line = {"step": 1, "prompt": "p", "response": "r", "reward": 1}
        (making / "log.jsonl").write_text(json.dumps(line) + "\n")
        making.rename(run)
    name = "group3/metric10"
    cache = folder / "cache"

    def ours(*, is_cold: bool) -> list[list[float]]:
        if is_cold:
            shutil.rmtree(cache, ignore_errors=True)
        column = f"trainer/{name}"
        rows = board(cache, "metrics", str(run), "--columns", column)
        return [[row["step"], row[column]] for row in rows]

    peer = version_of(python, "tensorboard")
    question = f"a curve of {CURVES} x {POINTS:,} points of event files"
    yield Row(
        f"{question}, cold",
        peer,
        lambda: served_curve(python, run, name),
        lambda: ours(is_cold=True),
    )
    yield Row(
        f"{question}, again",
        peer,
        lambda: served_curve(python, run, name),
        lambda: ours(is_cold=False),
    )


def served_curve(python: Path, run: Path, name: str) -> list[list[float]]:
    """A curve, whole, as tensorboard's own server serves it once it has read it; ends the server."""
    port = free_port()
    options = [
        "--samples_per_plugin",
        f"scalars={2 * POINTS}",
        "--port",
        str(port),
        "--load_fast",
        "true",
    ]
    url = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=tb&tag={quote(name, safe='')}"
    with process([str(python), "-m", "tensorboard.main", "--logdir", str(run), *options]):
        ends = time.monotonic() + MOST_SECONDS
        while time.monotonic() < ends:
            try:
                with urllib.request.urlopen(url) as answer:
                    points = json.loads(answer.read())
            except OSError:
                points = []
            if len(points) == POINTS:
                return [[step, value] for _, step, value in points]
            time.sleep(0.02)
    sys.exit(f"tensorboard did not serve {POINTS:,} points of {name} within {MOST_SECONDS} s")


# Trackio


def trackio(folder: Path) -> Iterator[Row]:
    """The rollouts of each step of a project of Trackio, by its own storage and by the board."""
    python = environment(folder, "trackio==0.43.0")
    project, cache = folder / f"trackio_{STEPS}x{TRACES}", folder / "trackio_cache"
    settings = {**os.environ, "TRACKIO_DIR": str(project), "HF_HUB_OFFLINE": "1"}
    if not project.exists():
        command = [str(python), "-c", WRITE_TRACES, str(STEPS), str(TRACES)]
        subprocess.run(command, check=True, env=settings)

    def theirs() -> list[list[int]]:
        command = [str(python), "-c", COUNT_TRACES]
        output = subprocess.run(command, check=True, stdout=-1, stderr=-1, env=settings)
        return [[row["step"], row["count"]] for row in json.loads(output.stdout)]

    def ours() -> list[list[int]]:
        rows = board(cache, "steps", str(project))
        return [[row["step"], row["rollouts"]] for row in rows]

    ours()  # the first question makes the index
    question = f"how many of {STEPS * TRACES:,} rollouts each step has, again"
    yield Row(question, version_of(python, "trackio"), theirs, ours)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def process(command: list[str]) -> Iterator[None]:
    """A process that runs meanwhile."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.terminate()
        running.wait()


SECTIONS: dict[str, Callable[[Path], Iterator[Row]]] = {"events": events, "trackio": trackio}


def timed(answer: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = answer()
    return time.perf_counter() - began, result


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether answers are equal, numbers to the single precision that event files have."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, int | float):
        return abs(ours - theirs) <= 1e-6 * max(abs(ours), abs(theirs))
    return ours == theirs


def measure(row: Row, rounds: int) -> None:
    """Asks both sides in turns and prints the line of a row. Exits where the answers differ."""
    theirs, ours = list[float](), list[float]()
    for _ in range(rounds):
        their_seconds, their_answer = timed(row.theirs)
        our_seconds, our_answer = timed(row.ours)
        if not is_same(our_answer, their_answer):
            sys.exit(f"{row.question}: {row.peer} and the board give different answers")
        theirs.append(their_seconds)
        ours.append(our_seconds)
    ratios = sorted(mine / other for mine, other in zip(ours, theirs, strict=True))
    ratio = statistics.median(ours) / statistics.median(theirs)
    sides = f"{row.peer} {statistics.median(theirs):.2f} s | {statistics.median(ours):.2f} s"
    print(
        f"| {row.question} | {sides} | {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print("| question | the other | ours | ratio (its range) |\n|---|---|---|---|")
        for name in options.only.split(","):
            for row in SECTIONS[name](folder.resolve()):
                measure(row, options.rounds)


if __name__ == "__main__":
    main()
