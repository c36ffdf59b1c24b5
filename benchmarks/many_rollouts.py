"""How an index of very many rollouts opens: what each page asks of it, and sorting the whole table.

    python benchmarks/many_rollouts.py [--rollouts 1000000 5000000] [--repeats 5]
                                       [--tokens]

The index is generated, without a log: what is measured is everything after the reading. Each repeat is a
process of its own that has imported everything; first: the run is opened as well; later: it is open, and
nothing of the page is kept. Narrowed to environments: the narrowing is part of the page's time. Pages
about prompts are measured of a second index as well, in which no prompt comes twice; those narrowed to a
split and environments of a third one, and others of a fourth one, of 64 environments. --tokens: also what
reads token arrays, from a generated log: lists of a step of 512 rollouts x 4,096 tokens (diagnose.py),
and one rollout of 8,000 tokens x 12 arrays.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa

sys.path[:0] = [str(Path(__file__).parents[1])]

from board.core.groups import pass_at_k_by_step  # noqa: E402
from board.store import step_store  # noqa: E402
from board.store.batch import put_rows, tallies_of  # noqa: E402
from board.store.discovery import RunInfo, discover  # noqa: E402
from board.store.env_table import table_of_step  # noqa: E402
from board.store.expressed import own_steps, rows_where  # noqa: E402
from board.store.findings import diagnose  # noqa: E402
from board.store.groups import environment_curves, step_grid  # noqa: E402
from board.store.log_file import LogFile  # noqa: E402
from board.store.manifest import FileState, Manifest  # noqa: E402
from board.store.narrowed import narrowed, of_split  # noqa: E402
from board.store.rollout import open_rollout  # noqa: E402
from board.store.run import Run, indexed_run, open_run  # noqa: E402
from board.store.run_groups import run_groups  # noqa: E402
from board.store.run_prompts import run_prompts, shared_prompts  # noqa: E402
from board.store.storage import FolderStorage  # noqa: E402
from board.store.table import Filter, filtered, order_by, ordered  # noqa: E402

LINE_BYTES: Final = 1000
_EACH: Final = 16_384
_A_STEP: Final = 1024
_A_GROUP: Final = 8
_PROMPTS: Final = 20_000
_SORTED: Final = 1_000_000
_TEXT: Final = "So we add the ones, carry the ten and get forty-two, which is what was asked for. "
_METRICS: Final = ("reward", "response_tokens", "k3_mean", "entropy_mean")
_WHERE: Final = "reward < 0.5 and k3_mean > 0.1"

_NO_LOG: Final = FileState(0, "x.jsonl", "native", size=1, consumed=1)

Timing = tuple[float, float]
"""Milliseconds on the clock, and of CPU."""


def make(
    folder: Path,
    rollouts: int,
    *,
    distinct: bool = False,
    with_splits: bool = False,
    envs: int = 5,
    key: str = "generated",
    state: FileState = _NO_LOG,
) -> None:
    """Writes the index of a run of so many rollouts, 1,024 a step in groups of 8, of 20,000 prompts.

    with_splits: a quarter of the groups of every step is of evaluations. envs: so many environments, each
    with every so many of the groups.
    key, state: of the index and of the log's one file, where the log is there.
    """
    storage = FolderStorage(folder)
    rng = np.random.default_rng(0)
    segments = []
    for first in range(0, rollouts, _EACH):
        numbers = np.arange(first, min(first + _EACH, rollouts))
        table = _rows(numbers, rng, distinct=distinct, envs=envs)
        if with_splits:
            names = ["eval" if n // _A_GROUP % 4 == 3 else "train" for n in numbers.tolist()]
            table = table.append_column("split", pa.array(names))
        tallies = dict(state.tallies)
        for rank, tally in tallies_of(table).items():
            if rank in tallies:
                tallies[rank].merge(tally)
            else:
                tallies[rank] = tally
        state = replace(state, tallies=tallies)
        segments.append(put_rows(storage, table))
    steps = frozenset(range(-(-rollouts // _A_STEP)))
    manifest = Manifest(key, 1, (state,), tuple(segments), stale=steps, total=state.size)
    storage.commit(step_store.refreshed(storage, manifest, ["x.jsonl"]))


def _rows(numbers: np.ndarray, rng: np.random.Generator, *, distinct: bool, envs: int) -> pa.Table:
    count = len(numbers)
    groups = numbers // _A_GROUP
    prompts = numbers if distinct else groups * 7919 % _PROMPTS
    reward = (rng.random(count) < 0.4).astype(float)
    return pa.table(
        {
            "step": numbers // _A_STEP,
            "line": numbers + 1,
            "offset": numbers * LINE_BYTES,
            "size": np.full(count, LINE_BYTES),
            "file": np.zeros(count, np.int64),
            "rank": numbers % _A_STEP // 128,
            "response_tokens": rng.integers(1, 8000, count),
            "prompt_tokens": prompts % 400 + 20,
            "reward": reward,
            "is_truncated": (rng.random(count) < 0.05).astype(float),
            "timestamp": numbers * 0.1,
            "number:rewards.correct": reward,
            "number:rewards.format": rng.random(count),
            **{
                name: rng.normal(size=count)
                for name in ("advantage", "k1_mean", "k3_mean", "entropy_mean")
            },
            "env": [f"env {number % envs}" for number in groups.tolist()],
            "group_id": [f"g{number}" for number in groups.tolist()],
            "rollout_id": [f"r{number}" for number in numbers.tolist()],
            "prompt": [f"{number} {_TEXT}" for number in prompts.tolist()],
            "response": [f"{_TEXT * 2}{number}" for number in rng.permutation(numbers).tolist()],
        }
    )


def opened(folder: Path) -> Run:
    """The run of a generated index."""
    file = LogFile(folder / "x.jsonl", "native", 1, 0, 0)
    info = RunInfo("generated", folder, (file,), (), folder)
    return indexed_run(FolderStorage(folder), info)


def _overview(run: Run) -> None:
    run.steps["reward_mean"].mean()


def _step(run: Run) -> None:
    run.of_step(_middle(run))


def _middle(run: Run) -> int:
    return int(run.steps["step"].iloc[len(run.steps) // 2])


def _groups(run: Run) -> None:
    found, step = run_groups(run), _middle(run)
    assert found is not None
    assert found.by_step is not None
    for k in (1, 4, 8):
        pass_at_k_by_step(found.groups, k)
    found.of(step)
    found.fit(step)
    step_grid(run, step)


def _prompts(run: Run) -> None:
    found = run_prompts(run)
    assert found is not None
    listed = range(500)
    found.of(listed)
    found.texts(listed)
    found.rollouts(listed[0])


def _environments(run: Run) -> None:
    for column in ("step", *_METRICS):
        environment_curves(run, column)
    table_of_step(run.of_step(_middle(run)), _METRICS)


def _compare(run: Run) -> None:
    """A run with itself: both sides' prompts, and which they share."""
    sides = [run_prompts(run), run_prompts(run)]
    left, right = sides
    assert left is not None
    assert right is not None
    shared = shared_prompts(left, right, 2000).tolist()
    left.texts(shared)
    for side in (left, right):
        side.of(shared[:1])
        side.rollouts(shared[0])


def _ranking(run: Run) -> None:
    ordered(run.of_step(_middle(run)), "k3_mean", descending=True, limit=200)


def _findings(run: Run) -> None:
    diagnose(run, tokens=False)


_OF_ALL: Final[dict[str, Callable[[Run], None]]] = {
    "Overview": _overview,
    "one step's table": _step,
    "Groups": _groups,
    "Prompts": _prompts,
    "Environments, 4 metrics": _environments,
    "Compare, prompts of two runs": _compare,
    "Spike, a step's rollouts ranked": _ranking,
    "Findings, rules on the index": _findings,
}


def _prompt_lists(run: Run) -> None:
    """Each list of the page: its first 500, with their courses and beginnings."""
    found = run_prompts(run)
    assert found is not None
    judged, scored = found.several.judged, found.several.scored
    lists = [judged.codes[held] for held in (judged.never_solved, judged.lost_again)]
    for listed in (*lists, scored.codes[np.argsort(-scored.volatility, kind="stable")]):
        found.of(listed[:500].tolist())
        found.texts(listed[:500].tolist())


def _filtered_step(run: Run) -> None:
    rows = run.of_step(_middle(run))
    kept = filtered(rows[rows_where(rows, _WHERE)], Filter(bounds={"k3_mean": (-1.0, 1.0)}))
    ordered(kept, "reward", descending=True, limit=200)


def _own_curve(run: Run) -> None:
    own_steps(run, "k3_mean * response_tokens")


def _total(run: Run) -> None:
    run.total("timestamp")


def _with_quantiles(run: Run) -> None:
    run.steps_with_quantiles["reward_q95"].mean()


_CONTROLS: Final[dict[str, Callable[[Run], None]]] = {
    "Overview, a curve of its own": _own_curve,
    "Prompts, each list": _prompt_lists,
    "Rollouts, one step: a filter, a range, sorted": _filtered_step,
    "Log health and sidebar, the total of a column": _total,
}


def _part(
    page: Callable[[Run], None], envs: Sequence[int], split: str | None = None
) -> Callable[[Run], None]:
    """The same page of some environments, and of a split; the narrowing is of its time."""
    names = [f"env {number}" for number in envs]

    def work(run: Run) -> None:
        page(narrowed(run if split is None else of_split(run, split), names))

    return work


def _pages_of(
    title: str, envs: Sequence[int], split: str | None = None
) -> dict[str, Callable[[Run], None]]:
    return {f"{title}: {name}": _part(page, envs, split) for name, page in _OF_ALL.items()}


_OF_ENVS: Final = {
    **_pages_of("one of 5 environments", [1]),
    **_pages_of("two of 5", [1, 3]),
    "two of 5: Overview, bands of quantiles": _part(_with_quantiles, [1, 3]),
    "two of 5: Overview, a curve of its own": _part(_own_curve, [1, 3]),
    **_pages_of("three of 5", [0, 1, 3]),
    **_pages_of("four of 5", [0, 1, 2, 3]),
}
_OF_SPLIT: Final = {
    **{f"training: {name}": _part(page, [], "train") for name, page in _OF_ALL.items()},
    **_pages_of("evaluations of one environment", [1], "eval"),
    **_pages_of("training of one environment", [1], "train"),
    **_pages_of("training of two", [1, 3], "train"),
    **_pages_of("training of four", [0, 1, 2, 3], "train"),
}
_OF_MANY: Final = {
    **{f"all 64: {name}": page for name, page in _OF_ALL.items()},
    **_pages_of("one of 64", [7]),
    **_pages_of("ten of 64", range(10)),
}
PAGES: Final = _OF_ALL | _CONTROLS | _OF_ENVS | _OF_SPLIT | _OF_MANY
_OF_PROMPTS: Final = ("Prompts", "Compare, prompts of two runs")


def _ms(work: Callable[[], object]) -> tuple[float, float]:
    """On the clock and of CPU: other jobs make the first longer."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def measure(folder: Path, pages: Sequence[str], *, sort: bool) -> dict[str, Timing]:
    """Milliseconds in this process, and MB."""
    found: dict[str, Timing] = {}
    for page in pages:
        work, run = PAGES[page], list[Run]()
        found[f"{page}, first"] = _ms(lambda work=work, run=run: work(_kept(run, opened(folder))))
        found[f"{page}, later"] = _ms(lambda work=work, run=run: work(run[0]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    found["all of these, peak MB"] = (peak, 0)
    if sort:
        run = [opened(folder)]
        found["the whole table, once"] = _ms(lambda: run[0].rollouts)
        rows = run[0].rollouts
        for column in ("reward", "response_tokens", "group_id", "rollout_id", "response"):
            sorting = f"then sorted by {column}, the first 2,000"
            found[sorting] = _ms(lambda c=column: ordered(rows, c, descending=True, limit=2000))
        for column in ("reward", "group_id", "prompt", "response"):
            values = rows[column]
            found[f"order of all by {column}"] = _ms(lambda v=values: order_by(v))
        found[f"those with {_WHERE}"] = _ms(lambda: rows_where(rows, _WHERE))
        bounds = Filter(bounds={"k3_mean": (-1.0, 1.0)})
        found["those in a range"] = _ms(lambda: filtered(rows, bounds))
    return found


def _kept(kept: list[Run], run: Run) -> Run:
    kept.append(run)
    return run


def tokens(folder: Path) -> dict[str, Timing]:
    """Milliseconds of what reads token arrays, in this process; the first reading left out."""
    from diagnose import make_step, of_step
    from generate import write_run

    (folder / "step").mkdir()
    step = open_run(discover(make_step(folder / "step" / "run", 4096)).runs[0])
    write_run(folder / "long", 40, long=True)
    run = open_run(discover(folder / "long").runs[0])
    at = int(run.steps["step"].iloc[0])
    ones = [_ms(lambda i=i: open_rollout(run, at, i)) for i in range(min(run.counts[at], 21))]
    found = {"one rollout of 8,000 tokens x 12 arrays": _medians(ones[1:])}
    for what, work in of_step(step).items():
        found[what] = _medians([_ms(work) for _ in range(4)][1:])
    return found


def _medians(timings: list[Timing]) -> Timing:
    wall, cpu = zip(*timings, strict=True)
    return median(wall), median(cpu)


def _apart(*arguments: str) -> dict[str, Timing]:
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def _measured(
    folder: Path, rollouts: int, repeats: int, options: list[str], **kind: Any
) -> list[dict[str, Timing]]:
    """kind: as `make` takes it."""
    if not (folder / "manifest.json").exists():
        folder.mkdir(parents=True)
        make(folder, rollouts, **kind)
    return [_apart("--folder", str(folder), *options) for _ in range(repeats)]


def _print(title: str, results: list[dict[str, Timing]]) -> None:
    print(f"\n{title}, medians of {len(results)} (largest)\n\n| | ms | CPU ms |\n|---|---|---|")
    for what in results[0]:
        sides = zip(*(result[what] for result in results), strict=True)
        told = (f"{median(values):.0f} ({max(values):.0f})" for values in sides)
        print(f"| {what} | {' | '.join(told)} |", flush=True)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--index", type=Path, help="a folder for the index, kept and used again")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sort", action="store_true", help=argparse.SUPPRESS)
    pages = [*_OF_ALL, *_CONTROLS, *_OF_ENVS]
    parser.add_argument("--pages", nargs="+", default=pages, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        if args.tokens:
            print(json.dumps(tokens(args.folder)))
        else:
            print(json.dumps(measure(args.folder, args.pages, sort=args.sort)))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as temporary:
        for rollouts in args.rollouts:
            folder = (args.index or Path(temporary)) / f"{rollouts}"
            sort = ["--sort"] if rollouts <= _SORTED else []
            _print(f"{rollouts:,} rollouts", _measured(folder, rollouts, args.repeats, sort))
            distinct = folder.with_name(f"{rollouts} distinct")
            some = ["--pages", *_OF_PROMPTS]
            results = _measured(distinct, rollouts, args.repeats, some, distinct=True)
            _print(f"{rollouts:,} rollouts, no prompt twice", results)
            both = folder.with_name(f"{rollouts} of two splits")
            some = ["--pages", *_OF_SPLIT]
            results = _measured(both, rollouts, args.repeats, some, with_splits=True)
            _print(f"{rollouts:,} rollouts, a quarter of evaluations", results)
            many = folder.with_name(f"{rollouts} of 64 environments")
            some = ["--pages", *_OF_MANY]
            results = _measured(many, rollouts, args.repeats, some, envs=64)
            _print(f"{rollouts:,} rollouts of 64 environments", results)
        if args.tokens:
            folder = Path(temporary, "tokens")
            folder.mkdir()
            _print("token arrays", [_apart("--folder", str(folder), "--tokens")])


if __name__ == "__main__":
    main()
