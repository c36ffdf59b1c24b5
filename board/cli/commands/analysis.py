"""The commands that read rollouts of the log again: `show`, one of them whole, and `findings`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from board.analysis.rollout import OpenRollout, open_rollout
from board.cli import output
from board.cli.opened_runs import (
    narrowed_as_asked,
    open_run,
    opened,
    options_of,
    trainer_metrics,
)
from board.cli.runs import find_run
from board.cli.terminal import one_line, printable
from board.core.findings.finding import Evidence, Finding, in_words
from board.core.findings.rules import RULES
from board.errors import ChoiceError, did_you_mean
from board.query.open_run import Run
from board.query.trainer.agreement import agreements, is_what_was_trained_on

if TYPE_CHECKING:
    from board.analysis.findings import Diagnosis


_MOST_LISTED: Final = 20_000
"""A table of more tokens is read by nobody: it has those at both ends."""
_LISTED_ENDS: Final = 1000
_MOST_WHOLE: Final = 1 << 62
"""Smaller numbers are those of an array of integers."""


def show(args: argparse.Namespace) -> int:
    """Prints one rollout whole."""
    run = open_run(args)
    row = run.row(args.step, args.index)
    document = _document(run, row, open_rollout(run, args.step, args.index))
    if args.json:
        output.print_json({"rows": [document]})
    else:
        _print_rollout(document)
    return 0


def _document(run: Run, row: Mapping[str, Any], rollout: OpenRollout) -> dict[str, Any]:
    """A rollout as one JSON object; arrays are [R] unless they were recorded otherwise."""
    record = rollout.record
    return {
        "run": run.info.name,
        "step": rollout.step,
        "index": rollout.index,
        "file": run.info.path_of(run.info.files[int(row["file"])]),
        "line": int(row["line"]),
        "facts": {**record.ids, **record.scores},
        "texts": dict(record.texts),
        "messages": list(record.messages),
        "segments": list(record.segments),
        "prompt_ids": _whole_numbers(record.prompt_ids),
        "prompt_tokens": rollout.prompt_tokens,
        "response_ids": _whole_numbers(record.response_ids),
        "tokens": rollout.listed_tokens,
        "tokens_are_ids": rollout.tokens_are_ids,
        "pad_tokens": record.pad_tokens,
        "metrics": dict(rollout.metrics),
        "extras": dict(record.extras),
        "remarks": [asdict(remark) for remark in rollout.remarks],
    }


def _whole_numbers(array: Any) -> list[int | None] | None:
    if array is None:
        return None
    values = array.values()
    if np.isfinite(values).all() and np.abs(values).max(initial=0) < _MOST_WHOLE:
        return values.astype(np.int64).tolist()
    return [int(n) if math.isfinite(n) else None for n in values.tolist()]


def _print_rollout(whole: Mapping[str, Any]) -> None:
    place = f"{whole['file']}:{whole['line']}"
    head = [("run", whole["run"]), ("step", whole["step"]), ("index", whole["index"])]
    output.print_fields([*head, ("line", place), *whole["facts"].items()])
    for name, text in whole["texts"].items():
        print(f"\n== {one_line(name)}\n{printable(text)}")
    if tokens := whole["tokens"]:
        # An array of another length has no place beside them.
        aligned = {name: v for name, v in whole["metrics"].items() if len(v) == len(tokens)}
        is_cut = len(tokens) > _MOST_LISTED
        ends = (range(_LISTED_ENDS), range(len(tokens) - _LISTED_ENDS, len(tokens)))
        rows = [
            {"token": i, "piece": repr(tokens[i]), **{n: float(v[i]) for n, v in aligned.items()}}
            for i in (chain(*ends) if is_cut else range(len(tokens)))
        ]
        left_out = f"; {len(tokens) - len(rows):,} between are left out, --json has them"
        print(f"\n== tokens{left_out if is_cut else ''}")
        output.print_table(rows, ("token", "piece", *aligned))
    for remark in whole["remarks"]:
        print(f"\n{remark['severity']}: {remark['reason']}; {remark['hint']}")


def diagnosed(args: argparse.Namespace) -> tuple[Run, Diagnosis]:
    """The run that the arguments name, narrowed as they ask, and what the rules find in it."""
    from board.analysis.findings import diagnose, own_thresholds, with_trainer
    from board.query.trainer.changes import trainer_changes, trainer_steps

    info = find_run(args.run, args.source)
    limits = own_thresholds(info, args.thresholds)
    if limits.error:
        raise ChoiceError(limits.error)
    run = narrowed_as_asked(opened(info, options_of(args)), args)
    with closing(output.ProgressLine()) as progress:
        diagnosis = diagnose(run, limits.thresholds, tokens=not args.index_only, progress=progress)
    if is_what_was_trained_on(run):
        trainer = trainer_metrics(run, args)
        compared = agreements(run, trainer)
        changed_at = trainer_steps(trainer), trainer_changes(trainer, compared)
        diagnosis = with_trainer(diagnosis, compared, limits.thresholds, changed_at)
    return run, diagnosis


def findings(args: argparse.Namespace) -> int:
    """Prints the findings and which rules checked the run; 1 when a finding is severe, 3 when a rule that
    is required did not check the run.
    """
    required = _known_rules(args.require or ())
    run, diagnosis = diagnosed(args)
    counts = diagnosis.counts
    if args.json:
        output.print_json(diagnosis.document(run))
    else:
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        output.print_lines([f"{run.info.name}: {words}"])
        for finding in diagnosis.findings:
            output.print_lines(_lines(finding))
        print(
            f"\nread {diagnosis.rollouts_read:,} rollouts in {diagnosis.steps_read} of "
            f"{diagnosis.steps} steps; findings are leads, not verdicts"
        )
        output.print_lines(_rule_lines(diagnosis))
    unchecked = [
        rule for rule in diagnosis.rules if rule.rule in required and rule.state != "checked"
    ]
    for rule in unchecked:
        output.say(
            f"--require {rule.rule}: {rule.state}{f', {rule.missing}' if rule.missing else ''}"
        )
    return 1 if counts["severe"] else 3 if unchecked else 0


def _known_rules(names: Sequence[str]) -> frozenset[str]:
    """The names of rules. Raises ChoiceError for a name that no rule has."""
    known = [rule.name for rule in RULES]
    for name in names:
        if name not in known:
            raise ChoiceError(f"--require {name}: no such rule; {did_you_mean(name, known)}")
    return frozenset(names)


def _rule_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Which rules checked the run, and in a line each what every other one lacks."""
    silence = "" if diagnosis.findings else "Nothing stood out. "
    yield f"{silence}{diagnosis.checked_words}"
    checked = [rule.rule for rule in diagnosis.rules if rule.state == "checked"]
    yield f"checked: {', '.join(checked) or 'none'}"
    for rule in diagnosis.rules:
        if rule.state != "checked":
            yield f"{rule.state}: {rule.rule}{f' ({rule.missing})' if rule.missing else ''}"


def _lines(finding: Finding) -> Iterator[str]:
    """A finding as the terminal shows it, after an empty line."""
    indent = " " * 8
    steps = f"{finding.steps_text}: " if finding.steps_text else ""
    yield ""
    yield f"{finding.severity:8}{steps}{finding.title}"
    yield f"{indent}{finding.text}"
    if finding.value is not None and finding.threshold is not None:
        value = in_words(finding.value, finding.unit)
        bound = in_words(finding.threshold, finding.unit)
        yield f"{indent}{value}; threshold {bound} [{finding.rule}]"
    yield f"{indent}source: {finding.source}"
    if finding.cause:
        yield f"{indent}may follow from [{finding.cause}]"
    if finding.evidence:
        yield f"{indent}see {'; '.join(map(_evidence_text, finding.evidence))}"


def _evidence_text(evidence: Evidence) -> str:
    place = f"step {evidence.step} index {evidence.index}"
    if evidence.token is not None:
        return f"{place} token {evidence.token} {evidence.piece!r}"
    return f"{place} ({evidence.piece})" if evidence.piece else place
