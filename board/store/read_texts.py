"""Whole texts of a rollout read again from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from board.core.records import Record
from board.core.vocabulary import Vocabulary
from board.readers.messages import message_text
from board.store import whole_texts
from board.store.run import Run
from board.store.segments import ANY_TEXT
from board.store.step_records import StepRecords

_RECORDED: Final = ("prompt", "response", "ref_response", "ground_truth")
WHOLE_TEXTS: Final = (*_RECORDED, ANY_TEXT)


def whole_text(record: Record, vocabulary: Vocabulary | None, name: str) -> str | None:
    """One of WHOLE_TEXTS; None where it is not recorded."""
    if name == ANY_TEXT:
        texts = [whole_text(record, vocabulary, one) for one in _RECORDED]
        return "\n".join(
            [t for t in texts if t is not None] + [*map(message_text, record.messages)]
        )
    if name in whole_texts.TEXTS:
        return whole_texts.whole_text(record, vocabulary, name)
    return record.texts.get(name)


def read_texts(run: Run, rows: pd.DataFrame, names: Sequence[str]) -> dict[str, list[str | None]]:
    """Texts of some rollouts, a list for each of `names`; None where not recorded or not readable.

    rows: with the columns of step_records.PLACES.
    """
    found: dict[str, list[str | None]] = {name: [None] * len(rows) for name in names}
    for place, record in StepRecords(run).of(rows):
        for name in names:
            found[name][place] = whole_text(record, run.vocabulary, name)
    return found
