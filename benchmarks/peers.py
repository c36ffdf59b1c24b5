"""Compares the board with what people would use instead, for the same question to the same data.

    python benchmarks/peers.py [--repeats 3] [--environments FOLDER] [--only TEXT ...]

Each peer is installed from the package index into an environment of its own, which --environments keeps.
Both sides are whole processes that print their answer, and the answers must be equal. A side runs once
before it is timed, so that files are in memory and modules are compiled; then both run in turns. first:
our index is removed before each run; again: it is there. --only: rows whose names have one of
these texts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from generate import write_run  # noqa: E402

from board.formats.io.inspect_files import INSPECT  # noqa: E402

_INDEX: Final = ".rollout-board"
_OURS: Final = "import sys; from board.cli import main; sys.exit(main())"
_EVAL: Final = next((ROOT / "tests" / "formats" / "data" / "inspect").glob("*.eval"))
_INSPECT: Final = """
import json, pathlib, sys
from inspect_ai.log import read_eval_log_sample_summaries
(log,) = pathlib.Path(sys.argv[1]).glob("*.eval")
print(json.dumps([[str(s.id), s.epoch] for s in read_eval_log_sample_summaries(str(log))]))
"""
_DUCKDB: Final = """
import duckdb, json, sys
rows = duckdb.sql(f'''SELECT step, avg(reward) FROM read_json('{sys.argv[1]}/*.jsonl',
    format='newline_delimited', columns={{step: 'BIGINT', reward: 'DOUBLE'}})
    GROUP BY step ORDER BY step''').fetchall()
print(json.dumps(rows))
"""
_PANDAS: Final = """
import json, pathlib, sys
import pandas as pd
files = sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl"))
parts = [f[["step", "reward"]] for p in files for f in pd.read_json(p, lines=True, chunksize=5000)]
means = pd.concat(parts).groupby("step")["reward"].mean()
print(json.dumps([[int(step), float(mean)] for step, mean in means.items()]))
"""


@dataclass(frozen=True)
class Row:
    """A comparison. make: writes the data into a folder. package, script: of the peer, which is given the
    folder. command: of ours, RUN standing for the folder; columns: those of its answer.
    """

    name: str
    make: Callable[[Path], None]
    package: str
    script: str
    command: tuple[str, ...]
    columns: tuple[str, ...]


def copies(folder: Path, count: int) -> None:
    """An .eval of so many samples: those of a real one under other ids, with their summaries."""
    samples = [dict(row.record) for row in INSPECT.lines(_EVAL)]  # pyright: ignore[reportAttributeAccessIssue]
    header = samples[0].pop("header")
    with zipfile.ZipFile(folder / _EVAL.name, "w", zipfile.ZIP_DEFLATED) as archive:
        summaries: list[dict[str, Any]] = []
        for number in range(count):
            sample = {k: v for k, v in samples[number % len(samples)].items() if k != "header"}
            sample |= {"id": f"p{number}", "epoch": 1, "uuid": f"u{number}"}
            archive.writestr(f"samples/p{number}_epoch_1.json", json.dumps(sample))
            kept = ("id", "epoch", "input", "target", "scores", "uuid", "model_usage")
            summaries.append({key: sample[key] for key in kept if key in sample})
        archive.writestr("summaries.json", json.dumps(summaries))
        archive.writestr("header.json", json.dumps(header))


_LIST: Final = ("rollouts", "RUN", "--json", "--columns", "group_id,epoch")
_MEANS: Final = ("steps", "RUN", "--json", "--split", "all", "--columns", "step,reward_mean")
ROWS: Final = (
    *(
        Row(
            f".eval of {count:,} samples, list of samples",
            lambda folder, count=count: copies(folder, count),
            "inspect_ai",
            _INSPECT,
            _LIST,
            ("group_id", "epoch"),
        )
        for count in (2_000, 20_000)
    ),
    *(
        Row(
            f"{megabytes} MB of JSON lines, mean reward by step ({package})",
            lambda folder, megabytes=megabytes: write_run(folder, megabytes),
            package,
            script,
            _MEANS,
            ("step", "reward_mean"),
        )
        for megabytes, package, script in ((200, "duckdb", _DUCKDB), (200, "pandas", _PANDAS))
    ),
)


def python_of(package: str, environments: Path) -> tuple[str, str]:
    """The interpreter of an environment that has a package, and the package's version."""
    folder = environments / package
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
    asked = f"from importlib.metadata import version; print(version({package!r}))"
    return python, subprocess.check_output([python, "-c", asked], text=True).strip()


def timed(command: Sequence[str]) -> tuple[float, float, list[list[Any]]]:
    """Seconds on the clock, seconds of all processors, and what a process printed as JSON."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    before, begun = os.times(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, after = time.monotonic() - begun, os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return seconds, spent, json.loads(done.stdout)


def ours(row: Row, folder: Path, *, first: bool) -> tuple[float, float, list[list[Any]]]:
    """The same of our command. first: without an index."""
    if first:
        shutil.rmtree(folder / _INDEX, ignore_errors=True)
    command = [str(folder) if word == "RUN" else word for word in row.command]
    seconds, spent, answer = timed([sys.executable, "-c", _OURS, *command])
    rows: list[Any] = answer
    return seconds, spent, [[one[name] for name in row.columns] for one in rows]


def are_equal(one: list[list[Any]], other: list[list[Any]]) -> bool:
    """Whether two answers have the same rows, numbers up to rounding."""
    pairs = zip(sorted(one), sorted(other), strict=True)
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else a == b
        for left, right in pairs
        for a, b in zip(left, right, strict=True)
    )


def compared(row: Row, repeats: int, environments: Path) -> list[str]:
    """The lines of the table for a row: the first opening, and with the index there."""
    python, version = python_of(row.package, environments)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        folder.mkdir()
        row.make(folder)
        for first in (True, False):
            theirs = [python, "-c", row.script, str(folder)]
            _, _, expected = timed(theirs)
            _, _, answer = ours(row, folder, first=first)
            if not are_equal(expected, answer):
                raise SystemExit(f"{row.name}: the answers differ")
            pairs = [(timed(theirs), ours(row, folder, first=first)) for _ in range(repeats)]
            own = [(mine[0], mine[1], their[0], their[1]) for their, mine in pairs]
            ratios = sorted(mine / their for mine, _, their, _ in own)
            cells = [median(numbers) for numbers in zip(*own, strict=True)]
            lines.append(
                f"| {row.name}, {'first' if first else 'again'} | {row.package} {version} | "
                f"{cells[2]:.2f} ({cells[3]:.2f}) | {cells[0]:.2f} ({cells[1]:.2f}) | "
                f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
            )
    return lines


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--only", nargs="*", default=[""])
    args = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}; seconds on the ",
        end="",
    )
    print("clock, in parentheses of all processors; ratio: ours / theirs\n")
    print("| work | peer | its time | ours | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        environments = args.environments or Path(name)
        for row in ROWS:
            if any(text in row.name for text in args.only):
                print(*compared(row, args.repeats, environments), sep="\n", flush=True)


if __name__ == "__main__":
    main()
