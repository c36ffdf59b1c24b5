"""What the audit costs beside an index: the sample that `check` and the page audit, in CPU seconds.

    python benchmarks/audit.py [--megabytes 60 500] [--repeats 3]

Indexes runs in verl's format that it generates, in one process of its own each, then audits a sample.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import orjson

_WORDS: Final = [f"word{n}" for n in range(5000)]


def generate(folder: Path, megabytes: int) -> None:
    """Writes a run of so many megabytes."""
    chosen = random.Random(megabytes)
    with (folder / "1.jsonl").open("wb") as file:
        number = 0
        while file.tell() < megabytes * 1_000_000:
            texts = (" ".join(chosen.choices(_WORDS, k=count)) for count in (60, 700))
            line = dict(zip(("input", "output"), texts, strict=True))
            numbers = {"gts": "42", "score": float(chosen.random() < 0.4), "step": number // 512}
            file.write(orjson.dumps({**line, **numbers}) + b"\n")
            number += 1


def _cpu() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(folder: Path) -> tuple[float, float]:
    """CPU seconds of the index, and of the audit of a sample of it."""
    from board.analysis.audit import audit_sample
    from board.index.discovery.discovered_runs import discover
    from board.query.open_run import Follower

    shutil.rmtree(folder / ".rollout-board", ignore_errors=True)
    begun = _cpu()
    run = Follower(persist=True).run(discover(folder).runs[0])
    assert run.rollout_count
    indexed = _cpu()
    assert audit_sample(run).problems == ()
    return indexed - begun, _cpu() - indexed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, nargs="+", default=[60, 500])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.folder is not None:
        print(*measure(options.folder))
        return
    for megabytes in options.megabytes:
        with tempfile.TemporaryDirectory() as name:
            generate(Path(name), megabytes)
            command = [sys.executable, __file__, "--folder", name]
            rows = [
                [*map(float, subprocess.check_output(command, text=True).split())]
                for _ in range(options.repeats)
            ]
        index, audit = (median(row[place] for row in rows) for place in (0, 1))
        print(f"{megabytes} MB: index {index:.2f} s, audit {audit:.3f} s, {audit / index:.1%}")


if __name__ == "__main__":
    main()
