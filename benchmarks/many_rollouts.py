"""How an index of very many rollouts opens: what each page asks of it, and sorting the whole table.

    python benchmarks/many_rollouts.py [--rollouts 1000000 5000000] [--repeats 5] [--index FOLDER]
                                       [--parts whole sort envs splits many distinct] [--pages TEXT ...]
                                       [--tokens]

The index is generated, without a log: what is measured is everything after the reading. Each repeat is a
process of its own that has imported everything; first: the run is opened as well; later: it is open, and
nothing of the page is kept. Narrowed to environments: the narrowing is part of the page's time. Pages
about prompts are measured of a second index as well, in which no prompt comes twice (distinct); those
narrowed to a split and environments of a third one (splits), and others of a fourth one, of 64
environments (many). sort: a page of the list of the whole run, sorted by one column after the other, each
time in a run that was opened and of which nothing was read, and again.
--index keeps the indexes there and uses them again; --parts and --pages (those with one of these texts
in their names) measure some alone. --tokens: also what reads token arrays, from a generated log: lists of
a step of 512 rollouts x 4,096 tokens (diagnose.py), and one rollout of 8,000 tokens x 12 arrays.
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
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

from many_rollouts_index import make, opened  # noqa: E402

from board.analysis.findings import diagnose  # noqa: E402
from board.analysis.rollout import open_rollout  # noqa: E402
from board.core.groups.solve_rates import pass_at_k_by_step  # noqa: E402
from board.index.discovery.discovered_runs import discover  # noqa: E402
from board.query.environments import environment_curves, table_of_step  # noqa: E402
from board.query.groups import run_groups, step_grid  # noqa: E402
from board.query.open_run import Run, open_run  # noqa: E402
from board.query.prompts import (  # noqa: E402
    prompt_rollouts,
    prompt_table,
    run_prompts,
    shared_prompts,
)
from board.query.rollouts import Sorting, count, frame, total  # noqa: E402
from board.query.steps import own_steps  # noqa: E402

_SORTED: Final = 1_000_000
_METRICS: Final = ("reward", "response_tokens", "k3_mean", "entropy_mean")
_SHOWN: Final = (
    *("step", "index", "reward", "rewards.correct", "rewards.format", "advantage", "k3_mean"),
    *("entropy_mean", "response_tokens", "response"),
)
"""Columns of the table as it stands."""
_WHERE: Final = "reward < 0.5 and k3_mean > 0.1"

_SORTED_BY: Final = (
    *((name, "") for name in ("index", "reward", "k3_mean", "response_tokens")),
    *((name, "") for name in ("env", "group_id", "rollout_id")),
    *((name, "") for name in ("prompt", "response")),
    ("k3_mean", _WHERE),
    ("k3_mean", 'response contains "no such word"'),
)

Timing = tuple[float, float]
"""Milliseconds on the clock, and of CPU."""


def _overview(run: Run) -> None:
    run.steps["reward_mean"].mean()


def _step(run: Run) -> None:
    run.of_step(_middle(run))


def _middle(run: Run) -> int:
    return [*run.counts][len(run.counts) // 2]


def _groups(run: Run) -> None:
    matches, step = run_groups(run), _middle(run)
    assert matches is not None
    assert matches.by_step is not None
    for k in (1, 4, 8):
        pass_at_k_by_step(matches.groups, k)
    matches.of(step)
    matches.fit(step)
    step_grid(run, step)


def _prompts(run: Run) -> None:
    matches = run_prompts(run)
    assert matches is not None
    keys = matches.keys[:500].tolist()
    prompt_table(run, keys)
    prompt_rollouts(run, keys[0])


def _environments(run: Run) -> None:
    for column in ("step", *_METRICS):
        environment_curves(run, column)
    table_of_step(run.of_step(_middle(run)), _METRICS)


def _compare(run: Run) -> None:
    """A run with itself: the prompts that both have, and the first one of each side."""
    key = int(shared_prompts(run, run, 2000)["key"].iloc[0])
    for _ in range(2):
        prompt_rollouts(run, key)


def _ranking(run: Run) -> None:
    frame(_of_step(run), _SHOWN, Sorting("k3_mean", descending=True), limit=200)


def _of_step(run: Run) -> Run:
    return run.where(steps=(_middle(run), _middle(run)))


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
    matches = run_prompts(run)
    assert matches is not None
    lists = [np.flatnonzero(stored) for stored in (matches.never_solved, matches.regressed)]
    for places in (*lists, np.argsort(-matches.volatility, kind="stable")):
        prompt_table(run, matches.keys[places[:500]].tolist())


def _filtered_step(run: Run) -> None:
    matches = _of_step(run).where(f"{_WHERE} and -1 <= k3_mean <= 1")
    frame(matches, _SHOWN, Sorting("reward", descending=True), limit=200)


def _own_curve(run: Run) -> None:
    own_steps(run, "k3_mean * response_tokens")


def _total(run: Run) -> None:
    total(run, "timestamp")


def _with_quantiles(run: Run) -> None:
    run.step_table(quantiles=True).to_pandas()["reward_q95"].mean()


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
        page(run.where(envs=names, split=split))

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
_PARTS: Final = ("whole", "sort", "envs", "splits", "many", "distinct")
_OF_PROMPTS: Final = ("Prompts", "Compare, prompts of two runs")


def _ms(work: Callable[[], object]) -> tuple[float, float]:
    """On the clock and of CPU: other jobs make the first longer."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def measure(folder: Path, pages: Sequence[str]) -> dict[str, Timing]:
    """Milliseconds in this process, and MB."""
    matches: dict[str, Timing] = {}
    for page in pages:
        work, run = PAGES[page], list[Run]()
        matches[f"{page}, first"] = _ms(lambda work=work, run=run: work(_kept(run, opened(folder))))
        matches[f"{page}, later"] = _ms(lambda work=work, run=run: work(run[0]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return matches | {"all of these, peak MB": (peak, 0)}


def sorting(folder: Path) -> dict[str, Timing]:
    """Milliseconds until a page of the whole run is there, sorted and filtered: 200 rollouts."""
    matches: dict[str, Timing] = {}
    for column, where in _SORTED_BY:
        run = opened(folder)
        title = f"sorted by {column}{f', those with {where}' if where else ''}"
        matches[f"{title}, first"] = _ms(lambda r=run, by=column, only=where: _page(r, by, only))
        matches[f"{title}, later"] = _ms(lambda r=run, by=column, only=where: _page(r, by, only))
    run = opened(folder)
    matches["the last page, by k3_mean"] = _ms(lambda: _page(run, "k3_mean", "", last=True))
    matches["the whole table, as for a CSV"] = _ms(lambda: run.rollouts)
    return matches


def _page(run: Run, column: str, where: str, *, last: bool = False) -> None:
    selection = run
    if where:
        selection = selection.where(where)
        count(selection)
    offset = run.rollout_count - 200 if last else 0
    frame(selection, _SHOWN, Sorting(column, descending=True), limit=200, offset=offset)


def _kept(remaining: list[Run], run: Run) -> Run:
    remaining.append(run)
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
    matches = {"one rollout of 8,000 tokens x 12 arrays": _medians(ones[1:])}
    for what, work in of_step(step).items():
        matches[what] = _medians([_ms(work) for _ in range(4)][1:])
    return matches


def _medians(timings: list[Timing]) -> Timing:
    wall, cpu = zip(*timings, strict=True)
    return median(wall), median(cpu)


def _apart(*arguments: str) -> dict[str, Timing]:
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def _index_of(folder: Path, rollouts: int, **kind: Any) -> Path:
    """The folder with the index, made where there is none. kind: as `make` takes it."""
    if not (folder / "manifest.json").exists():
        folder.mkdir(parents=True)
        make(folder, rollouts, **kind)
    return folder


def _parts(root: Path, rollouts: int) -> dict[str, tuple[str, Path, dict[str, Any], list[str]]]:
    """By name a title, the folder of its index, how that is made, and the pages."""
    whole, title = root / f"{rollouts}", f"{rollouts:,} rollouts"
    distinct = root / f"{rollouts} distinct"
    splits = root / f"{rollouts} of two splits"
    many = root / f"{rollouts} of 64 environments"
    return {
        "whole": (title, whole, {}, [*_OF_ALL, *_CONTROLS]),
        "sort": (f"{title}, the whole table", whole, {}, []),
        "envs": (f"{title} of five environments", whole, {}, [*_OF_ENVS]),
        "splits": (
            f"{title}, a quarter of evaluations",
            splits,
            {"with_splits": True},
            [*_OF_SPLIT],
        ),
        "many": (f"{title} of 64 environments", many, {"envs": 64}, [*_OF_MANY]),
        "distinct": (
            f"{title}, no prompt twice",
            distinct,
            {"distinct": True},
            [*_OF_PROMPTS],
        ),
    }


def _measure_parts(root: Path, rollouts: int, args: argparse.Namespace) -> None:
    for name, (title, folder, kind, pages) in _parts(root, rollouts).items():
        wanted = [p for p in pages if not args.pages or any(text in p for text in args.pages)]
        if name not in args.parts or (name == "sort" and args.pages) or (pages and not wanted):
            continue
        if name == "sort" and rollouts > _SORTED:
            continue
        options = ["--sort"] if name == "sort" else ["--pages", *wanted]
        _index_of(folder, rollouts, **kind)
        results = [_apart("--folder", str(folder), *options) for _ in range(args.repeats)]
        _print(title, results)


def _print(title: str, results: list[dict[str, Timing]]) -> None:
    print(f"\n{title}, medians of {len(results)} (largest)\n\n| | ms | CPU ms |\n|---|---|---|")
    for what in results[0]:
        sides = zip(*(result[what] for result in results), strict=True)
        fitted_convention = (f"{median(values):.0f} ({max(values):.0f})" for values in sides)
        print(f"| {what} | {' | '.join(fitted_convention)} |", flush=True)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--index", type=Path, help="a folder for the indexes, kept and used again")
    parser.add_argument("--parts", nargs="+", default=_PARTS, choices=_PARTS)
    parser.add_argument("--pages", nargs="+", default=[], help="pages with one of these texts")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sort", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(_in_this_process(args)))
        return
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as temporary:
        for rollouts in args.rollouts:
            _measure_parts(args.index or Path(temporary), rollouts, args)
        if args.tokens:
            folder = Path(temporary, "tokens")
            folder.mkdir()
            _print("token arrays", [_apart("--folder", str(folder), "--tokens")])


def _in_this_process(args: argparse.Namespace) -> dict[str, Timing]:
    if args.tokens:
        return tokens(args.folder)
    return sorting(args.folder) if args.sort else measure(args.folder, args.pages)


if __name__ == "__main__":
    main()
