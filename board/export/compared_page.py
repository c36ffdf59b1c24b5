"""Runs against one another on a page: what the shared prompts say, curves, and where each ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from board.charts.palette import category
from board.core.metrics.definitions import reward_parts, rollout_metric
from board.core.metrics.shares import counted, with_interval
from board.export.curve_svg import step_curve
from board.export.pages import PageOptions
from board.export.run_pages import limited
from board.export.sheet import Sheet, StaticPage, source_of
from board.query.compare.answer import answer, answer_of, metric_name, run_names, summary
from board.query.compare.ends import EXPLAINED, LAST, run_ends
from board.query.compare.matching import Match
from board.query.compare.paired import PairedRuns, paired_runs
from board.query.open_run import Run


def compared_page(
    runs: Sequence[Run],
    columns: Sequence[str],
    shifts: Sequence[int],
    matched: Match,
    options: PageOptions,
) -> StaticPage:
    """Several runs against the first one. shifts: steps that are added to those of each run. matched: how
    the steps of a pair are chosen.
    """
    sheet, names = options.sheet(), run_names(runs)
    against = runs[1].info.name if len(runs) == 2 else counted(len(runs) - 1, "run")
    title = f"{runs[0].info.name} against {against}"
    sides = zip(names, shifts, strict=True)
    moved = ", ".join(f"steps of {sheet.line(name)} + {by}" for name, by in sides if by)
    parts = {tuple(reward_parts(run.metrics)) for run in runs}
    words = "The reward functions differ: rewards with different parts are different quantities."
    sheet.heading(sheet.line(title), [moved, words if len(parts) > 1 else ""])
    if len(runs) == 2:
        moved_by = shifts[1] - shifts[0]
        _add_pair(sheet, runs, names, paired_runs(runs[0], runs[1], None, matched, moved_by))
    else:
        _add_pairs(sheet, runs, names, shifts, matched)
    columns = limited(sheet, columns)
    for column in columns:
        curves = [
            replace(curve, name=name, key=category(place)[0], steps=curve.steps + shifts[place])
            for place, (run, name) in enumerate(zip(runs, names, strict=True))
            if (curve := step_curve(run, column)) is not None
        ]
        if curves:
            sheet.curve(curves, None)
    _add_ends(sheet, runs, names, shifts, columns)
    return sheet.page(title, " ".join(source_of(sheet, run) for run in runs))


def _add_pair(sheet: Sheet, runs: Sequence[Run], names: Sequence[str], paired: PairedRuns) -> None:
    """The answer, and the difference of each metric."""
    sheet.add(f"<p><b>{sheet.line(answer(paired).sentence(*names), 600)}</b></p>")
    if not paired.differences:
        return
    rows = [
        [
            sheet.line(metric_name(name)),
            with_interval(one.difference, one.low, one.high, signed=True),
            *(f"{count:,}" for count in (one.prompts, one.won, one.lost, one.equal)),
        ]
        for name, one in paired.differences.items()
    ]
    a, b = (sheet.line(run.info.name) for run in runs)
    sheet.add(
        f"<h3>Prompt by prompt</h3><p class=mute>{sheet.line(paired.steps_text)}. A: {a}, B: {b}. "
        f"{sheet.line(paired.reward_note)} {sheet.line(paired.right_note)}</p>"
    )
    heads = ("metric", "B - A (95 %)", "prompts", "B higher", "B lower", "equal")
    sheet.table(heads, rows, (False, *[True] * 5))


def _add_pairs(
    sheet: Sheet,
    runs: Sequence[Run],
    names: Sequence[str],
    shifts: Sequence[int],
    matched: Match,
) -> None:
    """The answers of all runs against the first one, in a sentence each."""
    first, *others = runs
    moves = [shift - shifts[0] for shift in shifts[1:]]
    answers = [answer_of(first, run, matched, by) for run, by in zip(others, moves, strict=True)]
    sheet.add(f"<p><b>{sheet.line(summary(names[0], answers), 600)}</b></p>")
    sentences = (
        sheet.line(one.sentence(names[0], name), 600)
        for one, name in zip(answers, names[1:], strict=True)
    )
    sheet.add(f"<ul>{''.join(f'<li>{sentence}</li>' for sentence in sentences)}</ul>")


def _add_ends(
    sheet: Sheet,
    runs: Sequence[Run],
    names: Sequence[str],
    shifts: Sequence[int],
    columns: Sequence[str],
) -> None:
    ends = run_ends(runs, shifts, columns)
    sheet.add(f"<h3>Metrics at the end: means over the last {LAST} steps that all have</h3>")
    if not any(len(end.steps) for end in ends):
        sheet.add("<p>No step is in all of these runs, so their ends are not compared.</p>")
        return
    rows: list[list[str]] = []
    for end in ends:
        metric = rollout_metric(end.metric)
        means = [mean.text(metric.unit) for mean in end.means]
        gaps = [gap.text(metric.unit, signed=True) for gap in end.gaps]
        rows.append([sheet.line(metric.label_with_unit, 60), *means, *gaps, end.steps_text])
    marked = [*map(sheet.line, names)]
    gaps = [f"{name} - {marked[0]}" for name in marked[1:]]
    sheet.table(
        ["metric", *marked, *gaps, "over"], rows, [False, *[True] * (2 * len(runs) - 1), False]
    )
    sheet.add(f"<p class=mute>{sheet.line(EXPLAINED, 400)}</p>")
