"""How fast logs of texts are scanned, beside `orjson.loads` of each line of the same file.

    python benchmarks/scan_text.py [--megabytes 60] [--rounds 7] [--reader verl] [--lines '5 kB']
    python benchmarks/scan_text.py --build --megabytes 200 --rounds 3 [--reader verl] [--lines '5 kB']

Writes logs of the shape of verl's, verifiers' and TRL's, and reads each in turn. The first way in one
process: with a loop that parses every line and keeps nothing; with the board's scan, which makes the
table's rows (`scan`); and with the scan as an index is made, its rows written to disk (`index`). What
counts is CPU time, the smallest of all rounds, and its ratio: 1 is as fast as the loop. The numbers and
texts in the logs mean nothing. TRL's log is Parquet, in files of 1,024 rows: there `orjson.loads` of each
line means the same rows as lines of JSON, which nobody has on disk, while the board has to unpack the
tables. `rows` is what parses each row of the very files: pyarrow's `to_pylist`.

With --build it measures what a user waits for: seconds on the clock, from after the imports until all
rollouts are in the index and until the index is whole, its steps and all, as the board makes it by
itself; beside the loop over the same file, each time in a new process, in turn. With --dump FILE the log
is a real one: its lines again and again, until there are so many megabytes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from board.core.records import ReadOptions
from board.index.arrow_start import leave_pandas_out
from board.index.discovery.discovered_runs import discover
from board.index.reading.batch import Job, index_batch
from board.index.reading.scan import index_shard
from board.index.reading.shard import Shard
from board.index.storage import FolderStorage
from board.query.open_run import Follower

_PIECES: Final = (
    *("so", "the", "answer", "is", "42", "we", "add", "carry", "therefore", "number", "each", "of"),
    *("\\frac{45}{3}", "\\( 15 + 9 = 24 \\)", '"two"', "it’s", "\n\n", "\n", "has", "bought", "a"),
)
_CHARS: Final = {
    "0.5 kB": ((50, 150), (50, 350)),
    "1 kB": ((100, 400), (100, 800)),
    "3 kB": ((300, 900), (500, 4300)),
    "5 kB": ((500, 1500), (1000, 7000)),
    "20 kB": ((1000, 5000), (6000, 26_000)),
}
"""Characters of prompt and response, (fewest, most).

The sizes are those of dumps at hand, whatever the format: verifiers' GSM8K 0.6 kB a line, its
math_python 2.8, verl's GSM8K 3.1, verifiers' mcp_env 18.6. Responses of 1,000 to 8,000 tokens, usual
where models reason, are 4 to 32 kB.
"""
_NOT_ASCII: Final = 0.2
"""Share of texts with a sign that is not ASCII, as in a dump of a run on GSM8K."""
_TABLE_ROWS: Final = 1024
_GROUP: Final = 8
_STEP: Final = 128

_SCAN_HEADS: Final = (
    *("reader", "kB a line", "loop: CPU us a line (MB/s)", "scan", "index"),
    *("loop / scan", "loop / index"),
)
_BUILD_HEADS: Final = (
    *("reader", "kB a line", "MB", "loop, s (slowest)", "rows, s", "all read, s", "index, s"),
    *("loop / all read", "rows / all read", "loop / index"),
)

Rollout = dict[str, Any]


def texts(rng: np.random.Generator, lengths: tuple[int, int]) -> Iterator[str]:
    """Endless texts of so many characters, cut from one long one."""
    other = " ".join(_PIECES[i] for i in rng.integers(0, len(_PIECES), 100_000))
    plain = other.replace("’", "'")
    while True:
        source = other if rng.random() < _NOT_ASCII else plain
        length = int(rng.integers(*lengths, endpoint=True))
        start = int(rng.integers(0, len(source) - length))
        yield source[start : start + length]


def rollouts(lines: str) -> Iterator[tuple[int, str, str, np.random.Generator]]:
    """Endless rollouts: number, prompt (one a group), response, and where further numbers come from."""
    rng = np.random.default_rng(0)
    prompts, responses = (texts(rng, lengths) for lengths in _CHARS[lines])
    number = 0
    while True:
        prompt = next(prompts)
        for _ in range(_GROUP):
            yield number, prompt, next(responses), rng
            number += 1


def verl(lines: str) -> Iterator[Rollout]:
    """Lines as verl v1 dumps them, with what a reward function returned beside the score."""
    for number, prompt, response, rng in rollouts(lines):
        yield {
            "input": prompt,
            "output": response,
            "gts": str(rng.integers(1000)),
            "score": float(rng.random()),
            "step": number // _STEP,
            "acc": float(rng.random() < 0.5),
            "pred": str(rng.integers(1000)),
            "format_reward": float(rng.random()),
            "length_penalty": -float(rng.random()),
            "num_turns": int(rng.integers(1, 4)),
            "uid": f"{number // _GROUP}_{number % _GROUP}_0",
        }


def verifiers(lines: str) -> Iterator[Rollout]:
    """Lines as verifiers saves results; in every third rollout a tool was called."""
    for number, prompt, response, rng in rollouts(lines):
        call = json.dumps({"id": "c0", "name": "add", "arguments": '{"a": 12}'})
        turns: list[dict[str, Any]] = [{"role": "assistant", "content": response}]
        if number % 3 == 0:
            half = len(response) // 2
            turns = [
                {"role": "assistant", "content": response[:half], "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c0", "content": "42"},
                {"role": "assistant", "content": response[half:]},
            ]
        correct = float(rng.random() < 0.5)
        yield {
            "example_id": number // _GROUP,
            "prompt": [
                {"role": "system", "content": "Reason step by step."},
                {"role": "user", "content": prompt},
            ],
            "completion": turns,
            "answer": str(rng.integers(1000)),
            "info": {"digits": 2},
            "reward": float(rng.random()),
            "error": None,
            "timing": {"start_time": 1.0, "generation": {"start": 1.0, "end": 1.5}, "total": 0.6},
            "is_completed": True,
            "is_truncated": False,
            "stop_condition": "no_tools_called",
            "metrics": {"correct": correct, "num_turns": float(len(turns))},
            "tool_defs": None,
            "token_usage": {"input_tokens": 300.0, "output_tokens": len(response) / 4},
            "correct": correct,
            "num_turns": float(len(turns)),
        }


def trl(lines: str) -> Iterator[Rollout]:
    """Rows as TRL logs completions."""
    for number, prompt, response, rng in rollouts(lines):
        yield {
            "step": number // _TABLE_ROWS + 1,
            "prompt": prompt,
            "completion": response,
            "accuracy_reward": float(rng.random() < 0.5),
            "format_reward": float(rng.random()),
            "advantage": float(rng.normal()),
        }


_SHAPES: Final[dict[str, Callable[[str], Iterator[Rollout]]]] = {
    "verl": verl,
    "verifiers": verifiers,
    "trl": trl,
}
_NAMES: Final = {"verl": "{}.jsonl", "verifiers": "results.jsonl"}


def written(folder: Path, reader: str, lines: str, megabytes: int) -> tuple[Path, list[Path], int]:
    """The lines for the loop, the files for the board, and how many rollouts are in each.

    What an earlier call wrote is left as it is.
    """
    run = folder / "run"
    path = run / _NAMES[reader].format(1) if reader in _NAMES else folder / "rows.jsonl"
    if not run.exists():
        run.mkdir(parents=True)
        _write(path, reader, lines, megabytes)
        if reader not in _NAMES:
            _write_tables(run, path)
    with path.open("rb") as file:
        rows = sum(1 for _ in file)
    return path, [path] if reader in _NAMES else sorted(run.rglob("*.parquet")), rows


def _write(path: Path, reader: str, lines: str, megabytes: int) -> None:
    size = 0
    with path.open("wb") as file:
        for rollout in _SHAPES[reader](lines):
            size += file.write(json.dumps(rollout, ensure_ascii=False).encode() + b"\n")
            if size >= megabytes * 1_000_000:
                break


def _write_tables(run: Path, lines: Path) -> None:
    """The lines as the Parquet files that TRL writes, by pandas."""
    (run / "completions").mkdir()
    with lines.open("rb") as file:
        for number in count(1):
            rows = [orjson.loads(line) for line in islice(file, _TABLE_ROWS)]
            if not rows:
                return
            path = run / f"completions/completions_{number:05d}.parquet"
            pq.write_table(pa.Table.from_pylist(rows), path)


def loop(path: Path) -> int:
    """Parses every line, keeping nothing."""
    rows = 0
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)
            rows += 1
    return rows


def rows_of(run: Path) -> int:
    """Parses every row of the tables of a run, keeping nothing."""
    return sum(len(pq.read_table(path).to_pylist()) for path in sorted(run.rglob("*.parquet")))


def shards(paths: list[Path], reader: str) -> list[Shard]:
    """The files as the index reads them."""
    return [Shard(path, path.name, reader) for path in paths]


def scan(paths: list[Path], reader: str) -> int:
    """The board's scan."""
    return sum(
        part.table.num_rows for shard in shards(paths, reader) for part in index_shard(shard)
    )


def index(paths: list[Path], reader: str, folder: Path) -> int:
    """The scan with its rows written."""
    folder.mkdir(exist_ok=True)
    works = [replace(s, file_id=i) for i, s in enumerate(shards(paths, reader), start=1)]
    return index_batch(Job(FolderStorage(folder), ReadOptions(), None), works).rows


def measure(folder: Path, reader: str, lines: str, megabytes: int, rounds: int) -> str:
    """One row of the table: microseconds of CPU per rollout, and what is as fast as the loop."""
    path, files, rows = written(folder, reader, lines, megabytes)
    engines: dict[str, Callable[[], int]] = {
        "loop": lambda: loop(path),
        "scan": lambda: scan(files, reader),
        "index": lambda: index(files, reader, folder / "index"),
    }
    best = dict.fromkeys(engines, float("inf"))
    for _ in range(rounds):
        for name, engine in engines.items():
            begun = time.process_time()
            result = engine()
            best[name] = min(best[name], time.process_time() - begun)
            if result != rows:
                raise SystemExit(f"{name} found {result} rollouts of {rows} in {path}")
    size = path.stat().st_size
    each = {name: f"{seconds / rows * 1e6:.1f}" for name, seconds in best.items()}
    rates = {name: f"{size / 1e6 / seconds:.0f}" for name, seconds in best.items()}
    ratios = [f"{best['loop'] / best[name]:.2f}" for name in ("scan", "index")]
    cells = [f"{each[name]} ({rates[name]})" for name in engines]
    return f"| {reader} | {size / rows / 1000:.1f} | {' | '.join((*cells, *ratios))} |"


def build(run: Path) -> float:
    """Makes the index as the board does; when all rollouts were in it, the steps' numbers not yet."""
    read: list[float] = []

    def progress(done: int, whole: int) -> None:
        if done == whole:
            read.append(time.perf_counter())

    Follower(persist=True).run(discover(run).runs[0], progress)
    return read[0]


def seconds(engine: str, path: Path) -> list[float]:
    """On the clock, of one engine in a new process: until all was read, and in all."""
    shutil.rmtree(path / ".rollout-board", ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, __file__, "--engine", engine, "--path", str(path)]
    message = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout
    return [float(one) for one in message.split()]


def _engine(engine: str, path: Path) -> None:
    gc.freeze()  # as the board's own process that makes an index
    begun = read = time.perf_counter()
    if engine == "build":
        leave_pandas_out()  # as a command does
        read = build(path)
    elif engine == "rows":
        rows_of(path)
    else:
        loop(path)
    print(read - begun, time.perf_counter() - begun)


def measure_build(folder: Path, reader: str, lines: str, megabytes: int, rounds: int) -> str:
    """One row of the table: seconds on the clock, medians and the slowest."""
    path, _, rows = written(folder, reader, lines, megabytes)
    return measured_build(reader, path, folder / "run", rows, rounds)


def measured_build(name: str, path: Path, run: Path, rows: int, rounds: int) -> str:
    """As measure_build. path: the lines for the loop; run: the folder for the board."""
    has_tables = path.parent != run
    took: dict[str, list[float]] = {"loop": [], "rows": [], "read": [], "index": []}
    for _ in range(rounds):
        took["loop"].append(seconds("loop", path)[1])
        if has_tables:
            took["rows"].append(seconds("rows", run)[1])
        read, index = seconds("build", run)
        took["read"].append(read)
        took["index"].append(index)
    size = path.stat().st_size
    middle = {name: median(result) for name, result in took.items() if result}
    cells = [f"{size / rows / 1000:.1f}", f"{size / 1e6:.0f}"]
    cells += [f"{middle[k]:.2f} ({max(v):.2f})" if v else "" for k, v in took.items()]
    for one, other in (("loop", "read"), ("rows", "read"), ("loop", "index")):
        cells.append(f"{middle[one] / middle[other]:.2f}" if one in middle else "")
    return f"| {name} | {' | '.join(cells)} |"


def repeated(folder: Path, dump: Path, megabytes: int) -> tuple[Path, int]:
    """A run of the lines of a dump again and again, under its own name; the file, and its rollouts."""
    path = folder / "run" / dump.name
    path.parent.mkdir(parents=True)
    content = dump.read_bytes().rstrip(b"\n") + b"\n"
    times = max(megabytes * 1_000_000 // len(content), 1)
    with path.open("wb") as file:
        for _ in range(times):
            file.write(content)
    return path, times * content.count(b"\n")


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=60, help="size of each log, as lines")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--reader", choices=_SHAPES, action="append")
    parser.add_argument("--lines", choices=_CHARS, action="append")
    parser.add_argument("--build", action="store_true", help="seconds until there is an index")
    parser.add_argument(
        "--dump", type=Path, action="append", help="with --build: a real log of lines"
    )
    parser.add_argument(
        "--folder", type=Path, help="where logs stay, and need not be written again"
    )
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        _engine(args.engine, args.path)
        return
    versions = ", ".join(f"{name} {version(name)}" for name in ("orjson", "pyarrow"))
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    which = "medians" if args.build else "smallest"
    print(f"{args.megabytes} MB each, {which} of {args.rounds} rounds; {machine}, {versions}\n")
    heads = _BUILD_HEADS if args.build else _SCAN_HEADS
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    with nullcontext(args.folder) if args.folder else tempfile.TemporaryDirectory() as place:
        for number, dump in enumerate(args.dump or ()):
            path, rows = repeated(Path(place, str(number)), dump, args.megabytes)
            name = "/".join(dump.parts[-2:])
            print(measured_build(name, path, path.parent, rows, args.rounds), flush=True)
        if args.dump:
            return
        for lines in args.lines or list(_CHARS):
            for reader in args.reader or list(_SHAPES):
                folder = Path(place, lines, reader)
                one = measure_build if args.build else measure
                print(one(folder, reader, lines, args.megabytes, args.rounds), flush=True)
                if not args.folder:
                    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
