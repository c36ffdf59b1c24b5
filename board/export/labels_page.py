"""Labels of a run as a page: counts, the shares of samples, agreement, and the labelled rollouts."""

from __future__ import annotations

from typing import Final

import pandas as pd

from board.core.metrics.shares import of_many
from board.export.numbers import number
from board.export.pages import PageOptions
from board.export.run_pages import PageTable, tables_page
from board.export.sheet import StaticPage
from board.index.segments import LABEL_COLUMNS
from board.query.labels.samples import Sample, agreements, label_counts, labelled_rows, samples_of
from board.query.open_run import Run

_MOST_ROWS: Final = 200


def labels_page(run: Run, author: str, options: PageOptions) -> StaticPage:
    """What people say of rollouts. author: whose labels count; "": the last ones of anybody."""
    counts = label_counts(run, author)
    total = (run.whole or run).rollout_count
    rows = [[label, float(count)] for label, count in counts.items()]
    tables = [PageTable("All labels", ("label", "rollouts"), (None, ""), rows)]
    tables += [_shares(sample) for sample in samples_of(run, author) if sample.shares]
    pairs = [
        [one.first, one.second, of_many(one.equal, one.n), number(one.kappa)]
        for one in agreements(run)
    ]
    heads = ("author", "other author", "the same label", "Cohen's kappa")
    tables.append(PageTable("Agreement", heads, (None,) * 4, pairs))
    tables.append(_rollouts(run))
    words = f"{of_many(sum(counts.values()), total)} rollouts are labelled."
    return tables_page(run, "Labels", words, [one for one in tables if one.rows], options)


def _shares(sample: Sample) -> PageTable:
    rows = [
        [
            one.label,
            f"{one.count} of {one.n}",
            one.share,
            f"{number(one.low, 'share')} to {number(one.high, 'share')}",
            f"{one.population:,} of {one.all_rollouts:,}",
        ]
        for one in sample.shares
    ]
    title = f"Sample {sample.name}: {sample.labelled} of {sample.size} labelled"
    heads = ("label", "labelled", "share", "95 % interval", "of rollouts")
    return PageTable(title, heads, (None, None, "share", None, None), rows)


def _rollouts(run: Run) -> PageTable:
    labelled = labelled_rows(run, _MOST_ROWS)
    names = [name for name in LABEL_COLUMNS if name in labelled]
    rows = [
        [
            f"{int(row['step'])}:{int(row['index'])}",
            *("" if pd.isna(row[name]) else str(row[name]) for name in names),
        ]
        for _, row in labelled.iterrows()
    ]
    heads = ("step:rollout", *(name.removeprefix("label_") for name in names))
    return PageTable("Labelled rollouts", heads, (None,) * len(heads), rows)
