"""From the keys of one line to the fields of a Record: the checks that every format shares.

A value of the wrong type costs that value, never the rollout, and leaves a remark; only a missing or
unusable step makes a line unusable.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

import numpy as np

from board.core.records import NumberArray, Parsed, ReadOptions, Record, Remark
from board.errors import RecordError
from board.formats.field_values import (
    EXTRA,
    LOGGED_INDEX,
    TAKERS,
    is_number,
    is_truncated,
    read_id,
    read_number,
    read_score,
    read_step,
    read_text,
    split_reward,
    without_system_prompt,
)
from board.formats.messages import (
    Message,
    conversation_text,
    is_messages,
    response_text,
    split_turns,
    without_nulls,
)
from board.formats.number_arrays import RawNumbers, as_numbers, is_exact
from board.formats.parse import are_sentences, is_list, is_object, is_texts, kind_of

SEVERAL_REWARDS: Final = Remark(
    "reward",
    "the log has reward parts, but neither their total nor their weights",
    "reward is not recorded, each part is; "
    "log the weighted sum as `reward`, or train with one reward function, to have it",
    "note",
)
"""Of a reward that is an object: what its total is called."""
UNDATED: Final = Remark("step", "the log has no step", "all rollouts are shown at step 0", "note")

_SURPLUS: Final = "response_tokens has one entry {} than the token arrays"
SURPLUS: Final = {
    -1: Remark("response_tokens", _SURPLUS.format("more"), "the last piece has no values", "note"),
    1: Remark("response_tokens", _SURPLUS.format("less"), "the last value has no piece", "note"),
}
"""By how many entries token arrays are longer than the pieces; one of these explains their length."""

Fields = dict[str, Any]
"""What a line says of a rollout, by the record's names; values as they are logged, not checked yet.

`prompt` and `response` may be texts or lists of chat messages. Other names than the record's become
extras. `remarks` is a tuple of Remarks; what a log has under that name is no tuple, and an extra.
"""


def record_of(fields: Mapping[str, Any], options: ReadOptions) -> Record:
    """The Record of a rollout's fields. Raises RecordError when the line can't be used."""
    builder = RecordBuilder(options)
    if "remarks" in fields:
        fields = with_remarks(fields)
        builder.remarks += fields["remarks"]
    builder.lengths_explained = any(one in SURPLUS.values() for one in builder.remarks)
    try:
        builder.take_exchange(fields.get("prompt"), fields.get("response"))
        builder.take_keys(fields, {"prompt": "", "response": ""})
        return builder.build(fields.get("step"))
    except RecursionError:
        raise too_deep() from None


def too_deep() -> RecordError:
    """What is wrong with lines of a thousand nested arrays, which can be neither compared nor printed."""
    return RecordError(
        "the line is nested too deep", hint="arrays and objects within each other a few levels deep"
    )


def at_step(fields: Fields, step: object) -> Fields:
    """The fields of a rollout at a step; None: the log has none. It is at 0 then, and a note says so."""
    if step is not None:
        return {**fields, "step": step}
    return {**with_remarks(fields, UNDATED), "step": 0}


def with_remarks(fields: Mapping[str, Any], *remarks: Remark) -> Fields:
    """The fields with further remarks. A log's own key of that name becomes an extra."""
    before = fields.get("remarks")
    if before is None or isinstance(before, tuple):
        return {**fields, "remarks": (*(before or ()), *remarks)}
    return {**fields, f"{EXTRA}remarks": before, "remarks": remarks}


def as_extras(values: Mapping[str, Any]) -> Fields:
    """Values that are kept as they are, also under names that mean something in the record."""
    return {EXTRA + key if key in TAKERS else key: value for key, value in values.items()}


def rest_of(line: Mapping[str, Any], read: Container[str]) -> Fields:
    """What a line has under keys that its reader does not know, as extras. read: those that it knows."""
    rest = {key: value for key, value in line.items() if key not in read}
    return as_extras({key: value for key, value in rest.items() if value not in (None, "", [], {})})


def named_rewards(parts: Mapping[str, Any], total: object = None) -> Fields:
    """The fields of named rewards; null and NaN are parts that were not scored.

    total: the reward, where the log has it. Else it is the one part there is; of several it is not
    recorded, since their weights are not in the log.
    """
    scored = {name: value for name, value in parts.items() if not _is_unscored(value)}
    if not _is_unscored(total):
        return {"rewards": scored, "reward": total}
    if len(parts) > 1 and scored:
        return {"rewards": scored, "remarks": (SEVERAL_REWARDS,)}
    values = [value for value in scored.values() if is_number(value)]
    return {"rewards": scored, "reward": values[0] if values else None}


def is_flat_numbers(value: object) -> bool:
    """Whether it is a list of numbers and nulls, parsed or not."""
    if isinstance(value, RawNumbers | Parsed):
        return True
    if not is_list(value) or not value:
        return False
    return all(isinstance(v, int | float | None) for v in value)


class RecordBuilder:
    """Takes the keys of one line, checks each, and builds the Record."""

    # A plain class, for one is made per line and a dataclass of typed empty dicts costs 7 us.
    def __init__(self, options: ReadOptions, split: str | None = None) -> None:
        self.options = options
        self.ids: dict[str, Any] = {} if split is None else {"split": split}
        self.texts: dict[str, str] = {}
        self.scores: dict[str, float] = {}
        self.tokens: dict[str, NumberArray] = {}
        self.constants: dict[str, float] = {}
        self.unknown_arrays: dict[str, NumberArray] = {}
        self.extras: dict[str, Any] = {}
        self.remarks: list[Remark] = []
        self.prompt_ids: NumberArray | None = None
        self.response_ids: NumberArray | None = None
        self.response_tokens: list[str] | None = None
        self.messages: list[dict[str, Any]] = []
        self.given: list[dict[str, Any]] | None = None
        self.generated: list[dict[str, Any]] | None = None
        self.segments: list[dict[str, Any]] = []
        self.lengths_explained = False
        """Whether a remark already says why arrays and tokens differ in length."""

    def take(self, key: str, value: Any) -> None:
        """Takes one key of the line by the record's own name for it."""
        if value is None:
            return
        try:
            getattr(self, TAKERS.get(key, "_take_unknown"))(key, value)
        except RecordError as error:
            self.refuse(key, error)

    def refuse(self, key: str, error: RecordError) -> None:
        """Names a key whose value can't be used."""
        self.remarks.append(Remark(key, f"{key} {error.reason}", f"expected: {error.hint}"))

    def remark(self, key: str, reason: str, hint: str) -> None:
        """Says that values of a key are left out, and why."""
        self.remarks.append(Remark(key, reason, hint))

    def note(self, key: str, reason: str, hint: str) -> None:
        """Says how a key was read, of which nothing is lost."""
        self.remarks.append(Remark(key, reason, hint, "note"))

    def take_keys(self, line: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Takes the keys of a line. names: as `Reader.keys`."""
        for key, value in line.items():
            if (name := names.get(key, key)) or not key:
                self.take(name, value)

    def _leave(self, key: str, value: Any) -> None:
        pass

    def _take_index(self, key: str, value: Any) -> None:
        self.extras[LOGGED_INDEX] = value

    def _take_token_ids(self, key: str, value: Any) -> None:
        setattr(self, key, as_numbers(value))

    def take_extra(self, key: str, value: Any) -> None:
        """Takes a key as it is, whatever the record's name for it means."""
        if value is not None:
            self.extras[key] = value

    def take_rest(self, line: Mapping[str, Any], read: Container[str]) -> None:
        """Takes what `rest_of` gives of a line."""
        self.take_keys(rest_of(line, read), {})

    _take_topk = take_extra

    def _take_unknown(self, key: str, value: Any) -> None:
        key = key.removeprefix(EXTRA)
        if is_flat_numbers(value) and (array := as_numbers(value)) is not None:
            self.unknown_arrays[key] = array
        self.extras[key] = value

    def _take_score(self, key: str, value: Any) -> None:
        number = read_score(value)
        if number is not None:
            self.scores[key] = number

    def _take_reward(self, key: str, value: Any) -> None:
        if not is_object(value):
            self._take_score(key, value)
            return
        parts, total, others = split_reward(value)
        self.take_rewards(parts, total)
        self.take("reward_payload", others or None)

    def take_turns(self, prompt: Sequence[Message], response: Sequence[Message]) -> None:
        """Takes a conversation that is cut into what was given and what was generated after it."""
        self.given = given = without_nulls(prompt)
        self.generated = generated = without_nulls(response)
        self.messages = [*given, *generated]
        if given:
            self.texts["prompt"] = conversation_text(given)
        if generated:
            self.texts["response"] = response_text(generated)

    def take_conversation(self, messages: Sequence[Message]) -> None:
        """Takes a conversation as a whole: what comes before the assistant speaks first was given."""
        self.take_turns(*split_turns(messages))
        self.given = self.generated = None

    def take_exchange(self, prompt: object, response: object) -> None:
        """Takes a prompt and a response that are texts or lists of chat messages, as the log has them."""
        if is_messages(prompt) and is_messages(response):
            self.take_turns(prompt, response)
            return
        self.take("prompt", prompt)
        if is_messages(prompt):
            self.given = without_nulls(prompt)
        if is_messages(response):
            self.generated = without_nulls(response)
            self.texts["response"] = response_text(self.generated)
        else:
            self.take("response", response)

    def take_rewards(self, parts: Mapping[str, Any], total: object = None) -> None:
        """Takes what `named_rewards` makes of named rewards."""
        fields = named_rewards(parts, total)
        self.remarks += fields.pop("remarks", ())
        for key, value in fields.items():
            self.take(key, value)

    def _take_array(self, key: str, value: Any) -> None:
        if isinstance(value, (int, float)):  # bool is an int
            number = read_number(value)
            self.constants[key] = math.nan if number is None else number
            return
        array = as_numbers(value)
        if array is not None:
            self.tokens[key] = array

    def _take_text(self, key: str, value: Any) -> None:
        self.texts[key] = read_text(key, value)

    def _take_failure(self, key: str, value: Any) -> None:
        if isinstance(value, str):
            self.texts["failure"] = value

    def _take_id(self, key: str, value: Any) -> None:
        id_ = read_id(key, value)
        if id_ is not None:
            self.ids[key] = id_

    def _take_parts(self, key: str, value: Any) -> None:
        if not is_object(value):
            raise RecordError(f"is {kind_of(value)}", hint="an object {name: number}")
        for name, part in value.items():
            try:
                self._take_score(f"rewards.{name}", part)
            except RecordError as error:
                self.refuse(f"rewards.{name}", error)

    def _take_pieces(self, key: str, value: Any) -> None:
        if is_texts(value):
            self.response_tokens = value
        else:
            self._note_no_pieces(key, value, "is not a list of texts")

    def _note_no_pieces(self, key: str, value: Any, reason: str) -> None:
        self.extras[f"logged.{key}"] = value
        hint = f"logged.{key} has it; expected: one piece of text per response token"
        self.note(key, f"{key} {reason}", hint)

    def _leave_out_sentences(self) -> None:
        """Texts of several words are tokens only where something is recorded of each."""
        pieces = self.response_tokens
        if not pieces or not are_sentences(pieces):
            return
        arrays = [*self.tokens.values(), *self.unknown_arrays.values(), self.response_ids]
        if all(array is None or len(array) != len(pieces) for array in arrays):
            self.response_tokens = None
            self._note_no_pieces("response_tokens", pieces, "holds texts of several words")

    def _take_objects(self, key: str, value: Any) -> None:
        if not is_list(value) or not all(map(is_object, value)):
            raise RecordError("is not a list of objects", hint=f"a list of {key}")
        setattr(self, key, value)

    def build_undated(self) -> Record:
        """The Record of a rollout whose log has no step, at step 0; a note says so."""
        self.remarks.append(UNDATED)
        return self.build(0)

    def build(self, step: object) -> Record:
        """The Record. Raises RecordError when the step can't be used."""
        number = read_step(step)
        if isinstance(step, str) and not step.strip().lstrip("-").isdigit():
            self.note(
                "step", "step is text around a number", f"e.g. {step[:40]!r} is read as {number}"
            )
        reason, prompt = self.texts.get("finish_reason"), self.texts.get("prompt")
        if reason is not None:
            self.scores.setdefault("is_truncated", is_truncated(reason))
        if prompt is not None:
            self.texts["prompt"] = without_system_prompt(prompt, self.options)
        self._leave_out_sentences()
        pad_tokens = self._drop_padding()
        record = Record(
            step=number,
            ids=self.ids,
            texts=self.texts,
            scores=self.scores,
            tokens=self.tokens,
            prompt_ids=self.prompt_ids,
            response_ids=self.response_ids,
            response_tokens=self.response_tokens,
            messages=self.messages,
            given=self.given,
            generated=self.generated,
            segments=self.segments,
            extras=self.extras,
            pad_tokens=pad_tokens,
            remarks=self.remarks,
        )
        length = record.response_length
        if length is None:  # nothing to spread a constant over: it is a number of the rollout
            self.extras |= self.constants
            return record
        for key, array in self.tokens.items():
            if len(array) != length and not self.lengths_explained:
                hint = f"e.g. {len(array)} entries for {length} tokens; nothing was shifted or cut"
                self.remark(key, f"{key} is not as long as the response", hint)
        for key, array in self.unknown_arrays.items():
            # Under an unknown key only what has the response's length is a token metric, and no ids.
            if len(array) == length and is_exact(array):
                self.tokens[key] = array
                self.extras.pop(key, None)
        for key, value in self.constants.items():
            self.tokens[key] = Parsed(np.full(length, value, np.float64))
        return record

    def _drop_padding(self) -> int:
        """Cuts padding off both ends of the pieces and of every array as long as they are."""
        pieces = self.response_tokens
        markers = self.options.pad_markers
        if not pieces or not markers or (pieces[0] not in markers and pieces[-1] not in markers):
            return 0
        inner = [place for place, piece in enumerate(pieces) if piece not in markers]
        start, end = (inner[0], inner[-1] + 1) if inner else (0, 0)
        for arrays in (self.tokens, self.unknown_arrays):
            for key, array in list(arrays.items()):
                if len(array) != len(pieces):
                    continue
                try:
                    arrays[key] = Parsed(array.values()[start:end])
                except RecordError as error:
                    del arrays[key]
                    self.refuse(key, error)
        if self.response_ids is not None and len(self.response_ids) == len(pieces):
            self.response_ids = Parsed(self.response_ids.values()[start:end])
        self.response_tokens = pieces[start:end]
        return len(pieces) - (end - start)


def _is_unscored(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
