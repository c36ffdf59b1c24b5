"""Runs of one setup as one row: the means over their seeds, with intervals, until they are unfolded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from board.analysis.run_summary import LastMean, RunSummary
from board.components.run_table import Cell, RunGroup, RunRow
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.seeds import LEAST, over_seeds
from board.core.repeated_runs import is_seed, shared_name
from board.query.run_filter import number_in
from board.views.runs.columns import setting_text
from board.views.runs.names import id_of
from board.views.runs.rows import line_places, setting_cell, short_number
from board.views.shared.text import counted, one_line

_MEANS: Final = {"reward": "reward", "kl": "k3_mean", "truncated": "is_truncated"}
"""Column of the table -> metric."""
_STATES: Final = ("error", "live", "stale", "unchanged", "ended")
"""A group is in the first of these states that one of its runs is in."""
_ABSENT: Final = object()


class MeanOverRuns(NamedTuple):
    """The mean over so many runs, n, that have a value, and how far its 95 % interval reaches to either
    side; None for fewer than LEAST of them.
    """

    mean: float
    n: int
    reach: float | None


def means_over_runs(groups: Sequence[Sequence[float | None]]) -> list[MeanOverRuns | None]:
    """Of each group of runs the mean over those that have a value, by Student's t as in Compare; None
    where none has.
    """
    curves = np.full((max(map(len, groups), default=0), len(groups)), np.nan)
    for place, values in enumerate(groups):
        curves[: len(values), place] = [np.nan if one is None else one for one in values]
    mean, _, high = (own.tolist() for own in over_seeds(curves))
    counts = np.isfinite(curves).sum(axis=0).tolist()
    return [
        MeanOverRuns(mean[n], counts[n], high[n] - mean[n] if counts[n] >= LEAST else None)
        if counts[n]
        else None
        for n in range(len(groups))
    ]


def together(
    places: Sequence[int], rows: Sequence[RunRow], summaries: Sequence[RunSummary | None]
) -> list[tuple[str, list[int]]]:
    """Those of the places whose runs have one setup and format, two of them or more, with a name for
    each set. rows, summaries: of all runs.
    """
    sets: dict[tuple[str, str], list[int]] = {}
    for place in places:
        summary, of_format = summaries[place], str(rows[place].cells["format"].get("text"))
        if summary is not None and summary.setup:
            sets.setdefault((summary.setup, of_format), []).append(place)
    # No run has such a name: paths below the folder do not begin with a slash.
    return [(f"/{'/'.join(key)}", own) for key, own in sets.items() if len(own) > 1]


def folded(
    places: Sequence[int],
    rows: Sequence[RunRow],
    summaries: Sequence[RunSummary | None],
    wanted: Sequence[str],
) -> list[RunGroup]:
    """The groups among the rows at these places. wanted: paths of settings that have a column."""
    sets = together(places, rows, summaries)
    known = [
        [summary for place in members if (summary := summaries[place]) is not None]
        for _, members in sets
    ]
    means = {
        column: means_over_runs([[_mean_of(one, column) for one in own] for own in known])
        for column in _MEANS
    }
    return [
        _group(
            name,
            members,
            [rows[place] for place in members],
            known[n],
            _cells([rows[place] for place in members], known[n], wanted)
            | {column: _mean_cell(known[n], column, over[n]) for column, over in means.items()},
        )
        for n, (name, members) in enumerate(sets)
    ]


def _mean_of(summary: RunSummary, column: str) -> float | None:
    recorded: LastMean | None = getattr(summary, column)
    return None if recorded is None else recorded.mean


def _group(
    name: str,
    members: Sequence[int],
    rows: Sequence[RunRow],
    summaries: Sequence[RunSummary],
    cells: Mapping[str, Cell],
) -> RunGroup:
    counts = Counter(row.state for row in rows)
    states = [state for state in _STATES if counts[state]]
    seeds = {_seeds_of(one) for one in summaries}
    is_by_seed = len(seeds) == len(summaries) and all(seeds)
    return RunGroup(
        name=name,
        label=one_line(shared_name([row.label for row in rows]), 400),
        about=counted(len(rows), "seed" if is_by_seed else "run"),
        members=members,
        state=states[0] if states else rows[0].state,
        words=", ".join(f"{counts[state]} {state}" for state in states),
        cells=cells,
    )


def _seeds_of(summary: RunSummary) -> tuple[tuple[str, str], ...]:
    return tuple(
        (path, setting_text(value)) for path, value in summary.settings.items() if is_seed(path)
    )


def _cells(
    rows: Sequence[RunRow], summaries: Sequence[RunSummary], wanted: Sequence[str]
) -> dict[str, Cell]:
    newest = max((row.cells["changed"] for row in rows), key=lambda cell: cell.get("at", 0.0))
    worst = max((row.cells["finding"] for row in rows), key=_finding_rank)
    cells: dict[str, Cell] = {
        "format": rows[0].cells["format"],
        "changed": newest,
        "steps": _range_cell([one.steps for one in summaries]),
        "rollouts": _sum_cell([one.rollouts for one in summaries]),
        "finding": {**worst, "help": f"the worst of {counted(len(rows), 'run')}: unfold them"},
        "problems": _problems_cell(summaries),
    }
    return cells | {id_of(path): _values_cell(summaries, path) for path in wanted}


def _finding_rank(cell: Cell) -> float:
    rank = cell.get("sort")
    return float(rank) if isinstance(rank, int | float) else 0.0


def _range_cell(values: Sequence[int]) -> Cell:
    low, high = min(values), max(values)
    text = f"{low:,}" if low == high else f"{low:,}–{high:,}"
    return {"text": text, "sort": high, "help": "steps of the shortest and of the longest run"}


def _sum_cell(values: Sequence[int]) -> Cell:
    total = sum(values)
    return {
        "text": f"{total:,}",
        "sort": total,
        "help": f"of {counted(len(values), 'run')} together",
    }


def _problems_cell(summaries: Sequence[RunSummary]) -> Cell:
    total = sum(one.lost + one.partial for one in summaries)
    if not total:
        return {"text": "none", "tone": "missing", "sort": 0}
    tone = "severe" if any(one.lost for one in summaries) else "warning"
    return {"text": f"{total:,}", "tone": tone, "sort": total, "help": "of all runs together"}


def _mean_cell(summaries: Sequence[RunSummary], column: str, over: MeanOverRuns | None) -> Cell:
    """The mean over the runs with its interval, and the lines of all of them in one box."""
    if over is None:
        return {"text": "not recorded", "sort": None, "tone": "missing"}
    metric = rollout_metric(_MEANS[column])
    cell: Cell = {
        "text": short_number(over.mean, metric.unit),
        "sort": over.mean,
        "help": f"{metric.label}: {_about(over, len(summaries), metric.unit)}",
    }
    reach = _reach_text(over, metric.unit)
    few = f"n = {over.n}" if over.n < len(summaries) else ""
    if note := ", ".join(filter(None, (reach, few))):
        cell |= {"note": note}
    lines = [getattr(one, f"{column}_line", ()) for one in summaries]
    drawn = [line for line in lines if len(line) > 1]
    return cell | {"lines": line_places(drawn)} if drawn else cell


def _reach_text(over: MeanOverRuns, unit: str) -> str:
    if over.reach is None:
        return ""
    return f"± {100 * over.reach:.2g}" if unit == "share" else f"± {over.reach:.2g}"


def _about(over: MeanOverRuns, runs: int, unit: str) -> str:
    of = counted(over.n, "run") if over.n == runs else f"the {over.n} of {runs} runs with a value"
    words = f"mean over {of} of their means over the last steps"
    if over.reach is None:
        return f"{words}; fewer than {LEAST} runs say nothing of their spread"
    ends = np.array([over.mean - over.reach, over.mean + over.reach])
    # Of a share no more than what is possible.
    ends = (short_number(end, unit) for end in (np.clip(ends, 0, 1) if unit == "share" else ends))
    return f"{words}, 95 % {' to '.join(ends)} (Student's t, n = {over.n} runs)"


def _values_cell(summaries: Sequence[RunSummary], path: str) -> Cell:
    """The value of a setting in all of the runs, or its values."""
    values = [one.settings.get(path, _ABSENT) for one in summaries]
    texts = [*dict.fromkeys("–" if value is _ABSENT else setting_text(value) for value in values)]
    if len(texts) == 1:
        return setting_cell(summaries[0].settings, path)
    numbers = [(n, setting_text(one)) for one in values if (n := number_in(one)) is not None]
    numbers.sort()
    is_range = len(numbers) == len(values)
    text = f"{numbers[0][1]} … {numbers[-1][1]}" if is_range else counted(len(texts), "value")
    sort = numbers[0][0] if numbers else None
    return {"text": text, "sort": sort, "help": one_line(", ".join(texts), 400), "tone": "missing"}
