"""trainer_state.json, which the Trainer of transformers, and so TRL, saves with each checkpoint.

Its `log_history` has a record for each time that something was logged. Read from transformers 5.24,
trainer_callback.TrainerState.save_to_json.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from board.errors import RecordError
from board.formats.io.lines import read_bytes
from board.formats.metrics.base import MOST_DOCUMENT_BYTES, MetricSource, Report, step_of
from board.formats.parse import is_list, is_object, parse_whole

_SUMMARY: Final = frozenset(
    ("train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos")
)
"""Keys of the record that ends a training: they are of the whole of it, and no curve."""


_GLOBAL_STEP: Final = re.compile(rb'"global_step":\s*(\d{1,15})')
_HEAD_BYTES: Final = 4096


class TrainerState(MetricSource):
    """One document, replaced as a whole: of those of several checkpoints that of the last step."""

    title = "transformers Trainer"

    def read(self, report: Report) -> None:
        (path,) = self.paths
        self.restart()
        size = path.stat().st_size
        if size > MOST_DOCUMENT_BYTES:
            self.note(f"it is larger than {MOST_DOCUMENT_BYTES >> 20} MB", severity="lost")
            return
        try:
            document, _ = parse_whole(read_bytes(path, 0, size))
        except RecordError as error:
            self.note(f"can't be read: {error.reason}", "it is read again when it changes")
            return
        history = document.get("log_history")
        for record in history if is_list(history) else ():
            counted = step_of(record) if is_object(record) else None
            if counted is None:
                self.note("an entry of log_history without a step")
            elif is_object(record):
                own = {name: value for name, value in record.items() if name not in _SUMMARY}
                self.points.add_record(counted[1], own, counted[0])
        report(size)


def global_step(path: Path) -> int:
    """The step at which a trainer_state.json was saved, by its first lines; -1 where they do not say."""
    try:
        match = _GLOBAL_STEP.search(read_bytes(path, 0, _HEAD_BYTES))
    except OSError:
        match = None
    return -1 if match is None else int(match[1])
