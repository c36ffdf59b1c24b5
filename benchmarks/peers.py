"""What people would use instead, measured beside the board: whole processes, in turns, the same answer.

    python benchmarks/peers.py [--only events,inspect,...] [--rounds 3] [--folder DIR]

Each peer is installed from the package index into an environment of its own in DIR, where the generated
data stays too, so that a second run needs neither. A row is one question: both sides have to give the
same answer, else it ends with an error. A side runs once before it is timed, so that files are in memory
and modules are compiled. Printed are the medians in seconds on the clock, in parentheses of all
processors, and the ratios ours / theirs of both with their ranges over the rounds: where other work has
the cores, that of the processors tells more. first: what the board keeps is removed before each round;
again: it is there. What a side starts itself counts, as tensorboard's process that decodes.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from generate import write_run  # noqa: E402

from board.formats.io.inspect_files import INSPECT  # noqa: E402

INDEX = ".rollout-board"
EVAL = next((ROOT / "tests" / "formats" / "data" / "inspect").glob("*.eval"))
SAMPLES = (2_000, 20_000)
MEGABYTES = 500
CURVES, POINTS = 100, 10_000
_ADOPT_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER of linux/prctl.h."""
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


LIST_SAMPLES = """
import json, pathlib, sys
from inspect_ai.log import read_eval_log_sample_summaries
(log,) = pathlib.Path(sys.argv[1]).glob("*.eval")
print(json.dumps([[str(s.id), s.epoch] for s in read_eval_log_sample_summaries(str(log))]))
"""
MEANS_BY_DUCKDB = """
import duckdb, json, sys
duckdb.sql("SET enable_progress_bar = false")  # it would be in the answer
rows = duckdb.sql(f'''SELECT step, avg(reward) FROM read_json('{sys.argv[1]}/*.jsonl',
    format='newline_delimited', columns={{step: 'BIGINT', reward: 'DOUBLE'}})
    GROUP BY step ORDER BY step''').fetchall()
print(json.dumps(rows))
"""
MEANS_BY_PANDAS = """
import json, pathlib, sys
import pandas as pd
files = sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl"))
parts = [f[["step", "reward"]] for p in files for f in pd.read_json(p, lines=True, chunksize=5000)]
means = pd.concat(parts).groupby("step")["reward"].mean()
print(json.dumps([[int(step), float(mean)] for step, mean in means.items()]))
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
    settings["PYTHONDONTWRITEBYTECODE"] = ""  # as a user has it
    command = [sys.executable, "-c", code, *arguments, "--json"]
    output = subprocess.run(
        command, check=True, stdout=-1, stderr=-1, env={**os.environ, **settings}
    )
    document = json.loads(output.stdout)
    return document.get("rows", document)


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


# Samples of Inspect, and JSON lines


def inspect(folder: Path) -> Iterator[Row]:
    """The list of the samples of an .eval."""
    python = environment(folder, "inspect_ai")
    for count in SAMPLES:
        run = made(
            folder / f"inspect_{count}", lambda making, count=count: write_samples(making, count)
        )
        columns = ("group_id", "epoch")
        command = ("rollouts", str(run), "--columns", ",".join(columns))
        yield from first_and_again(
            f"list of the {count:,} samples of an .eval",
            version_of(python, "inspect_ai"),
            [str(python), "-c", LIST_SAMPLES, str(run)],
            (run, folder / "cache", command, columns),
        )


def json_lines(folder: Path) -> Iterator[Row]:
    """The mean reward of each step."""
    run = made(folder / f"lines_{MEGABYTES}", lambda making: write_run(making, MEGABYTES))
    columns = ("step", "reward_mean")
    command = ("steps", str(run), "--split", "all", "--columns", ",".join(columns))
    for package, script in (("duckdb", MEANS_BY_DUCKDB), ("pandas", MEANS_BY_PANDAS)):
        python = environment(folder, package)
        yield from first_and_again(
            f"mean reward by step of {MEGABYTES} MB of JSON lines",
            version_of(python, package),
            [str(python), "-c", script, str(run)],
            (run, folder / "cache", command, columns),
        )


def made(run: Path, write: Callable[[Path], None]) -> Path:
    """A folder with data, which is written where it is not there yet."""
    if not run.exists():
        making = run.with_suffix(".tmp")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        write(making)
        making.rename(run)
    return run


def first_and_again(
    question: str,
    peer: str,
    their_command: list[str],
    our_command: tuple[Path, Path, tuple[str, ...], tuple[str, ...]],
) -> Iterator[Row]:
    """The same question without an index, and with it. our_command: run, cache, arguments, columns."""
    run, cache, arguments, columns = our_command

    def theirs() -> Any:
        output = subprocess.run(their_command, check=True, capture_output=True, text=True)
        return sorted(json.loads(output.stdout))

    def ours(*, is_first: bool) -> Any:
        if is_first:
            shutil.rmtree(run / INDEX, ignore_errors=True)
            shutil.rmtree(cache, ignore_errors=True)
        return sorted([row[name] for name in columns] for row in board(cache, *arguments))

    yield Row(f"{question}, first", peer, theirs, lambda: ours(is_first=True))
    yield Row(f"{question}, again", peer, theirs, lambda: ours(is_first=False))


def write_samples(folder: Path, count: int) -> None:
    """An .eval of so many samples: those of a real one under other ids, with their summaries."""
    samples = [dict(row.record) for row in INSPECT.lines(EVAL)]  # pyright: ignore[reportAttributeAccessIssue]
    header = samples[0].pop("header")
    with zipfile.ZipFile(folder / EVAL.name, "w", zipfile.ZIP_DEFLATED) as archive:
        summaries: list[dict[str, Any]] = []
        for number in range(count):
            sample = {k: v for k, v in samples[number % len(samples)].items() if k != "header"}
            sample |= {"id": f"p{number}", "epoch": 1, "uuid": f"u{number}"}
            archive.writestr(f"samples/p{number}_epoch_1.json", json.dumps(sample))
            kept = ("id", "epoch", "input", "target", "scores", "uuid", "model_usage")
            summaries.append({key: sample[key] for key in kept if key in sample})
        archive.writestr("summaries.json", json.dumps(summaries))
        archive.writestr("header.json", json.dumps(header))


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
        with suppress(ChildProcessError):
            while True:  # what it started ends with it; processor time is told of what has ended
                os.wait()


SECTIONS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "inspect": inspect,
    "lines": json_lines,
    "events": events,
    "trackio": trackio,
}


def timed(answer: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds on the clock, seconds of all processors, and the answer."""
    before, began = os.times(), time.perf_counter()
    result = answer()
    seconds, after = time.perf_counter() - began, os.times()
    return seconds, sum(after[2:4]) - sum(before[2:4]), result


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether answers are equal, numbers to the single precision that event files have."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, int | float):
        return abs(ours - theirs) <= 1e-6 * max(abs(ours), abs(theirs))
    return ours == theirs


def measure(row: Row, rounds: int) -> None:
    """Asks both sides in turns and prints the line of a row. Exits where the answers differ."""
    if not is_same(row.ours(), row.theirs()):
        sys.exit(f"{row.question}: {row.peer} and the board give different answers")
    pairs = [(timed(row.theirs)[:2], timed(row.ours)[:2]) for _ in range(rounds)]
    theirs, ours = ([times[side] for times in pairs] for side in (0, 1))
    cells = [
        f"{statistics.median(clock for clock, _ in times):.2f} "
        f"({statistics.median(spent for _, spent in times):.2f})"
        for times in (theirs, ours)
    ]
    for which in (0, 1):
        ratios = sorted(mine[which] / other[which] for other, mine in pairs)
        cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    print(f"| {row.question} | {row.peer} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        about = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        print(f"{about}, load {os.getloadavg()[0]:.1f}\n")
        print("| question | peer | its seconds | ours | ratio, clock | processors |")
        print("|---|---|---|---|---|---|")
        for name in options.only.split(","):
            for row in SECTIONS[name](folder.resolve()):
                measure(row, options.rounds)


if __name__ == "__main__":
    main()
