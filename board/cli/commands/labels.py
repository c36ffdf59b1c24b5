"""The commands `label`, which writes one, and `labels`: counts, shares of samples, and agreement."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from board.cli import output
from board.cli.opened_runs import narrowed_as_asked, open_run
from board.core.expression_tree import text_literal
from board.core.labels.entries import LONGEST_NOTE, RolloutLabels
from board.core.labels.names import FILE as NAMES_FILE
from board.core.labels.shares import Agreement
from board.core.metrics.shares import interval, of_many
from board.errors import ChoiceError, did_you_mean
from board.index.label_files import label_names
from board.index.segments import LABEL_ORDER
from board.query.labels.matching import label_indices, set_label, undo_last, usual_author
from board.query.labels.samples import (
    Sample,
    agreements,
    draw_sample,
    label_counts,
    next_sample_name,
    samples_of,
)
from board.query.open_run import Run


def label(args: argparse.Namespace) -> int:
    """Writes a label, a note or that of a span; or undoes the last one."""
    run, author = open_run(args), args.author or usual_author()
    if args.undo:
        last = undo_last(run, author)
        if last is None:
            raise ChoiceError(f"{author} has no label in {run.info.name} to undo")
        output.say(f"undone: {last.kind} {last.value!r} of step {last.step}, index {last.index}")
        return 0
    if args.step is None or args.index is None:
        raise ChoiceError("give the rollout: --step S --index I")
    if sum((args.label is not None, args.note is not None, args.clear)) != 1:
        raise ChoiceError("give one of a label, --note TEXT and --clear")
    tokens = _tokens(args.tokens)
    if args.note is not None:
        if len(args.note) > LONGEST_NOTE:
            raise ChoiceError(f"the note is longer than {LONGEST_NOTE:,} characters")
        set_label(run, author, args.step, args.index, "note", args.note)
    else:
        kind = "label" if tokens is None else "span"
        value = "" if args.clear else args.label.strip()
        if not value and not args.clear:
            raise ChoiceError("the label is empty; --clear removes one")
        known = [name.name for name in label_names(run.info)]
        if value and value not in (*known, *label_counts(run)):
            hint = did_you_mean(value, known)
            raise ChoiceError(f"there is no label {value!r}; {hint} {NAMES_FILE} has your own")
        set_label(run, author, args.step, args.index, kind, value, tokens=tokens or (-1, -1))
    return 0


def _tokens(text: str | None) -> tuple[int, int] | None:
    """First and last token of a span written A-B, or A for one token."""
    if text is None:
        return None
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) < int(first):
        raise ChoiceError(
            f"--tokens {text} is not a span; write the first and the last token as 3-17"
        )
    return int(first), int(last or first)


def labels(args: argparse.Namespace) -> int:
    """Prints what is labelled, or draws a sample."""
    run = narrowed_as_asked(open_run(args), args)
    if run.labels.refused:
        raise ChoiceError(run.labels.refused)
    if args.draw is not None:
        name = args.sample or next_sample_name(run)
        author = args.author or usual_author()
        # Another sample with the same seed would be of the same rollouts.
        seed = len(run.labels.samples) if args.seed is None else args.seed
        drawn = draw_sample(run, author, args.draw, name, seed)
        where = f"--where 'label_sample contains {text_literal(name)}'"
        output.say(
            f"{drawn} rollouts drawn as {name}; `rollout-board rollouts` with {where} --sort "
            f"{LABEL_ORDER} lists them in the random order in which to label them"
        )
        return 0
    authors = run.labels.authors
    if args.author and args.author not in authors:
        raise ChoiceError(
            f"{args.author} has no label in {run.info.name}; {did_you_mean(args.author, authors)}"
            if authors
            else f"nobody has labelled {run.info.name} yet"
        )
    counts, samples, agreed = (
        label_counts(run, args.author or ""),
        samples_of(run, args.author or ""),
        agreements(run),
    )
    if args.json:
        output.print_json(_document(run, counts, samples, agreed))
        return 0
    if not (counts or samples):
        output.say(
            f"{run.info.name}: nothing is labelled yet; use `rollout-board label`, or the keys 1 to 9 "
            "in an open rollout"
        )
        return 0
    total = (run.whole or run).rollout_count
    output.print_lines([f"{run.info.name}: {of_many(sum(counts.values()), total)} labelled"])
    output.print_table(
        [{"label": n, "rollouts": c} for n, c in counts.items()], ["label", "rollouts"]
    )
    for sample in samples:
        output.print_lines(["", _sample_words(sample)])
        rows = [share.table_row() for share in sample.shares]
        if rows:
            output.print_table(rows, [*rows[0]])
    for one in agreed:
        output.print_lines(["", _agreement_words(one)])
    if run.labels.missing:
        output.say(f"{run.labels.missing} labelled rollouts are not in the run any more")
    return 0


def _sample_words(sample: Sample) -> str:
    missing = f", {sample.missing} not in the run any more" if sample.missing else ""
    return (
        f"sample {sample.name}: {sample.labelled} of {sample.size} labelled, "
        f"drawn from {sample.population:,} rollouts{missing}"
    )


def _agreement_words(one: Agreement) -> str:
    return (
        f"{one.first} and {one.second} agree on {of_many(one.equal, one.n)} rollouts, "
        f"{interval(one.low, one.high)}; Cohen's kappa {one.kappa_text}"
    )


def _document(
    run: Run, counts: dict[str, int], samples: list[Sample], agreed: list[Agreement]
) -> dict[str, Any]:
    labels, indices = run.labels, label_indices(run)
    rollouts = [
        {"step": key.step, "index": indices[at], **_of_rollout(labels.rollouts[key])}
        for key, at in labels.addresses.items()
        if any(labels.rollouts[key].authors.values())
    ]
    pairs = [
        asdict(one) | {"pairs": [[*names, count] for names, count in one.pairs.items()]}
        for one in agreed
    ]
    return {
        "run": run.info.name,
        "counts": counts,
        "samples": [asdict(sample) for sample in samples],
        "agreement": pairs,
        "missing": labels.missing,
        "rows": rollouts,
    }


def _of_rollout(own: RolloutLabels) -> dict[str, Any]:
    return {
        "authors": {
            name: {
                "label": one.label or None,
                "note": one.note or None,
                "spans": [[s.first, s.last, s.label] for s in one.spans],
            }
            for name, one in own.authors.items()
        },
        "samples": [*own.samples],
    }
