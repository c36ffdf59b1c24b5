"""What is found of the families of faults of tests/faults, and what is said of honest runs: the tables of
docs/findings_tested.md, which planted_faults.py writes.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

# The path above is set while running; pyright does not know of it.
from faults.family_results import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    Result,
    families,
    result_of,
)

from board.core.metrics.intervals import independent_share  # noqa: E402
from board.core.metrics.shares import interval  # noqa: E402

_SIZES: Final = (0, 1, 2, 3, 4, 6, 8, 10)
"""Bounds of the sizes that are counted together."""
_LARGE: Final = 3.0
_PROCESSES: Final = 8


def results(runs: int) -> list[Result]:
    """So many runs of each family, in some processes."""
    asked = [(place, seed) for place in range(len(families())) for seed in range(runs)]
    with ProcessPoolExecutor(_PROCESSES) as pool:
        found = pool.map(_result, *zip(*asked, strict=True))
        # A family is a function, which processes can't send.
        return [
            Result(families()[place], *fields)
            for (place, _), fields in zip(asked, found, strict=True)
        ]


def _result(place: int, seed: int) -> tuple[Any, ...]:
    """The fields of a result but the family."""
    with tempfile.TemporaryDirectory() as folder:
        one = result_of(families()[place], seed, Path(folder) / "run")
    return one.seed, one.size, one.delay, one.by, one.findings


def _share(hits: int, count: int) -> str:
    """A share with its interval."""
    if not count:
        return "-"
    return f"{hits} of {count} ({interval(*independent_share(hits / count, count))})"


def by_size(found: Sequence[Result]) -> Iterator[str]:
    """Of faults that have a size, how many are found, by the size; and of all others."""
    faults = [one for one in found if one.family.is_fault]
    yield "| size, in standard deviations of the step's mean | found within 3 steps of their begin |"
    yield "|---|---|"
    for low, high in pairwise(_SIZES):
        own = [one for one in faults if one.size is not None and low <= one.size < high]
        if own:
            yield f"| {low} to {high} | {_share(sum(one.is_found for one in own), len(own))} |"
    for words, own in (
        (f"{_LARGE:g} or more", [f for f in faults if f.size is not None and f.size >= _LARGE]),
        ("not measured so", [f for f in faults if f.size is None]),
        ("**3 or more, or not measured so**", [f for f in faults if (f.size or _LARGE) >= _LARGE]),
    ):
        yield f"| {words} | {_share(sum(one.is_found for one in own), len(own))} |"


def by_family(found: Sequence[Result]) -> Iterator[str]:
    """Each family of faults: how many are found, at which step, and by which rules."""
    yield "| fault | written | found | steps late | by |"
    yield "|---|---|---|---|---|"
    for family in dict.fromkeys(one.family for one in found if one.family.is_fault):
        own = [one for one in found if one.family == family]
        late = sorted(one.delay for one in own if one.delay is not None)
        rules = Counter(one.by for one in own if one.is_found)
        named = ", ".join(f"`{rule}` {count}" for rule, count in rules.most_common())
        delays = f"{late[len(late) // 2]} ({late[0]} to {late[-1]})" if late else "-"
        hits = sum(one.is_found for one in own)
        yield f"| {family.name} | {family.written} | {hits} of {len(own)} | {delays} | {named or '-'} |"


def false_alarms(found: Sequence[Result]) -> Iterator[str]:
    """What is said of honest runs, by rule: in how many of them."""
    honest = [one for one in found if not one.family.is_fault]
    yield "| rule | severe | warning | lead |"
    yield "|---|---|---|---|"
    severities = ("severe", "warning", "lead")
    by_rule = {
        rule: [
            sum(any((f.rule, f.severity) == (rule, s) for f in one.findings) for one in honest)
            for s in severities
        ]
        for rule in sorted({f.rule for one in honest for f in one.findings})
    }
    for rule, counts in by_rule.items():
        yield f"| `{rule}` | {' | '.join(map(str, counts))} |"
    total = [sum(any(f.severity == s for f in one.findings) for one in honest) for s in severities]
    yield f"| **any** | {' | '.join(_share(count, len(honest)) for count in total)} |"
    by_family = Counter(
        one.family.name for one in honest if any(f.severity != "lead" for f in one.findings)
    )
    yield ""
    named = ", ".join(f"{name} ({count})" for name, count in by_family.most_common())
    yield f"Honest runs with a warning or a severe finding are of: {named or 'no family'}."
