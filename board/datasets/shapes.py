"""What the rows of a data set are: rollouts as they are, conversations, or pairs of conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Protocol

import pyarrow as pa

from board.datasets.contents import TRAIT_COLUMNS, traits_of
from board.datasets.conversations import Conversation, Message, conversation, tool_schemas
from board.datasets.files import JSON, JSON_LIST, json_text
from board.datasets.preferences import Pair, best_and_worst
from board.datasets.reading import (
    MESSAGES,
    Rollout,
    RolloutReader,
    has_messages,
    keeps_more,
    object_columns,
)
from board.errors import RecordError
from board.query.open_run import Run
from board.query.rollouts import Sorting, count

_BATCH_PAIRS: Final = 128
_CUT, _UNMASKED = "cut", "unmasked"
"""Traits: messages were cut off; what the model did not write is in a response."""
_OF_CONVERSATIONS: Final = ("prompt", "response", "group_id", *TRAIT_COLUMNS)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a data set. split, group, prompt_key: whose it is; None where not recorded. traits: what
    is counted, such as what contents.traits_of gives. content: what is equal in rows that say the same;
    None where it is not looked at.
    """

    values: dict[str, Any]
    split: str
    group: object | None
    prompt_key: int | None
    traits: frozenset[str] = frozenset()
    content: int | None = None


class Shape(Protocol):
    """Rows of one kind. schema: of the rows. unit: what they are, in words. total: how many there may
    be, in the unit `of`. left_out: how many of these are no row, by the reason; complete when all batches
    were read.
    """

    schema: pa.Schema
    unit: str
    of: str
    total: int
    left_out: Counter[str]

    def notes(self, counts: Mapping[str, int]) -> Sequence[str]:
        """What else should be known. counts: of the traits of the rows that were written."""
        ...

    def batches(self) -> Iterator[list[list[Row]]]:
        """The rows of each of the unit `of`; none of what is left out."""
        ...


class Rollouts:
    """Each rollout with its columns."""

    unit = of = "rollouts"

    def __init__(
        self,
        run: Run,
        columns: Sequence[str],
        sorting: Sorting | None = None,
        limit: int | None = None,
        *,
        compares: bool = False,
    ) -> None:
        """compares: whether rows that say the same are told, for which the texts are read."""
        self._columns, self._compares = columns, compares
        # Some are counted whether or not their columns are wanted.
        texts = ("prompt", "response") if compares else ()
        read = dict.fromkeys((*columns, "group_id", *TRAIT_COLUMNS, *texts))
        self._objects = object_columns(run, columns)
        reads_log = bool(self._objects) or (MESSAGES in columns and has_messages(run))
        self._reader = RolloutReader(
            run, [*read], reads_log=reads_log, sorting=sorting, limit=limit
        )
        types = {**self._reader.types(), MESSAGES: JSON_LIST, **dict.fromkeys(self._objects, JSON)}
        self.schema = pa.schema([(name, types[name]) for name in columns])
        self.total, self.left_out = count(run), Counter[str]()

    def notes(self, counts: Mapping[str, int]) -> Sequence[str]:
        """Nothing else."""
        return ()

    def batches(self) -> Iterator[list[list[Row]]]:
        """The rollouts in their order, as many as are wanted."""
        for rollouts in self._reader.every():
            yield [[self._row(one)] for one in rollouts]

    def _row(self, rollout: Rollout) -> Row:
        values = {name: rollout.values.get(name) for name in self._columns}
        if MESSAGES in values:
            values[MESSAGES] = (rollout.record and rollout.record.messages) or None
        values |= {name: rollout.logged(name) for name in self._objects}
        texts = (rollout.values.get("prompt"), rollout.values.get("response"))
        content = hash(texts) if self._compares and None not in texts else None
        return _row(rollout, values, content)


class Conversations:
    """Each rollout as one conversation, for supervised fine-tuning; by_turn: as one for each turn that
    was generated, with all before it as its prompt.
    """

    of = "rollouts"

    def __init__(self, run: Run, sorting: Sorting | None = None, *, by_turn: bool = False) -> None:
        self._reader = RolloutReader(
            run, _OF_CONVERSATIONS, reads_log=keeps_more(run), sorting=sorting
        )
        self._by_turn = by_turn
        self.unit = "turns" if by_turn else "conversations"
        lists = ("prompt", "completion", "tools") if by_turn else (MESSAGES, "tools")
        self.schema = pa.schema(
            [
                *((name, JSON_LIST) for name in lists),
                *(("split", pa.string()), ("step", pa.int64()), ("index", pa.int64())),
                *([("turn", pa.int64())] if by_turn else []),
                ("reward", pa.float64()),
            ]
        )
        self.total, self.left_out = count(run), Counter[str]()

    def notes(self, counts: Mapping[str, int]) -> Sequence[str]:
        """How many were cut."""
        return () if self._by_turn else _of_cut(counts)

    def batches(self) -> Iterator[list[list[Row]]]:
        """Every rollout that has a conversation, in their order."""
        for rollouts in self._reader.every():
            yield [[*self._rows(one)] for one in rollouts]

    def _rows(self, rollout: Rollout) -> Iterator[Row]:
        try:
            talk = _conversation(rollout)
        except RecordError as error:
            self.left_out[error.reason] += 1
            return
        facts = {
            "split": rollout.split,
            "step": rollout.step,
            "index": rollout.index,
            "reward": rollout.values["reward"],
        }
        tools = _tools(rollout)
        if not self._by_turn:
            values = {MESSAGES: talk.messages, "tools": tools, **facts}
            traits = {_CUT} if talk.after else ()
            yield _row(rollout, values, _content(talk), traits)
            return
        for number, turn in enumerate(talk.turns()):
            sides = {"prompt": turn.given, "completion": turn.generated}
            values = {**sides, "tools": tools, "turn": number, **facts}
            yield _row(rollout, values, _content(turn))


class Preferences:
    """Pairs of conversations with the same prompt, for preference training; by_turn: of the first turns
    in which they differ, with all before it as the prompt.
    """

    unit, of = "pairs", "groups"
    schema = pa.schema(
        [
            *((name, JSON_LIST) for name in ("prompt", "chosen", "rejected", "tools")),
            *(("score_chosen", pa.float64()), ("score_rejected", pa.float64())),
            *(("step", pa.int64()), ("group_id", pa.string())),
        ]
    )

    def __init__(
        self, run: Run, margin: float, left_out: Collection[str], *, by_turn: bool = False
    ) -> None:
        """Raises ChoiceError where the run has no groups or no rewards."""
        self._reader = RolloutReader(run, _OF_CONVERSATIONS, reads_log=keeps_more(run))
        best = best_and_worst(run, margin, left_out)
        self._pairs, self.total, self.left_out = best.pairs, best.groups, best.left_out
        self._of_pairs, self._by_turn = best.notes, by_turn

    def notes(self, counts: Mapping[str, int]) -> Sequence[str]:
        """What is in no pair, what was cut, and what is trained on that the model did not write."""
        unmasked = (
            "pairs with results of tools or turns of a user within a response: "
            f"{counts.get(_UNMASKED, 0):,}; TRL's DPO has no mask for these, so that they are learned "
            "too: --by-turn leaves them out"
        )
        cut = () if self._by_turn else _of_cut(counts)
        return [*self._of_pairs, *cut, *([unmasked] if counts.get(_UNMASKED) else [])]

    def batches(self) -> Iterator[list[list[Row]]]:
        """Every pair, by step."""
        for first in range(0, len(self._pairs), _BATCH_PAIRS):
            pairs = self._pairs[first : first + _BATCH_PAIRS]
            rollouts = self._reader.at([one for p in pairs for one in (p.chosen, p.rejected)])
            both = zip(rollouts[::2], rollouts[1::2], strict=True)
            yield [self._rows(pair, *two) for pair, two in zip(pairs, both, strict=True)]

    def _rows(self, pair: Pair, best: Rollout, worst: Rollout) -> list[Row]:
        try:
            sides = [_conversation(one) for one in (best, worst)]
            prompt, chosen, rejected = _sides(*sides, by_turn=self._by_turn)
        except RecordError as error:
            self.left_out[error.reason] += 1
            return []
        is_unmasked = any(m["role"] != "assistant" for m in (*chosen, *rejected))
        signs = {_CUT: any(one.after for one in sides), _UNMASKED: is_unmasked}
        values = {
            "prompt": prompt,
            "chosen": chosen,
            "rejected": rejected,
            "tools": _tools(best),
            "score_chosen": pair.score_chosen,
            "score_rejected": pair.score_rejected,
            "step": pair.step,
            "group_id": pair.group_id,
        }
        traits = traits_of(best.values) | traits_of(worst.values) | {n for n in signs if signs[n]}
        return [Row(values, best.split, _group(best), pair.prompt_key, traits)]


def _sides(
    best: Conversation, worst: Conversation, *, by_turn: bool
) -> tuple[list[Message], list[Message], list[Message]]:
    """Prompt, chosen and rejected. Raises RecordError with why there are none."""
    if best.given != worst.given:
        raise RecordError("the messages before the responses differ")
    if best.generated == worst.generated:
        raise RecordError("both responses are the same")
    if not by_turn:
        return best.given, best.generated, worst.generated
    both = zip(best.generated, worst.generated, strict=False)
    same = [one for one, _ in takewhile(lambda two: two[0] == two[1], both)]
    after = [one.generated[len(same) : len(same) + 1] for one in (best, worst)]
    if not all(after):
        raise RecordError("one response is the beginning of the other")
    if any(message["role"] != "assistant" for (message,) in after):
        raise RecordError("what first differs is no turn of the assistant")
    return [*best.given, *same], after[0], after[1]


def _of_cut(counts: Mapping[str, int]) -> Sequence[str]:
    count = counts.get(_CUT, 0)
    words = "with messages after the last turn of the assistant, which were cut"
    return [f"{words}: {count:,}"] if count else []


def _conversation(rollout: Rollout) -> Conversation:
    """The messages of a rollout. Raises RecordError with why it has none."""
    if rollout.is_lost:
        raise RecordError("its line of the log can't be read again")
    prompt, response = (rollout.values[name] for name in ("prompt", "response"))
    return conversation(rollout.record, prompt, response)


def _tools(rollout: Rollout) -> list[dict[str, Any]] | None:
    return None if rollout.record is None else tool_schemas(rollout.record.extras.get("tools"))


def _content(talk: Conversation) -> int:
    return hash(json_text(talk.messages))


def _row(
    rollout: Rollout, values: dict[str, Any], content: int | None, traits: Iterable[str] = ()
) -> Row:
    whose = (rollout.split, _group(rollout), rollout.prompt_key)
    return Row(values, *whose, traits_of(rollout.values) | {*traits}, content)


def _group(rollout: Rollout) -> object | None:
    group = rollout.values["group_id"]
    return None if group is None else (rollout.step, rollout.split, group)
