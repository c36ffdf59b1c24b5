"""What winners of a group say, do and are paid for that losers of the same prompt are not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from board.analysis.words import spoken_texts
from board.core.arrays import FloatArray, IntArray
from board.core.groups.contrasts import Contrast, contrasts, sides, with_rates
from board.core.metrics.definitions import reward_parts
from board.core.sampling import evenly_spaced
from board.core.texts.phrases import phrases_of
from board.query.groups import GROUP_COLUMNS, group_codes
from board.query.run import Run

WORDS, NUMBERS, PARTS = KINDS = ("words", "numbers", "reward parts")
_ROLLOUTS: Final = 4096
"""Of as many steps as have so many together, evenly spread."""
_LEAST_SHARE: Final = 0.01
"""A phrase that fewer of the rollouts say is not looked at, nor one that all but so few say."""
_TOTALS: Final = frozenset(
    ("reward", "ref_reward", "reward_gap", "valid_reward", "ref_valid_reward", "advantage")
)
TOOL_OUTPUTS: Final = "tool outputs"
"""How many messages a tool wrote."""


@dataclass(frozen=True, slots=True)
class WithinGroups:
    """contrasts: by kind, first what winners have more of, the most certain first; then, at the end, what
    losers have more of. steps: that were read; rollouts: of these, that won or lost; groups: of those.
    """

    contrasts: tuple[Contrast, ...]
    steps: tuple[int, ...]
    rollouts: int
    groups: int


def within_groups(run: Run, rollouts: int = _ROLLOUTS) -> WithinGroups | None:
    """The contrasts of phrases of the response, of numbers, and of parts of the reward.

    None where the run has no groups or no rewards. Raises UnreadableError.
    """
    if not {"group_id", "reward"} <= {*run.columns} or not run.counts:
        return None
    steps = [*run.counts]
    usual = sum(run.counts.values()) / len(steps)
    steps = [steps[i] for i in evenly_spaced(len(steps), max(int(rollouts / usual), 1))]
    numbers = [name for name in run.metrics if name not in _TOTALS]
    wanted = ("reward", *GROUP_COLUMNS, *numbers)
    rows = pd.concat([run.frame(wanted, (s, s)) for s in steps], ignore_index=True)
    codes = group_codes(rows)
    # An id that comes again at another step is another group.
    whose = np.where(codes >= 0, rows["step"].to_numpy(np.int64) * (codes.max() + 1) + codes, -1)
    own = sides(whose, _numbers(rows, "reward"))
    parts = {*reward_parts(run.metrics)}
    columns = {name: _numbers(rows, name) for name in numbers if name in rows}
    outputs = _tool_outputs(run, steps, rows)
    if outputs is not None:
        columns[TOOL_OUTPUTS] = outputs
    contrasted = [
        *contrasts(own, WORDS, _phrases(run, steps, rows)),
        *contrasts(own, NUMBERS, {n: v for n, v in columns.items() if n not in parts}),
        *contrasts(own, PARTS, {n: v for n, v in columns.items() if n in parts}),
    ]
    used = own.groups >= 0
    return WithinGroups(
        tuple(
            sorted(_apart(with_rates(contrasted)), key=lambda one: (KINDS.index(one.kind), -one.z))
        ),
        tuple(steps),
        int(used.sum()),
        len(np.unique(own.groups[used])),
    )


def _numbers(rows: pd.DataFrame, name: str) -> FloatArray:
    return rows[name].to_numpy(np.float64, na_value=np.nan)


def _places(rows: pd.DataFrame) -> dict[tuple[int, int], int]:
    """By step and index of a rollout its place."""
    pairs = zip(rows["step"].tolist(), rows["index"].tolist(), strict=True)
    return {pair: place for place, pair in enumerate(pairs)}


def _phrases(run: Run, steps: list[int], rows: pd.DataFrame) -> dict[str, IntArray]:
    """By phrase the places of the rollouts whose response says it."""
    places, said = _places(rows), defaultdict[str, list[int]](list)
    for spoken in spoken_texts(run, "response", steps):
        pairs = zip(spoken.rows["step"].tolist(), spoken.rows["index"].tolist(), strict=True)
        for pair, texts in zip(pairs, spoken.texts.to_pylist(), strict=True):
            for phrase in phrases_of("\n".join(texts or ())):
                said[phrase].append(places[pair])
    least = max(_LEAST_SHARE * len(rows), 2)
    return {
        phrase: np.array(own, np.int64)
        for phrase, own in said.items()
        if least <= len(own) <= len(rows) - least
    }


def _tool_outputs(run: Run, steps: list[int], rows: pd.DataFrame) -> FloatArray | None:
    """How many messages of tools each rollout has; None where none is recorded."""
    places, counts = _places(rows), np.full(len(rows), np.nan)
    for spoken in spoken_texts(run, "tool", steps):
        pairs = zip(spoken.rows["step"].tolist(), spoken.rows["index"].tolist(), strict=True)
        for pair, texts in zip(pairs, spoken.texts.to_pylist(), strict=True):
            if texts is not None:
                counts[places[pair]] = len(texts)
    return counts if np.nansum(counts) > 0 else None


def _apart(contrasted: list[Contrast]) -> list[Contrast]:
    """Without phrases that are within a stronger one, or hold it, and go the same way."""
    distinct: list[Contrast] = []
    phrases: list[Contrast] = []
    for one in contrasted:
        if one.kind == WORDS:
            if any(
                (one.feature in other.feature or other.feature in one.feature)
                and one.difference * other.difference > 0
                for other in phrases
            ):
                continue
            phrases.append(one)
        distinct.append(one)
    return distinct
