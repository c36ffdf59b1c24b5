"""The columns of labels: which a run has, and their values by SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from board.core.labels.entries import Entry, RolloutKey, RolloutLabels, labelling_order
from board.index.segments import LABEL_COLUMNS, LABEL_ORDER, Column

_SEPARATOR: Final = ", "
_ADDRESS: Final = ("l_file", "l_line", "l_part")

Address = tuple[int, int, int]
"""File (number in the run), line and part."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a run. rollouts: by their key. addresses: of those that the run has. unreadable:
    lines of the file that are no entry. refused: why the file can't be read, "" where it can. version:
    another one when any of it is another, "" without any.
    """

    rollouts: Mapping[RolloutKey, RolloutLabels] = field(
        default_factory=dict[RolloutKey, RolloutLabels]
    )
    addresses: Mapping[RolloutKey, Address] = field(default_factory=dict[RolloutKey, Address])
    entries: tuple[Entry, ...] = ()
    unreadable: int = 0
    refused: str = ""
    version: str = ""

    @property
    def missing(self) -> int:
        """How many labelled rollouts the run does not have any more."""
        return sum(
            bool(own.latest[0]) for k, own in self.rollouts.items() if k not in self.addresses
        )

    @property
    def authors(self) -> tuple[str, ...]:
        """Who gave any label, by name."""
        names = {n for own in self.rollouts.values() for n, one in own.authors.items() if one}
        return tuple(sorted(names))

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of the samples that were drawn, the newest first."""
        drawn = (entry.value for entry in self.entries if entry.kind == "sample")
        names = [*dict.fromkeys(drawn)]
        known = {name for own in self.rollouts.values() for name in own.samples}
        return tuple(name for name in reversed(names) if name in known)


def label_sql(name: str, schema: str) -> str:
    """SQL for a column of labels: NULL where a rollout has none. schema: with the table `labels`, which
    label_table gives; empty where nothing is labelled.
    """
    if not schema:
        return f"CAST(NULL AS {'BIGINT' if name == LABEL_ORDER else 'VARCHAR'})"
    at = " AND ".join(f"{own} = {own[2:]}" for own in _ADDRESS)
    return f"(SELECT max(l_{name}) FROM {schema}.labels WHERE {at})"


def columns_of(table: pa.Table) -> tuple[Column, ...]:
    """The columns of labels, all of them where any rollout has one. table: of label_table."""
    names = LABEL_COLUMNS if table.num_rows else ()
    return tuple(
        Column(name, numbers=True) if name == LABEL_ORDER else Column(name, texts=True, words=True)
        for name in names
    )


def label_table(labels: Labels) -> pa.Table:
    """A row for each labelled rollout of the run: its address and the columns of labels."""
    places = _places_in_samples(labels.rollouts)
    rows = [
        (*labels.addresses[key], *_cells(own), places.get(key))
        for key, own in labels.rollouts.items()
        if key in labels.addresses
    ]
    names = (*_ADDRESS, *(f"l_{name}" for name in LABEL_COLUMNS))
    columns = [[*column] for column in zip(*rows, strict=True)] or [[] for _ in names]
    of_labels = [pa.int64() if name == LABEL_ORDER else pa.string() for name in LABEL_COLUMNS]
    types = [pa.int64()] * len(_ADDRESS) + of_labels
    arrays = [pa.array(own, kind) for own, kind in zip(columns, types, strict=True)]
    return pa.table(dict(zip(names, arrays, strict=True)))


def _places_in_samples(rollouts: Mapping[RolloutKey, RolloutLabels]) -> dict[RolloutKey, int]:
    """Where each rollout of a sample is in its order, from 1; of several samples, in the first one's."""
    samples: dict[str, dict[RolloutKey, str]] = defaultdict(dict)
    for key, own in rollouts.items():
        for name, drawn in own.samples.items():
            samples[name][key] = drawn.stratum
    places: dict[RolloutKey, int] = {}
    for strata in samples.values():
        for place, key in enumerate(labelling_order(strata), 1):
            places.setdefault(key, place)
    return places


def _cells(own: RolloutLabels) -> tuple[str | None, ...]:
    label, author = own.latest
    spans = _SEPARATOR.join(dict.fromkeys(span.label for span in own.spans))
    notes = own.notes
    note = next(iter(notes.values()), "")
    if len(notes) > 1:
        note = "\n".join(f"{name}: {text}" for name, text in notes.items())
    cells = (label, author, note, spans, _SEPARATOR.join(own.samples))
    return tuple(_storable(cell) or None for cell in cells)


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
