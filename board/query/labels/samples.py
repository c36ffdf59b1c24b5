"""Samples of rollouts to be labelled, the shares that they give, and how far authors agree."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations, count
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from board.core.labels.entries import RolloutKey
from board.core.labels.shares import (
    Agreement,
    LabelShare,
    Stratum,
    agreement,
    draw,
    label_shares,
    strata_of,
)
from board.errors import ChoiceError
from board.index import label_files
from board.index.segments import LABEL_COLUMNS
from board.query.labels.columns import Labels
from board.query.labels.matching import keyed_rollouts, new_entry
from board.query.rollouts import Sorting, frame
from board.query.rollouts import count as rollout_count
from board.query.run import Run


def next_sample_name(run: Run) -> str:
    """A name that no sample has: sample01, sample02, ..."""
    names = {name.lower() for name in run.labels.samples}
    return next(name for n in count(1) if (name := f"sample{n:02d}") not in names)


def draw_sample(run: Run, author: str, size: int, name: str, seed: int) -> int:
    """Draws rollouts of a run to be labelled, stratified by step and reward, and writes which.

    run: narrowed as the sample is to be. size: of about so many. Returns how many were drawn. Raises
    ChoiceError where there is nothing to draw from, the name is within another or the reverse, or nothing
    can be written.
    """
    # As they are now: somebody else may have drawn one since the run was opened.
    entries, _ = label_files.read_entries(run.info)
    for other in {one.value for one in entries if one.kind == "sample"}:
        if name.lower() in other.lower() or other.lower() in name.lower():
            if name == other:
                raise ChoiceError(f"there is already a sample {name}; give another name")
            raise ChoiceError(
                f"a filter would not tell the sample {name} from the sample {other}; give another name"
            )
    reward = run.column("reward") if "reward" in run.columns else "NULL"
    table = run.table(f"""
        SELECT step, position, CAST({reward} AS DOUBLE) AS reward
        FROM {run.view} WHERE {run.condition} ORDER BY step, position
    """)
    if size < 1:
        raise ChoiceError(f"a sample of {size} rollouts can't be drawn; give 1 or more")
    if not table.num_rows:
        raise ChoiceError("there is no rollout to draw from")
    steps = table["step"].to_numpy()
    strata, ranges = strata_of(steps, table["reward"].to_numpy(zero_copy_only=False), size)
    places = draw(strata, size, seed)
    populations = np.bincount(strata)
    ends = {n: (steps[ranges == n].min(), steps[ranges == n].max()) for n in np.unique(ranges)}
    chosen = table.take(places.tolist()).select(["step", "position"])
    chosen = chosen.append_column("place", pa.chunked_array([pa.array(places)]))
    of_steps = keyed_rollouts(run, steps[places].tolist())
    keyed = run.rows.table(f"SELECT step, position, key, copy FROM ({of_steps})")
    drawn = chosen.join(keyed, ["step", "position"]).sort_by("place").to_pylist()
    entries = [
        new_entry(
            author,
            "sample",
            index=row["position"],
            value=name,
            **{name: row[name] for name in RolloutKey._fields},
            stratum="{}-{}/{}".format(*ends[ranges[row["place"]]], strata[row["place"]]),
            population=int(populations[strata[row["place"]]]),
        )
        for row in drawn
    ]
    label_files.append(run.info, entries)
    return len(entries)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of a run. size: rollouts drawn, of `population`. labelled: how many are. shares: of each
    label. missing: drawn rollouts that the run does not have any more.
    """

    name: str
    size: int
    population: int
    labelled: int
    missing: int
    shares: tuple[LabelShare, ...]


def samples_of(run: Run, author: str = "") -> list[Sample]:
    """The samples of a run, the newest first. author: whose labels count; "": the latest of anybody."""
    return [_sample(run.labels, name, author) for name in run.labels.samples]


def _sample(labels: Labels, name: str, author: str) -> Sample:
    drawn = {key: own for key, own in labels.rollouts.items() if name in own.samples}
    strata = _strata(labels, name, author)
    labelled = sum(len(one.labels) for one in strata.values())
    return Sample(
        name,
        len(drawn),
        sum(one.population for one in strata.values()),
        labelled,
        sum(key not in labels.addresses for key in drawn),
        tuple(label_shares([*strata.values()])) if labelled else (),
    )


def _strata(labels: Labels, name: str, author: str) -> dict[str, Stratum]:
    """The strata of a sample, by what its entries call them."""
    populations: dict[str, int] = {}
    given: dict[str, list[str]] = defaultdict(list)
    for own in labels.rollouts.values():
        if drawn := own.samples.get(name):
            populations[drawn.stratum] = drawn.population
            if label := own.label_of(author):
                given[drawn.stratum].append(label)
    # Of an entry that somebody else wrote the population may be missing.
    return {
        stratum: Stratum(max(count, len(given[stratum]), 1), given[stratum])
        for stratum, count in populations.items()
    }


class StepShares(NamedTuple):
    """Shares of labels among the rollouts of the steps first to last, both included."""

    first: int
    last: int
    shares: tuple[LabelShare, ...]


def shares_over_steps(run: Run, sample: Sample, author: str) -> list[StepShares]:
    """The shares of all labels of a sample in each of its ranges of steps that has a labelled rollout,
    ascending.
    """
    names = [one.label for one in sample.shares]
    by_range: dict[tuple[int, int], list[Stratum]] = defaultdict(list)
    for stratum, own in _strata(run.labels, sample.name, author).items():
        ends = re.fullmatch(r"(-?\d+)-(-?\d+)/\d+", stratum)
        if own.labels and ends is not None:
            by_range[int(ends[1]), int(ends[2])].append(own)
    return [
        StepShares(*ends, tuple(label_shares(own, names))) for ends, own in sorted(by_range.items())
    ]


def label_counts(run: Run, author: str = "") -> dict[str, int]:
    """How many rollouts of the run have each label, the commonest first; no share of the run."""
    rollouts = run.labels.rollouts
    counts = Counter(rollouts[key].label_of(author) for key in run.labels.addresses)
    del counts[""]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class Labelled(NamedTuple):
    """Rollouts with a label, a note or labelled tokens. rows: the first ones; count: of all.

    unlabelled: how many of them have no label.
    """

    rows: pd.DataFrame
    count: int
    unlabelled: int

    @property
    def words(self) -> str:
        """How many are listed, and how many of them no count of labels has."""
        listed = len(self.rows)
        words = [
            f"{listed:,}" if listed == self.count else f"the newest {listed:,} of {self.count:,}"
        ]
        words += [f"{self.unlabelled:,} with no label but a note or labelled tokens"] * (
            self.unlabelled > 0
        )
        return ", ".join(words)


def labelled_rows(run: Run, limit: int) -> Labelled:
    """The labelled rollouts of the newest steps: step, index, the reward and the columns of labels."""
    if "label" not in run.columns:
        return Labelled(pd.DataFrame({"step": [], "index": []}), 0, 0)
    other = "not missing(label_note) or not missing(label_spans)"
    every = run.where(f"not missing(label) or {other}")
    columns = ["step", "index", *LABEL_COLUMNS, *(["reward"] if "reward" in run.columns else [])]
    rows = frame(every, columns, Sorting("step", descending=True), limit=limit)
    unlabelled = run.where(f"missing(label) and ({other})")
    return Labelled(rows, rollout_count(every), rollout_count(unlabelled))


def agreements(run: Run) -> list[Agreement]:
    """How far each two authors agree who labelled any rollout both."""
    several: list[Agreement] = []
    for first, second in combinations(run.labels.authors, 2):
        both = ((o.label_of(first), o.label_of(second)) for o in run.labels.rollouts.values())
        pairs = [(one, other) for one, other in both if one and other]
        if pairs:
            several.append(agreement(first, second, pairs))
    return several
