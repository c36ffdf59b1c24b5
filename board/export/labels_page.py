"""Labels of a run as a page: counts, the shares of samples, agreement, and the labelled rollouts."""

from __future__ import annotations

from typing import Final

import pandas as pd

from board.core.metrics.shares import interval, of_many
from board.export.pages import PageOptions
from board.export.run_pages import PageTable, tables_page
from board.export.sheet import StaticPage
from board.index.segments import LABEL_COLUMNS, LABEL_ORDER
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
        [
            *(one.first, one.second, of_many(one.equal, one.n), interval(one.low, one.high)),
            one.kappa_text,
        ]
        for one in agreements(run)
    ]
    heads = ("author", "other author", "the same label", "95 % interval", "Cohen's kappa")
    tables.append(PageTable("Agreement", heads, (None,) * len(heads), pairs))
    tables.append(_rollouts(run))
    words = f"{of_many(sum(counts.values()), total)} rollouts are labelled."
    return tables_page(run, "Labels", words, [one for one in tables if one.rows], options)


def _shares(sample: Sample) -> PageTable:
    rows = [one.table_row() for one in sample.shares]
    title = f"Sample {sample.name}: {sample.labelled} of {sample.size} labelled"
    units = [None if head == "label" else "" for head in rows[0]]
    return PageTable(title, [*rows[0]], units, [[*row.values()] for row in rows])


def _rollouts(run: Run) -> PageTable:
    listed = labelled_rows(run, _MOST_ROWS)
    labelled = listed.rows
    names = [name for name in LABEL_COLUMNS if name in labelled and name != LABEL_ORDER]
    rows = [
        [
            f"{int(row['step'])}:{int(row['index'])}",
            *("" if pd.isna(row[name]) else str(row[name]) for name in names),
        ]
        for _, row in labelled.iterrows()
    ]
    heads = ("step:rollout", *(name.removeprefix("label_") for name in names))
    return PageTable(f"Labelled rollouts: {listed.words}", heads, (None,) * len(heads), rows)
