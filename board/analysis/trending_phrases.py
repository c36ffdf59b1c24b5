"""Phrases that are said more or less over a run, told by a sample of its rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from board.analysis.spoken_texts import spoken_texts
from board.core.texts.phrases import Changed, changed_phrases
from board.query.open_run import Run

_STEPS: Final = 12
_ROLLOUTS: Final = 24
_BYTES: Final = 12 << 20


@dataclass(frozen=True, slots=True)
class SaidMore:
    """phrases: those that change most. steps: that were looked at; rollouts: how many of them tell who
    says what.
    """

    phrases: tuple[Changed, ...]
    steps: tuple[int, ...]
    rollouts: int


def said_more(run: Run, by: str = "response", budget: int = _BYTES) -> SaidMore:
    """Looks at up to 24 rollouts of each of up to 12 steps, both evenly spread, at fewer of large ones.

    by: whose words, one of speech.SPEAKERS. budget: bytes of the log, about; two rollouts of a step are
    looked at however large.
    """
    table = run.chosen(("step", "index", "size"))
    of = table["step"].to_numpy()
    steps = _spread(np.unique(of), _STEPS).tolist()
    rows = [_rows(table, of, step) for step in steps]
    sizes = [float(part["size"].mean()) for part in rows if len(part)]
    each = int(np.clip(budget // max(sum(sizes), 1.0), 2, _ROLLOUTS))
    chosen = pd.concat([part.iloc[_spread(np.arange(len(part)), each)] for part in rows])
    texts: dict[int, list[str]] = {step: [] for step in steps}
    places = (chosen[name].astype(int).tolist() for name in ("step", "index"))
    for spoken in spoken_texts(run, by, *places):
        for step, said in zip(spoken.rows["step"].tolist(), spoken.texts.to_pylist(), strict=True):
            if said is not None:
                texts[step].append("\n".join(said))
    found = changed_phrases([*texts.values()])
    return SaidMore(tuple(found), tuple(steps), sum(map(len, texts.values())))


def _rows(table: pd.DataFrame, of: np.ndarray, step: int) -> pd.DataFrame:
    first, end = np.searchsorted(of, (step, step + 1)).tolist()
    return table.iloc[first:end]


def _spread(values: np.ndarray, most: int) -> np.ndarray:
    """At most so many of them, evenly spread, the first and the last among them."""
    if len(values) <= most:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(np.int64))]
