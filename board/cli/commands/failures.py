"""The command `failures`: causes of failed rollouts, what they have in common, and what they did."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from board.cli import output
from board.cli.opened_runs import narrowed_as_asked, open_run
from board.core.failures.causes import CAUSES, NOT_EARNED
from board.core.metrics.shares import of_many, percent
from board.query.columns import records_of
from board.query.failures import (
    RunEffect,
    cause_counts,
    clusters,
    has_causes,
    headline,
    run_effect,
    shares_by_step,
)

_MOST_LINES = 20


def failures(args: argparse.Namespace) -> int:
    """Prints the causes by step, clusters of equal failures, and the effect on training."""
    run = narrowed_as_asked(open_run(args), args)
    empty = {"rollouts": None, "says": None, "classes": {}, "causes": {}, "by_step": []}
    document = {"run": run.info.name, **empty, "effect": None, "equal_failures": 0, "rows": []}
    if not has_causes(run):
        output.say(
            f"{run.info.name}: no reward, limit or stop reason is recorded to tell causes by"
        )
        if args.json:
            output.print_json(document)
        return 0
    counts, similar, effect = cause_counts(run), clusters(run), run_effect(run)
    head = headline(counts)
    totals = counts.dropna().groupby("cause")["rollouts"].sum()
    if args.json:
        document |= {
            "rollouts": head.rollouts,
            "says": head.sentence,
            "classes": dict(head.by_class),
            "causes": {cause: int(totals[cause]) for cause in CAUSES if cause in totals.index},
            "by_step": records_of(counts.dropna()),
            "effect": None if effect is None else _document(effect),
            "equal_failures": similar.total,
            "rows": records_of(similar.table),
        }
        output.print_json(document)
        return 0
    output.print_lines([f"{run.info.name}: {head.sentence}"])
    shares = shares_by_step(counts)
    rows = [
        {
            "cause": cause,
            "rollouts": int(totals[cause]),
            "share": percent(int(totals[cause]) / head.rollouts),
            "worst step": int(shares.index[int(shares[cause].argmax())]),
            "its share": percent(float(shares[cause].max())),
            "meaning": CAUSES[cause],
        }
        for cause in CAUSES
        if cause in totals.index
    ]
    output.print_table(rows, tuple(rows[0]) if rows else ())
    if len(similar.table):
        output.print_lines(["", f"equal failures, the first of {similar.total:,}"])
        columns = ("cause", "rollouts", "prompts", "first_step", "last_step", "evidence")
        lines = similar.table.head(_MOST_LINES)[[*columns]].to_dict("records")
        output.print_table([{str(k): v for k, v in row.items()} for row in lines], columns)
    if effect is not None:
        output.print_lines(["", *_effect_lines(effect)])
    return 0


def _document(run_effect: RunEffect) -> dict[str, Any]:
    effect = run_effect.effect
    arrays = ("advantages", "valid_advantages")
    values = {name: value for name, value in asdict(effect).items() if name not in arrays}
    recognized = {"convention": run_effect.convention, "is_recognized": run_effect.is_recognized}
    return {"causes": [*NOT_EARNED], **recognized, **values}


def _number(value: float) -> str:
    return "not recorded" if value != value else f"{value:.4g}"


def _effect_lines(run_effect: RunEffect) -> list[str]:
    own = run_effect.effect
    lines = [
        f"without them: reward {_number(own.trained.reward)} -> {_number(own.without.reward)}, "
        f"solve rate {percent(own.trained.solve_rate)} -> {percent(own.without.solve_rate)}, "
        f"zero-std groups {percent(own.trained.zero_std)} -> {percent(own.without.zero_std)}",
        f"groups whose advantages they changed: {of_many(own.changed, own.groups)}; groups with "
        f"failures only: {own.only_failed:,}",
    ]
    if own.changed:
        lines.append(
            f"the baseline of these moved by {own.baseline_shift:.4g}, the advantages of the others by "
            f"{own.moved:.4g}; too large: {of_many(own.too_large, own.compared)}"
        )
    lines.append(
        f"their share of the sum of |advantage|: {percent(own.weight_share)} ({run_effect.convention})"
    )
    return lines
