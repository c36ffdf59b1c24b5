"""What causes the styles of failure of tests/faults are given, by when the styles were written.

    python benchmarks/failure_causes.py            one run of each format that holds every style
    python benchmarks/failure_causes.py --runs 2   so many runs of each style and format, which show what
                                                   begins in the middle of a run; takes some minutes
    --missed                                       also each style that is not told in full

A style counts as told where 95 % of its rollouts are called what they are. Intervals are Wilson's over
styles: rollouts of one style are alike.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

# The path above is set while running; pyright does not know of it.
from faults.cause_families import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    STYLES,
    Told,
    formats_of,
    told,
    told_together,
)
from faults.rollout_logs import FORMATS  # noqa: E402  # pyright: ignore[reportMissingImports]

from board.core.metrics.intervals import independent_share  # noqa: E402
from board.core.metrics.shares import interval, percent  # noqa: E402

_FULL: Final = 0.95
WRITTEN: Final = ("known", "later", "held out")


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--missed", action="store_true")
    args = parser.parse_args()
    results = [*(_alone(args.runs) if args.runs else _together())]
    print("\n".join(table(results)))
    if args.missed:
        print("\n".join(missed(results)))


def _together() -> Iterator[Told]:
    for name in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            yield from told_together(name, 0, Path(folder) / "run")


def _alone(runs: int) -> Iterator[Told]:
    for style in STYLES:
        for name in formats_of(style):
            for seed in range(runs):
                with tempfile.TemporaryDirectory() as folder:
                    yield told(style, name, seed, Path(folder) / "run")


def table(results: Sequence[Told]) -> Iterator[str]:
    """A row for each kind of style, by when it was written."""
    yield "| written | styles of | styles | rollouts | infrastructure | or unclear | styles told |"
    yield "|---|---|---|---|---|---|---|"
    for written in WRITTEN:
        for is_infrastructure in (True, False):
            own = [
                one
                for one in results
                if one.style.written == written and one.style.is_infrastructure == is_infrastructure
            ]
            names = sorted({one.style.name for one in own})
            full = sum(_share(own, name, _right(is_infrastructure)) >= _FULL for name in names)
            bounds = interval(*independent_share(full / len(names), len(names)))
            rollouts = sum(one.classes.total() for one in own)
            called = sum(one.classes["infrastructure"] for one in own)
            unclear = sum(one.classes["unclear"] for one in own)
            yield (
                f"| {written} | {'infrastructure' if is_infrastructure else 'the policy'} | "
                f"{len(names)} | {rollouts:,} | {percent(called / rollouts)} | "
                f"{percent((called + unclear) / rollouts)} | {full} ({bounds}) |"
            )


def _right(is_infrastructure: bool) -> Callable[[Told], float]:
    if is_infrastructure:
        return lambda one: one.infrastructure
    return lambda one: 1 - one.not_earned


def _share(results: Sequence[Told], name: str, right: Callable[[Told], float]) -> float:
    """The share of a style's rollouts that are called what they are, over its formats."""
    own = [one for one in results if one.style.name == name]
    rollouts = sum(one.classes.total() for one in own)
    return sum(right(one) * one.classes.total() for one in own) / rollouts


def missed(results: Sequence[Told]) -> Iterator[str]:
    """Each style and format that is not told in full."""
    for one in results:
        if _right(one.style.is_infrastructure)(one) < _FULL:
            counts = f"{dict(one.classes)} {one.evidence}"
            yield f"{one.style.written}: {one.style.name} | {one.format} | {counts}"


if __name__ == "__main__":
    main()
