"""How far chance takes the change scan of board.core.metrics.change_points: its critical values.

    python benchmarks/change_points.py            prints the table and the power
    python benchmarks/change_points.py --write    writes board/core/metrics/critical_values.toml

Series that do not change are a mixture, as curves of runs are: independent noise of normal and of heavy
tails, noise that is alike from step to step, and a level that wanders under noise. How often a smooth
rise, as of a reward that is learnt, is called a change is printed beside them, and how often a change is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

PROJECT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT)]

from board.core.arrays import FloatArray  # noqa: E402
from board.core.metrics import change_points  # noqa: E402
from board.core.metrics.change_points import (  # noqa: E402
    LEAST_OF_SPREAD,
    changes,
    log_squares,
)
from board.core.metrics.level_scan import AFTER, SPREAD_AFTER, largest  # noqa: E402
from board.core.metrics.slopes import LEAST_OF_SLOPE, changes_of_slope  # noqa: E402

_LENGTHS: Final = (12, 20, 40, 80, 200, 1000, 5000)
_RATES: Final = (0.1, 0.01, 0.001, 0.0003)
_VALUES: Final = 2_400_000
"""About so many values are simulated of a length, of 40,000 series at most."""
_TRIED: Final = 1000
_AT_ONCE: Final = 400_000


def unchanged(rng: np.random.Generator, count: int, length: int) -> FloatArray:
    """[count, length] series that do not change, of four kinds in turn."""
    values = rng.normal(size=(count, length))
    values[1::4] = rng.standard_t(4, size=values[1::4].shape)
    wander = rng.normal(scale=0.1, size=values[2::4].shape)
    values[2::4] += np.cumsum(wander, axis=1)
    alike = values[3::4]
    for place in range(1, length):
        alike[:, place] = 0.5 * alike[:, place - 1] + np.sqrt(0.75) * alike[:, place]
    return values


def rising(rng: np.random.Generator, count: int, length: int, size: float) -> FloatArray:
    """[count, length] series that rise by so many standard deviations, most of it in half of the run."""
    places = np.arange(length) / length
    middle, width = rng.uniform(0.2, 0.8, (count, 1)), rng.uniform(0.1, 0.2, (count, 1))
    return rng.normal(size=(count, length)) + size / (1 + np.exp(-(places - middle) / width))


def shares() -> Iterator[str]:
    """How often a rise and a change of each size are found at a rate of 0.001."""
    for length in (40, 80, 200):
        rng = np.random.default_rng(length)
        for size in (6.0, 16.0):
            hits = _hits(rising(rng, _TRIED, length, size))
            yield f"{length} steps, rises by {size:g} sd: called a change in {len(hits) / _TRIED:.1%}"
        for size in (1.0, 2.0, 3.0, 4.0, 6.0):
            values, begin = rng.normal(size=(_TRIED, length)), length * 6 // 10
            values[:, begin:] += size
            share = len(_hits(values, begin)) / _TRIED
            yield f"{length} steps, changes by {size:g} sd: found in {share:.1%}"
        for size in (10.0, 20.0, 30.0):
            values, begin = rng.normal(size=(_TRIED, length)), length // 2
            values += size * np.clip(np.arange(length) - begin + 1, 0, 20) / 20
            share = len(_hits(values, begin, grows=True)) / _TRIED
            yield f"{length} steps, grows by {size:g} sd in 20 steps: found in {share:.1%}"


def _hits(values: FloatArray, near: int | None = None, *, grows: bool = False) -> set[int]:
    """Series that are said to change, within three steps of a place (five, of one that grows)."""
    rate, no_spread = np.full(len(values), 0.001), np.full(len(values), False)
    found = changes(values, rate, no_spread, np.full(len(values), grows))
    within = 5 if grows else 3
    return {one.series for one in found if near is None or abs(one.place - near) <= within}


def simulated(length: int, kind: str) -> list[float]:
    """The z that the largest change of a series of so many values is beyond, at each rate."""
    rng = np.random.default_rng([length, ("level", "spread", "slope").index(kind)])
    most: list[FloatArray] = []
    for _ in range(max(min(_VALUES // length, 40_000) * length // _AT_ONCE, 1)):
        values = unchanged(rng, _AT_ONCE // length, length)
        if kind == "level":
            most.append(np.abs(largest(values, AFTER)[1]))
        elif kind == "slope":
            most.append(np.abs(changes_of_slope(values)).max(axis=1))
        else:
            most.append(np.abs(largest(log_squares(values), SPREAD_AFTER)[1]))
    return np.quantile(np.concatenate(most), 1 - np.array(_RATES)).round(3).tolist()


def table() -> str:
    """The file of critical values."""
    lines = [
        "# Made by benchmarks/change_points.py --write: by number of values, the z of the largest",
        "# change that chance is beyond at these rates, in a mixture of series without a change.",
    ]
    lengths_of = {
        "level": _LENGTHS,
        "spread": (LEAST_OF_SPREAD, *_LENGTHS[3:]),
        "slope": (LEAST_OF_SLOPE, *_LENGTHS[2:]),
    }
    for kind, lengths in lengths_of.items():
        lines += ["", f"[{kind}]", f"values = {[*lengths]}", f"rates = {[*_RATES]}", "z = ["]
        lines += [f"    {simulated(length, kind)}," for length in lengths]
        lines += ["]"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    is_written = parser.parse_args().write
    text = table()
    print(text)
    if is_written:
        path = Path(change_points.__file__).with_name("critical_values.toml")
        path.write_text(text, encoding="utf-8")
    print("\n".join(shares()))


if __name__ == "__main__":
    main()
