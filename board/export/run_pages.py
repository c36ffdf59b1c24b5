"""The pages that are about whole runs: curves and tables of what the dashboard has on its pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from board.charts.palette import category
from board.core.failures.causes import CAUSES, Cause
from board.core.metrics.definitions import Metric, reward_parts, rollout_metric
from board.core.metrics.shares import counted, number, percent
from board.core.sampling import evenly_spaced
from board.export.curve_svg import StepCurve, step_curve
from board.export.pages import (
    PageOptions,
    add_curves,
    add_means,
    add_rollouts,
    add_rows,
    addresses_of,
)
from board.export.sheet import Sheet, StaticPage, source_of
from board.query.failures import cause_counts, clusters, headline, shares_by_step
from board.query.open_run import Run
from board.query.prompts import RunPrompts, prompt_table, run_prompts
from board.query.rollouts import Sorting, at_step, frame

_MOST_ROWS: Final = 200
_MOST_CURVES: Final = 16
_MOST_NAMES: Final = 12
_MOST_PROMPTS: Final = 30
_MOST_RUNS: Final = 2000
_MOST_ROLLOUTS: Final = 4
_OF_MISMATCH: Final = ("step", "index", "reward", "response_tokens", "response", "mismatch_kl_mean")
_USUAL: Final = (
    *("k3_mean", "response_tokens", "response_chars", "entropy_mean", "is_truncated"),
    *("mismatch_kl_mean", "zero_std_group_fraction", "ref_reward", "reward_gap"),
)


def overview_page(run: Run, step: int | None, options: PageOptions) -> StaticPage:
    """How a run went: its curves, and a table of steps. step: marked in the curves."""
    sheet = options.sheet()
    title = f"Overview of {run.info.name}"
    sheet.heading(sheet.line(title))
    rewards = [name for name in ("reward", *reward_parts(run.metrics)) if name in run.metrics]
    usual = [name for name in _USUAL if name in run.metrics or name in run.steps]
    columns = limited(sheet, [*dict.fromkeys((*rewards, *usual, *run.metrics))])
    curves = {name: curve for name in columns if (curve := step_curve(run, name)) is not None}
    if len(run.counts) > 1:
        for curve in curves.values():
            sheet.curve([curve], step)
    _add_steps(sheet, run, curves)
    return sheet.page(title, source_of(sheet, run))


def limited(sheet: Sheet, columns: Sequence[str]) -> Sequence[str]:
    """As many of the columns as a page draws curves of; those that are left out are noted by name."""
    if cut := columns[_MOST_CURVES:]:
        named = [rollout_metric(column).label for column in cut[:_MOST_NAMES]]
        more = [f"{len(cut) - _MOST_NAMES} more"] if len(cut) > _MOST_NAMES else []
        sheet.left_out.append(f"{len(cut)} of {len(columns)} curves ({', '.join(named + more)})")
    return columns[:_MOST_CURVES]


def _add_steps(sheet: Sheet, run: Run, curves: dict[str, StepCurve]) -> None:
    """Means by step; of many steps some, evenly spaced."""
    steps = np.array([*run.counts], np.int64)
    if not len(steps):
        return
    chosen = steps[evenly_spaced(len(steps), _MOST_ROWS)]
    words = "Steps" if len(chosen) == len(steps) else f"{len(chosen)} of {len(steps):,} steps"
    heads = [
        "step",
        "rollouts",
        *(sheet.line(one.metric.label_with_unit, 60) for one in curves.values()),
    ]
    rows = [
        [str(step), f"{run.counts[step]:,}"]
        + [number(_mean_at(one, step), one.metric.unit) for one in curves.values()]
        for step in chosen.tolist()
    ]
    sheet.add(f"<h3>{words}: means over their rollouts</h3>")
    sheet.table(heads, rows, [True] * len(heads))


def _mean_at(curve: StepCurve, step: int) -> float:
    at = int(np.searchsorted(curve.steps, step))
    is_there = at < len(curve.steps) and curve.steps[at] == step
    return float(curve.mean[at]) if is_there else float("nan")


def failures_page(run: Run, options: PageOptions) -> StaticPage:
    """Why rollouts failed: rollouts by cause, their shares by step, and failures with equal evidence."""
    sheet, counts = options.sheet(), cause_counts(run)
    title = f"Failures of {run.info.name}"
    head = headline(counts)
    total = head.rollouts
    sheet.heading(sheet.line(title), [f"{head.sentence}."])
    by_cause = counts.dropna().groupby("cause")["rollouts"].sum()
    rows = [_cause_row(cause, int(by_cause.get(cause, 0)), total) for cause in CAUSES]
    heads = ("cause", "rollouts", "share", "what it is")
    sheet.table(heads, [row for row in rows if row], (False, True, True, False))
    shares = shares_by_step(counts)
    if len(shares) > 1 and len(shares.columns):
        _add_shares(sheet, shares)
    similar = clusters(run)
    sheet.add("<h3>Equal failures, the most rollouts first</h3>")
    cells = [
        [
            sheet.line(one["cause"]),
            f"{one['rollouts']:,}",
            f"{one['first_step']} to {one['last_step']}",
            sheet.line(one["evidence"], 240),
        ]
        for one in similar.table.head(_MOST_ROWS).to_dict("records")
    ]
    heads = ("cause", "rollouts", "steps", "evidence")
    if cells:
        sheet.table(heads, cells, (False, True, False, False), similar.total)
    else:
        sheet.add("<p>No failure other than limits and wrong answers.</p>")
    return sheet.page(title, source_of(sheet, run))


def _cause_row(cause: Cause, count: int, total: int) -> list[str]:
    """All rollouts are counted: a share of a sample, with an interval, it is not."""
    if not count:
        return []
    return [cause, f"{count:,}", percent(count / total), CAUSES[cause]]


def _add_shares(sheet: Sheet, shares: pd.DataFrame) -> None:
    unknown = np.full(len(shares), np.nan)
    steps = shares.index.to_numpy(np.int64)
    metric = Metric("cause", "Causes by step", "share")
    curves = [
        StepCurve(metric, category(place)[0], steps, values, unknown, unknown, name)
        for place, (name, values) in enumerate(
            (str(name), shares[name].to_numpy(np.float64)) for name in shares
        )
    ]
    sheet.curve(curves, None, "Share of the rollouts of each step.")


def prompts_page(run: Run, options: PageOptions) -> StaticPage:
    """The prompts that training lost, won or never solved, and the most volatile ones."""
    sheet, prompts = options.sheet(), run_prompts(run)
    title = f"Prompts of {run.info.name}"
    if prompts is None:
        sheet.heading(sheet.line(title), ["Prompts or rewards are not recorded."])
        return sheet.page(title, source_of(sheet, run))
    sheet.heading(
        sheet.line(title),
        [counted(len(prompts.keys), "prompt"), f"{sheet.line(prompts.judged.text)}."],
    )
    volatile = np.argsort(-np.nan_to_num(prompts.volatility, nan=-1.0), kind="stable")
    lists = {
        "Regressed": np.flatnonzero(prompts.regressed),
        "Newly solved": np.flatnonzero(prompts.newly_solved),
        "Never solved": np.flatnonzero(prompts.never_solved),
        "Most volatile": volatile[np.isfinite(prompts.volatility[volatile])],
    }
    for name, places in lists.items():
        sheet.add(f"<h3>{name}: {counted(len(places), 'prompt')}</h3>")
        if len(places):
            _add_prompts(sheet, run, prompts, places)
    return sheet.page(title, source_of(sheet, run))


def _add_prompts(sheet: Sheet, run: Run, prompts: RunPrompts, places: Any) -> None:
    first = places[:_MOST_PROMPTS]
    table = prompt_table(run, tuple(prompts.keys[first].tolist()))
    rows = [
        [
            sheet.line(text, 200),
            f"{prompts.earlier_right[at]} of {prompts.earlier_graded[at]}",
            f"{prompts.later_right[at]} of {prompts.later_graded[at]}",
            number(float(prompts.volatility[at])),
            str(prompts.steps[at]),
            f"{rollouts:,}",
        ]
        for text, rollouts, at in zip(
            table["prompt"], table["rollouts"], first.tolist(), strict=True
        )
    ]
    heads = ("prompt", "right earlier", "right later", "volatility", "steps", "rollouts")
    sheet.table(heads, rows, (False, *[True] * 5), len(places))


def mismatch_page(run: Run, step: int, options: PageOptions) -> StaticPage:
    """Sampler against trainer: curves, the means of a step, and its rollouts with the most mismatch."""
    at = at_step(run, step)
    columns = [name for name in _OF_MISMATCH if name in (run.whole or run).columns]
    largest = Sorting(_OF_MISMATCH[-1], descending=True)
    rows = frame(at, columns, largest, limit=_MOST_ROLLOUTS)
    sheet, options = options.sheet(), replace(options, metric=options.metric or "mismatch_kl")
    own = add_rollouts(sheet, run, addresses_of(rows), options)
    title = f"Mismatch of sampler and trainer in {run.info.name}, step {step}"
    sheet.heading(sheet.line(title))
    add_curves(sheet, run, [name for name in run.metrics if "mismatch" in name], step)
    add_means(sheet, run, step)
    sheet.add(f"<h3>Rollouts of step {step} with the most mismatch</h3>")
    add_rows(sheet, rows, own)
    return sheet.page(title, source_of(sheet, run))


class PageTable(NamedTuple):
    """A table of texts and numbers. units: by column the unit of its numbers; None for one of texts."""

    title: str
    heads: Sequence[str]
    units: Sequence[str | None]
    rows: Sequence[Sequence[str | float]]


def tables_page(
    run: Run, what: str, words: str, tables: Sequence[PageTable], options: PageOptions
) -> StaticPage:
    """Tables about a run, of each the first rows. what: the headline; words: a line below it."""
    sheet = options.sheet()
    title = f"{what} of {run.info.name}"
    sheet.heading(sheet.line(title), [sheet.line(words, 600)])
    for one in tables:
        rows = [
            [
                sheet.line(cell, 400) if isinstance(cell, str) else number(cell, unit or "")
                for cell, unit in zip(row, one.units, strict=True)
            ]
            for row in one.rows[:_MOST_ROWS]
        ]
        sheet.add(f"<h3>{sheet.line(one.title)}</h3>")
        heads = [*map(sheet.line, one.heads)]
        sheet.table(heads, rows, [unit is not None for unit in one.units], len(one.rows))
    return sheet.page(title, source_of(sheet, run))


class RunsTable(NamedTuple):
    """Runs as a page shows them: heads of columns, the first of which is the name, and a row for each.
    numeric: by column. chosen: by what they were searched and filtered, in words; total: of how many runs
    these are. unread: names of those among them that were not read yet. as_of: since when the numbers may
    be others, in words.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    total: int
    chosen: str = ""
    unread: Sequence[str] = ()
    as_of: str = ""


def runs_page(runs: RunsTable, folder: str, options: PageOptions) -> StaticPage:
    """The runs of a folder in one table."""
    sheet, title = options.sheet(), f"Runs of {folder}"
    listed = len(runs.rows)
    count = counted(listed, "run") if listed == runs.total else f"{listed:,} of {runs.total:,} runs"
    sheet.heading(sheet.line(title), [count, sheet.line(runs.chosen, 400), sheet.line(runs.as_of)])
    rows = [[sheet.line(cell, 200) for cell in row] for row in runs.rows[:_MOST_RUNS]]
    sheet.table([sheet.line(head, 60) for head in runs.heads], rows, runs.numeric, listed)
    if runs.unread:
        sheet.add(f"<p>Not read yet: {sheet.line(', '.join(runs.unread), 2000)}.</p>")
    return sheet.page(title, sheet.line(f"Runs under {folder}."))
