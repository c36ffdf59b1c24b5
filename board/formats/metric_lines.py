"""Lines that are no rollouts: numbers of the trainer between rollouts, and what stands aside."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import orjson

from board.core.records import Remark, is_number
from board.formats.base import Event, LineContext
from board.formats.io.lines import read_lines
from board.formats.io.locations import Location, state_of
from board.formats.metrics.base import step_of
from board.formats.number_arrays import RawNumbers
from board.formats.parse import as_object, is_list, is_object

_LABELS: Final = frozenset(
    ("type", "event", "kind", "phase", "mode", "stage", "split", "run", "name", "time", "date")
)
"""Keys of a line of metrics that may hold a text."""


_REWARD: Final = frozenset(("reward",))
_OF_TRAINING: Final = frozenset(
    ("loss", "policy_loss", "lr", "learning_rate", "grad_norm", "train/loss", "actor/loss")
)
"""Numbers that a rollout does not have: beside one of them a reward is the mean of a step."""


METRICS_WITH_TEXT: Final = Remark(
    None,
    "a line without prompt, response, tokens or id is not a rollout",
    "its numbers are among the trainer's metrics, its texts are not shown",
    "partial",
)
ASIDE: Final = Remark(
    None, "the line belongs to no rollout and is not shown", "the raw line has it", "partial"
)
METRICS: Final = Remark(
    None,
    "a line of numbers without text and tokens is no rollout",
    "its numbers are among the trainer's metrics",
    "note",
)


def metrics_in(line: Mapping[str, Any], content: frozenset[str]) -> Event | None:
    """A line of a step and numbers alone as an Event: it is the trainer's, and no rollout.

    content: the keys that make a line a rollout, whatever they hold. None where the line has one, or a
    text or a list.
    """
    if not content.isdisjoint(line) and (  # of most lines all that is looked at
        _OF_TRAINING.isdisjoint(line) or content.intersection(line) != _REWARD
    ):
        return None
    for key, value in line.items():
        if not (_holds_numbers(value) or (isinstance(value, str) and key in _LABELS)):
            return None
    counted = step_of(line)
    if counted is None:
        return None
    others = (value for key, value in line.items() if key != counted[0])
    has_number = any(is_number(value) or isinstance(value, Mapping) for value in others)
    return Event("metrics", line) if has_number else None


_TEXTS: Final = frozenset(
    ("prompt", "response", "messages", "prompt_ids", "response_ids", "response_tokens", "segments")
)
"""Keys that say what a rollout said, or was asked."""
_IDS: Final = frozenset(
    (
        *("group_id", "rollout_id", "uid", "id", "index", "prompt_id", "sample_id", "task_id"),
        *("problem_id", "question_id", "trajectory_id", "request_id"),
    )
)
_HEAD_BYTES: Final = 1 << 18
_HEAD_LINES: Final = 20


def metrics_beside(
    line: Mapping[str, Any], at: LineContext, texts: frozenset[str] = _TEXTS
) -> Event | None:
    """A line without a text, a token or an id, in a file of lines with texts, as an Event, where it has a
    key that those lines do not have, or numbers alone: with a reward among them it is no rollout either.
    texts: keys that hold what rollouts said or were asked.
    """
    if not all(line.get(key) is None for key in texts) or not _IDS.isdisjoint(line):
        return None
    if any(is_list(value) or isinstance(value, RawNumbers) for value in line.values()):
        return None
    if step_of(line) is None:
        return None
    known = at.sidecar(_KeysOfTexts(texts))
    # A rollout that failed may have null for its texts.
    has_numbers_alone = texts.isdisjoint(line) and all(map(_holds_numbers, line.values()))
    is_known = not known or (known.issuperset(line) and not has_numbers_alone)
    return None if is_known else Event("metrics", line)


@dataclass(frozen=True, slots=True)
class _KeysOfTexts:
    """The keys of those of the first lines of a file that have one of some keys."""

    texts: frozenset[str]

    def __call__(self, location: Location) -> set[str]:
        keys = set[str]()
        with suppress(OSError, orjson.JSONDecodeError):  # a packed file, or a torn line
            size = min(state_of(location)[1], _HEAD_BYTES)
            for line in islice(read_lines(location, 0, size), _HEAD_LINES):
                record = as_object(orjson.loads(line.text or b""))
                if any(record.get(key) is not None for key in self.texts):
                    keys.update(record)
        return keys


def _holds_numbers(value: object) -> bool:
    """Whether it is a number, null, true or false, or an object of such."""
    if isinstance(value, int | float) or value is None:
        return True
    return is_object(value) and all(map(_holds_numbers, value.values()))
