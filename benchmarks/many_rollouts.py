"""How an index of very many rollouts opens: time and memory of the Overview, of a step, of sorting.

    python benchmarks/many_rollouts.py [--rollouts 5000000] [--page]

The index is generated, and the log is a file of holes: what is measured is everything after the reading.
--page opens it in a browser instead (extra `test`, a Chromium), by a server that showed another run
before, and tells the memory of that server, its peak included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from page_open import WARMING
from page_open import opened as open_page
from playwright.sync_api import sync_playwright
from step_change import server_on

from board.core.options import ReadOptions
from board.store import step_store
from board.store.batch import put_rows, tallies_of
from board.store.companions import read_companions
from board.store.discovery import discover
from board.store.followed import digest, head_hash
from board.store.manifest import FileState, Manifest
from board.store.run import Follower, Run
from board.store.scan import END_BYTES
from board.store.storage import FolderStorage, index_folder
from board.store.table import ordered

_VISITS: Final = {
    "Overview": "",
    "Overview again": "",
    "Rollouts of a step, by reward": "&sort=reward&desc=1",
    "Overview at another step": "&step=7",
}
_LINE_BYTES: Final = 1000
_EACH: Final = 16_384
_A_STEP: Final = 1024
_SORTED: Final = 1_000_000
_TEXT: Final = "So we add the ones, carry the ten and get forty-two, which is what was asked for. "


def make(folder: Path, rollouts: int) -> None:
    """Writes the index of a run of so many rollouts, 1,024 a step."""
    index = index_folder(folder, "", ReadOptions(), make=True)
    assert index is not None, "the benchmark's own folder can be written"
    storage = FolderStorage(index)
    rng = np.random.default_rng(0)
    state = _log(folder / "x.jsonl", rollouts)
    segments = []
    for first in range(0, rollouts, _EACH):
        numbers = np.arange(first, min(first + _EACH, rollouts))
        table = pa.table(
            {
                "step": numbers // _A_STEP,
                "line": numbers + 1,
                "offset": numbers * _LINE_BYTES,
                "size": np.full(len(numbers), _LINE_BYTES),
                "file": np.zeros(len(numbers), np.int64),
                "response_tokens": rng.integers(1, 8000, len(numbers)),
                **{
                    name: rng.normal(size=len(numbers))
                    for name in ("reward", "advantage", "k1_mean", "k3_mean", "entropy_mean")
                },
                "group_id": [f"g{number // 8}" for number in numbers],
                "prompt": [f"{number} {_TEXT}" for number in numbers],
                "response": [f"{_TEXT * 2}{number}" for number in numbers],
            }
        )
        for rank, tally in tallies_of(table).items():
            known = dict(state.tallies)
            if rank in known:
                known[rank].merge(tally)
            else:
                known[rank] = tally
            state = replace(state, tallies=known)
        segments.append(put_rows(storage, table))
    steps = frozenset(range(-(-rollouts // _A_STEP)))
    key = f"{ReadOptions()!r} {read_companions(discover(folder).runs[0]).vocabulary_hash}"
    manifest = Manifest(key, 1, (state,), tuple(segments), stale=steps, total=1)
    storage.commit(step_store.refreshed(storage, manifest, ["x.jsonl"]))


def _log(path: Path, rollouts: int) -> FileState:
    """A log of that many lines, of which the first is there and the rest are holes; read to its end."""
    line = b'{"type":"sample","step":0,"reward":0.5,"prompt":"p","response":"r"}'
    path.write_bytes(line.ljust(_LINE_BYTES - 1) + b"\n")
    os.truncate(path, rollouts * _LINE_BYTES)
    at = path.stat()
    return FileState(
        *(0, path.name, "native", at.st_size, at.st_mtime_ns, at.st_ino),
        consumed=at.st_size,
        lines=rollouts,
        head=head_hash(path, at.st_size),
        ending=digest(bytes(END_BYTES)),
    )


def opened(folder: Path) -> Run:
    """The run of a generated index."""
    return Follower(persist=True).run(discover(folder).runs[0])


def page_measures(folder: Path, shown: str) -> dict[str, float]:
    """Seconds until pages of the run have settled, and MB of the server after each."""
    found: dict[str, float] = {}
    with server_on(folder) as (address, pid), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shown, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for _ in range(WARMING):
            open_page(page, address, "overview", "small")
        found["server before, MB"] = _memory(pid, "VmRSS")
        for name, query in _VISITS.items():
            found[f"{name}, s"] = open_page(page, address, name.split()[0].lower(), f"many{query}")
            found[f"server after {name}, MB"] = _memory(pid, "VmRSS")
        found["server, peak MB"] = _memory(pid, "VmHWM")
        browser.close()
    return found


def _memory(pid: int, name: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name)) / 1e3


def in_browser(rollouts: int) -> dict[str, float]:
    """Makes the run beside a small one and opens it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium found")
    with tempfile.TemporaryDirectory() as temporary:
        for name, count in (("small", _A_STEP * 4), ("many", rollouts)):
            Path(temporary, name).mkdir()
            make(Path(temporary, name), count)
        return page_measures(Path(temporary), chromium)


def measure(folder: Path, *, sort: bool) -> dict[str, float]:
    """Seconds and MB in this process."""
    found: dict[str, float] = {}

    def timed(what: str, begun: float) -> None:
        found[f"{what}, ms"] = (time.perf_counter() - begun) * 1e3
        found[f"after {what}, peak MB"] = (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        )

    begun = time.perf_counter()
    run = opened(folder)
    timed("Overview's data", begun)
    begun = time.perf_counter()
    run.of_step(int(run.steps["step"].iloc[-3]))
    timed("one step", begun)
    if sort:
        begun = time.perf_counter()
        rows = run.rollouts
        timed("the whole table", begun)
        for column in ("reward", "response_tokens", "group_id", "response"):
            begun = time.perf_counter()
            ordered(rows, column, descending=True, limit=2000)
            timed(f"sorting by {column}", begun)
    return found


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=5_000_000)
    parser.add_argument("--page", action="store_true", help="in a browser")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sort", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(measure(args.folder, sort=args.sort)))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    if args.page:
        print(f"\n{args.rollouts:,} rollouts\n\n| | |\n|---|---|")
        for what, value in in_browser(args.rollouts).items():
            print(
                f"| {what} | {value:.2f} |" if what.endswith(" s") else f"| {what} | {value:.0f} |"
            )
        return
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for rollouts in sorted({min(_SORTED, args.rollouts), args.rollouts}):
        with tempfile.TemporaryDirectory() as temporary:
            make(Path(temporary), rollouts)
            command = [sys.executable, __file__, "--folder", temporary]
            command += ["--sort"] if rollouts <= _SORTED else []
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
        print(f"\n{rollouts:,} rollouts\n\n| | |\n|---|---|")
        for what, value in json.loads(done.stdout).items():
            print(f"| {what} | {value:.0f} |")


if __name__ == "__main__":
    main()
