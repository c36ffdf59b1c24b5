"""The commands that compare runs: `compare`, and `sample-size` for a comparison that is planned."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from board.analysis.contrasts import within_groups
from board.cli import output
from board.cli.opened_runs import (
    listed_columns,
    narrowed_as_asked,
    open_run,
    opened,
    options_of,
)
from board.cli.runs import find_run
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.divergence import Divergence
from board.core.metrics.planned import POWER
from board.core.metrics.seeds import performance_profile
from board.core.metrics.shares import interval, percent, with_interval
from board.errors import ChoiceError, did_you_mean
from board.query.compare.answer import Answer, answer, run_names
from board.query.compare.diverged import when_diverged
from board.query.compare.ends import LAST as LAST_COMMON
from board.query.compare.ends import MetricEnd, run_ends
from board.query.compare.paired import (
    SOLVE_RATE,
    PairedRuns,
    by_environment,
    paired_runs,
    tested_metrics,
)
from board.query.compare.sample_size import LAST, gains_of, group_variances, needed
from board.query.compare.seeds import (
    EXPLAINED as SEEDS_EXPLAINED,
)
from board.query.compare.seeds import (
    SeedGroup,
    differing_settings,
    seed_groups,
    usual_keys,
)
from board.query.open_run import Run

_THRESHOLDS: Final = 21
_DIVERGED: Final = (
    "beyond chance: more than the draw of rollouts explains. Two seeds of one configuration drift apart, "
    "too: to tell settings apart, compare several seeds of each."
)
_OF_CONTRASTS: Final = (
    *("kind", "feature", "winners", "losers", "difference", "low", "high", "groups", "rate"),
)
_INTERVAL: Final = {"low": "95 % from", "high": "to"}


def compare(args: argparse.Namespace) -> int:
    """Prints the paired differences of runs from the first one, and of several their seeds together."""
    runs = [
        narrowed_as_asked(opened(find_run(path), options_of(args)), args)
        for path in (args.run, *args.other)
    ]
    first, *others = runs
    names = run_names(runs)
    shared = {name for run in others for name in run.metrics} & {*first.metrics}
    columns = listed_columns(args.columns, sorted(shared)) if args.columns is not None else None
    pairs = [(run, paired_runs(first, run, columns, args.match, among=others)) for run in others]
    if args.metric not in shared | {"reward"}:  # the default; logs without rewards are compared too
        raise ChoiceError(
            f"the runs have no metric {args.metric!r} in common; "
            f"{did_you_mean(args.metric, sorted(shared))}"
        )
    groups = _seed_groups(runs, args) if len(runs) > 2 else []
    ends = run_ends(runs, [0] * len(runs), columns or [m for m in first.metrics if m in shared])
    if args.json:
        documents = [_paired_document(first, run, paired) for run, paired in pairs]
        rest = {"ends": [_end_document(end, runs) for end in ends]}
        output.print_json({"rows": documents, "seeds": [*map(_seed_document, groups)], **rest})
        return 0
    for (run, paired), name in zip(pairs, names[1:], strict=True):
        output.print_lines([answer(paired).sentence(names[0], name)])
        _print_paired(first, run, paired)
    if groups:
        _print_seeds(groups, args.metric)
    _print_ends(ends, names)
    return 0


def _seed_groups(runs: Sequence[Run], args: argparse.Namespace) -> list[SeedGroup]:
    keys = args.by.split(",") if args.by else usual_keys(runs)
    known = differing_settings(runs)
    if args.by and (unknown := [key for key in keys if key not in known]):
        raise ChoiceError(
            f"--by {unknown[0]} is no setting that differs between these runs; "
            f"there are: {', '.join(known) or 'none'}"
        )
    return seed_groups(runs, keys, args.metric)


def _paired_document(first: Run, other: Run, paired: PairedRuns) -> dict[str, Any]:
    rewards = [name for name in paired.differences if name == SOLVE_RATE or "reward" in name]
    return {
        "a": first.info.name,
        "b": other.info.name,
        "matched": paired.matched,
        "steps": dict(zip("ab", paired.steps, strict=True)) if paired.steps else None,
        "prompts": len(paired.keys),
        "reward_note": paired.reward_note or None,
        "right": paired.right_note or None,
        "answer": _answer_document(answer(paired), first, other),
        "paired": {name: asdict(one) for name, one in paired.differences.items()},
        "by_environment": {
            name: [{"env": one.env, **asdict(one.paired), "rate": one.rate} for one in own]
            for name in rewards
            if (own := by_environment(paired, name))
        },
        "diverged": {
            name: asdict(one)
            for name, one in when_diverged(
                first, other, tested_metrics(first, other, paired)
            ).items()
        },
    }


def _answer_document(said: Answer, first: Run, other: Run) -> dict[str, Any]:
    return {
        "sentence": said.sentence(*run_names([first, other])),
        "outcome": said.outcome,
        "metric": said.metric or None,
    }


def _end_document(end: MetricEnd, runs: Sequence[Run]) -> dict[str, Any]:
    names = [run.info.name for run in runs]
    return {
        "metric": end.metric,
        "steps": end.steps,
        "means": [
            {"run": name, "mean": mean.value, "low": mean.low, "high": mean.high}
            for name, mean in zip(names, end.means, strict=True)
        ],
        "differences": [
            {"run": name, "difference": gap.value, "low": gap.low, "high": gap.high}
            for name, gap in zip(names[1:], end.gaps, strict=True)
        ],
    }


def _print_ends(ends: Sequence[MetricEnd], names: Sequence[str]) -> None:
    """A row for each metric of two runs, or for each metric and run of several."""
    known = [end for end in ends if len(end.steps)]
    if not known:
        output.print_lines(["no step is in all of these runs, so their ends are not compared"])
        return
    output.print_lines(
        [f"means over the last {LAST_COMMON} steps that all have, with 95 % intervals"]
    )
    rows: list[dict[str, str]] = []
    for end in known:
        unit = rollout_metric(end.metric).unit
        means = [mean.text(unit) for mean in end.means]
        gaps = [gap.text(unit, signed=True) for gap in end.gaps]
        about = {"metric": end.metric, "over": end.steps_text}
        if len(names) == 2:
            rows.append(about | {"A": means[0], "B": means[1], "gap": gaps[0]})
        else:
            own = zip(names, means, ["", *gaps], strict=True)
            rows += [about | {"run": name, "mean": mean, "gap": gap} for name, mean, gap in own]
    columns = ("A", "B") if len(names) == 2 else ("run", "mean")
    gap = "B - A" if len(names) == 2 else f"minus {names[0]}"
    output.print_table(rows, ("metric", *columns, "gap", "over"), titles={"gap": gap})


def _print_paired(first: Run, other: Run, paired: PairedRuns) -> None:
    tested = when_diverged(first, other, tested_metrics(first, other, paired))
    if paired.differences:
        count = f"{len(paired.keys):,} prompts in both"
        output.print_lines(
            [f"A {first.info.name}, B {other.info.name}: {paired.steps_text}, {count}"]
        )
    output.print_lines([note for note in (paired.reward_note, paired.right_note) if note])
    rows = [
        {
            "metric": name,
            **(asdict(paired.differences[name]) if name in paired.differences else {}),
            "diverged": _words(tested[name]) if name in tested else "",
        }
        for name in (paired.differences or tested)
    ]
    columns = ("metric", "prompts", "difference", "low", "high", "won", "lost", "equal", "diverged")
    if not paired.differences:
        columns = ("metric", "diverged")
    titles = {"difference": "B - A", **_INTERVAL, "diverged": "beyond chance"}
    output.print_table(rows, columns, titles=titles)
    if any(one.step is not None for one in tested.values()):
        output.print_lines([_DIVERGED])


def _words(one: Divergence) -> str:
    if one.step is None:
        return "no" if one.steps else "not tested"
    since = f"{one.since}" if one.earliest == one.latest else f"{one.earliest} to {one.latest}"
    return f"from step {one.step}, since {since}"


def _seed_document(group: SeedGroup) -> dict[str, Any]:
    thresholds = np.linspace(*_ends(group), _THRESHOLDS)
    middle, low, high = group.interquartile
    return {
        "settings": dict(group.settings),
        "runs": [run.info.name for run in group.runs],
        "steps": group.steps,
        "mean": group.mean,
        "low": group.low,
        "high": group.high,
        "prompts": group.scores.shape[1],
        "interquartile_mean": {"value": middle, "low": low, "high": high},
        "minus_first_group": dict(zip(("value", "low", "high"), group.against_first, strict=True)),
        "profile": {
            "above": thresholds,
            "share": performance_profile(group.scores, thresholds),
        },
    }


def _ends(group: SeedGroup) -> tuple[float, float]:
    known = group.scores[np.isfinite(group.scores)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def _print_seeds(groups: Sequence[SeedGroup], metric: str) -> None:
    prompts = groups[0].scores.shape[1]
    output.print_lines(
        [f"{metric} of runs grouped by settings, over {prompts:,} prompts that all saw"]
    )
    rows = [
        {
            "settings": group.name,
            "runs": len(group.runs),
            "mean at last step": group.mean[-1],
            "interquartile mean": group.interquartile[0],
            "95 % from": group.interquartile[1],
            "to": group.interquartile[2],
            "minus first group": with_interval(*group.against_first, signed=True)
            if np.isfinite(group.against_first[0])
            else "",
        }
        for group in groups
    ]
    output.print_table(rows, tuple(rows[0]))
    output.print_lines([SEEDS_EXPLAINED])


def contrasts(args: argparse.Namespace) -> int:
    """Prints what winners of groups have more of than losers, and the other way around."""
    columns = listed_columns(args.columns, _OF_CONTRASTS)
    run = narrowed_as_asked(open_run(args), args)
    compared = within_groups(run)
    rows = [asdict(one) for one in compared.contrasts] if compared else []
    rows = [{name: row[name] for name in columns or row} for row in rows]
    if args.json:
        names = ("rollouts", "groups")
        output.print_json({**{name: getattr(compared, name, None) for name in names}, "rows": rows})
        return 0
    if compared is None:
        output.say(f"{run.info.name}: it has no groups with rewards")
        return 0
    output.print_lines(
        [
            f"{compared.rollouts:,} rollouts in {compared.groups:,} groups, "
            f"{len(compared.steps):,} steps"
        ]
    )
    titles = {**_INTERVAL, "rate": "false discovery rate"}
    output.print_table(rows, columns or _OF_CONTRASTS, titles=titles)
    return 0


def sample_size(args: argparse.Namespace) -> int:
    """Prints how many prompts show a difference, by the number of rollouts of each."""
    if not args.difference:
        raise ChoiceError(
            "--difference is 0, which no number of prompts can detect; give another number"
        )
    run = narrowed_as_asked(open_run(args), args)
    own = group_variances(run, args.metric)
    gains = None if own is None else gains_of(run, args.metric, args.difference, args.gain_share)
    rows = (
        []
        if own is None or gains is None
        else [asdict(one) for one in needed(own, args.metric, args.difference, gains)]
    )
    if args.json:
        output.print_json(
            {
                "metric": args.metric,
                "difference": args.difference,
                "power": POWER,
                "variance": None if own is None else asdict(own),
                "gain_share": None if gains is None else asdict(gains),
                "rows": rows,
            }
        )
        return 0
    if own is None or gains is None:
        output.say(
            f"{run.info.name}: its variance is not known: no group has several rollouts with this metric"
        )
        return 0
    output.print_lines(
        [
            f"prompts needed to detect a difference of {args.difference:g} in {args.metric} with "
            f"{POWER:.0%} power; variance over the groups of the last {LAST} steps: {own.between:.3g} "
            f"between prompts, {own.within:.3g} between rollouts of a prompt",
            f"same prompts: {percent(gains.share)} of them gain, the others nothing "
            f"({gains.source}); --gain-share sets another share, 1 if all prompts gain",
            "found in: of simulated comparisons; least and most, by which of the prompts gain how much",
        ]
    )
    titles = {
        "rollouts": "rollouts each",
        "paired": "same prompts",
        "paired_power": "found in",
        "unpaired": "other prompts",
        "unpaired_power": "found in ",
    }
    powers = [name for name in titles if name.endswith("_power")]
    printed = [row | {name: _found_in(row[name]) for name in powers} for row in rows]
    output.print_table(printed, tuple(titles), titles=titles)
    return 0


def _found_in(power: tuple[float, float]) -> str:
    """The range of a simulated power in words."""
    low, high = (percent(round(end, 2)) for end in power)
    return low if low == high else interval(*power)
