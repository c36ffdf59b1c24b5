"""What the rows of a data set are: rollouts as they are, conversations, or pairs of conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from board.datasets.conversations import Message, conversation, tool_schemas
from board.datasets.files import JSON_LIST
from board.datasets.preferences import Pair, best_and_worst
from board.datasets.reading import MESSAGES, Rollout, RolloutReader
from board.errors import RecordError
from board.formats.messages import split_turns
from board.query.open_run import Run
from board.query.rollouts import Sorting, count

_BATCH_PAIRS: Final = 128
_OF_CONVERSATIONS: Final = ("prompt", "response", "group_id", "reward")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a data set. split, group, prompt_key: whose it is; None where not recorded."""

    values: dict[str, Any]
    split: str
    group: object | None
    prompt_key: int | None


class Shape(Protocol):
    """Rows of one kind. schema: of the rows. unit: what they are, in words. total: how many there may
    be, in the unit `of`. left_out: how many of these are no row, by the reason; complete when all batches
    were read. notes: what else should be known.
    """

    schema: pa.Schema
    unit: str
    of: str
    total: int
    left_out: Counter[str]
    notes: tuple[str, ...]

    def batches(self) -> Iterator[list[Row | None]]:
        """The rows; None for what is left out."""
        ...


class Rollouts:
    """Each rollout with its columns."""

    unit = of = "rollouts"
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        run: Run,
        columns: Sequence[str],
        sorting: Sorting | None = None,
        limit: int | None = None,
    ) -> None:
        self._columns = columns
        # The group is counted whether or not its column is wanted.
        read = dict.fromkeys((*columns, "group_id"))
        reads_log = MESSAGES in columns
        self._reader = RolloutReader(
            run, [*read], reads_log=reads_log, sorting=sorting, limit=limit
        )
        types = {**self._reader.types(), MESSAGES: JSON_LIST}
        self.schema = pa.schema([(name, types[name]) for name in columns])
        self.total, self.left_out = count(run), Counter[str]()

    def batches(self) -> Iterator[list[Row | None]]:
        """The rollouts in their order, as many as are wanted."""
        for rollouts in self._reader.every():
            yield [self._row(one) for one in rollouts]

    def _row(self, rollout: Rollout) -> Row:
        values = {name: rollout.values.get(name) for name in self._columns}
        if MESSAGES in values:
            values[MESSAGES] = rollout.messages or None
        return Row(values, rollout.split, _group(rollout), rollout.prompt_key)


class Conversations:
    """Each rollout as one conversation, for supervised fine-tuning."""

    unit, of = "conversations", "rollouts"
    notes: tuple[str, ...] = ()
    schema = pa.schema(
        [
            *((name, JSON_LIST) for name in (MESSAGES, "tools")),
            *(("split", pa.string()), ("step", pa.int64()), ("index", pa.int64())),
            ("reward", pa.float64()),
        ]
    )

    def __init__(self, run: Run, sorting: Sorting | None = None) -> None:
        self._reader = RolloutReader(run, _OF_CONVERSATIONS, reads_log=True, sorting=sorting)
        self.total, self.left_out = count(run), Counter[str]()

    def batches(self) -> Iterator[list[Row | None]]:
        """Every rollout that has a conversation, in their order."""
        for rollouts in self._reader.every():
            yield [self._row(one) for one in rollouts]

    def _row(self, rollout: Rollout) -> Row | None:
        try:
            messages = _conversation(rollout)
        except RecordError as error:
            self.left_out[error.reason] += 1
            return None
        values = {
            MESSAGES: messages,
            "tools": tool_schemas(rollout.tools),
            "split": rollout.split,
            "step": rollout.step,
            "index": rollout.index,
            "reward": rollout.values["reward"],
        }
        return Row(values, rollout.split, _group(rollout), rollout.prompt_key)


class Preferences:
    """Pairs of conversations with the same prompt, for preference training."""

    unit, of = "pairs", "groups"
    schema = pa.schema(
        [
            *((name, JSON_LIST) for name in ("prompt", "chosen", "rejected", "tools")),
            *(("score_chosen", pa.float64()), ("score_rejected", pa.float64())),
            *(("step", pa.int64()), ("group_id", pa.string())),
        ]
    )

    def __init__(self, run: Run, margin: float) -> None:
        """Raises ChoiceError where the run has no groups or no rewards."""
        self._reader = RolloutReader(run, _OF_CONVERSATIONS, reads_log=True)
        best = best_and_worst(run, margin)
        self._pairs, self.total, self.left_out = best.pairs, best.groups, best.left_out
        self.notes: tuple[str, ...] = ()
        if best.infrastructure:
            failed = "rollouts that failed by infrastructure, which are in no pair"
            self.notes = (f"{failed}: {best.infrastructure:,}",)

    def batches(self) -> Iterator[list[Row | None]]:
        """Every pair, by step."""
        for first in range(0, len(self._pairs), _BATCH_PAIRS):
            pairs = self._pairs[first : first + _BATCH_PAIRS]
            rollouts = self._reader.at([one for p in pairs for one in (p.chosen, p.rejected)])
            both = zip(rollouts[::2], rollouts[1::2], strict=True)
            yield [self._row(pair, *two) for pair, two in zip(pairs, both, strict=True)]

    def _row(self, pair: Pair, best: Rollout, worst: Rollout) -> Row | None:
        try:
            prompt, chosen = split_turns(_conversation(best))
            other_prompt, rejected = split_turns(_conversation(worst))
            if prompt != other_prompt:
                raise RecordError("the messages before the responses differ")
            if chosen == rejected:
                raise RecordError("both responses are the same")
        except RecordError as error:
            self.left_out[error.reason] += 1
            return None
        values = {
            "prompt": prompt,
            "chosen": chosen,
            "rejected": rejected,
            "tools": tool_schemas(best.tools),
            "score_chosen": pair.score_chosen,
            "score_rejected": pair.score_rejected,
            "step": pair.step,
            "group_id": pair.group_id,
        }
        return Row(values, best.split, _group(best), pair.prompt_key)


def _conversation(rollout: Rollout) -> list[Message]:
    """The messages of a rollout. Raises RecordError with why it has none."""
    if rollout.messages is None:
        raise RecordError("its line of the log can't be read again")
    prompt, response = (rollout.values[name] for name in ("prompt", "response"))
    return conversation(rollout.messages, prompt, response)


def _group(rollout: Rollout) -> object | None:
    group = rollout.values["group_id"]
    return None if group is None else (rollout.step, rollout.split, group)
