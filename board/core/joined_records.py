"""One rollout out of what two logs say of it.

What the log that is shown does not hold comes from the other. Arrays stay at the tokens they were
recorded for: where both logs hold the same tokens but see the response begin at another one, the longer
response is shown, and a log's arrays are not recorded where it sees the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.records import NumberArray, Parsed, Record, Remark
from board.errors import RecordError

_RELATIVE: Final = 1e-5
_ABSOLUTE: Final = 1e-6
"""Values of tokens further apart differ; one of the two may have been through float32."""
_COMPARED_IDS: Final = ("group_id", "env", "policy_version")


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """What one log says of a rollout. log: its name on screen. is_trainer: its arrays come first."""

    record: Record
    log: str
    is_trainer: bool = False

    def with_other(self, other: LoggedRecord, *, compare: bool) -> LoggedRecord:
        """The record with what only the other one holds; what differs is a remark.

        compare: whether to look for differences of token arrays too, which parses all that both have.
        """
        a, b = self.record, other.record
        tokens = _tokens(self, other, compare=compare)
        # A log with the whole conversation before one that has the messages of its prompt alone.
        with_border = next((r for r in (a, b) if r.given or r.generated), a)
        talk = next((r for r in (a, b) if r.messages), with_border)
        record = replace(
            tokens,
            step=a.step,
            ids={**b.ids, **a.ids},
            texts={**b.texts, **a.texts},
            scores={**b.scores, **a.scores},
            messages=talk.messages,
            given=talk.given,
            generated=talk.generated,
            extras={**b.extras, **a.extras},
            pad_tokens=a.pad_tokens or b.pad_tokens,
            remarks=(*a.remarks, *b.remarks, *_differences(self, other), *tokens.remarks),
        )
        return LoggedRecord(record, self.log, self.is_trainer or other.is_trainer)


def _differences(ours: LoggedRecord, theirs: LoggedRecord) -> Iterator[Remark]:
    """Scores and ids of which the two say different things."""
    own, others = (
        {**r.scores, **{name: r.ids[name] for name in _COMPARED_IDS if name in r.ids}}
        for r in (ours.record, theirs.record)
    )
    for name in [name for name in own if name in others]:
        one, other = own[name], others[name]
        if isinstance(one, float | int) and isinstance(other, float | int):
            is_alike = np.isclose(one, other, rtol=_RELATIVE, atol=_ABSOLUTE)
        else:
            is_alike = one == other
        if not is_alike:
            reason = f"{name} is {one} in {ours.log} and {other} in {theirs.log}"
            yield Remark(name, reason, f"that of {ours.log} is shown")


def _tokens(ours: LoggedRecord, theirs: LoggedRecord, *, compare: bool) -> Record:
    """A record with tokens and arrays of both, those of the trainer first, and the remarks on them."""
    first, second = (theirs, ours) if theirs.is_trainer else (ours, theirs)
    a, b = first.record, second.record
    try:
        one, other = _all_ids(a), _all_ids(b)
    except RecordError:  # whoever shows the ids says what is wrong with them
        one = other = None
    if one is None or other is None:
        whole = a if one is not None else b
        return replace(
            a,
            tokens={**b.tokens, **a.tokens},
            prompt_ids=whole.prompt_ids,
            response_ids=whole.response_ids,
            response_tokens=a.response_tokens or b.response_tokens,
            segments=a.segments or b.segments,
            remarks=(),
        )
    if not np.array_equal(one, other):
        reason = f"tokens differ between {first.log} ({len(one)}) and {second.log} ({len(other)})"
        hint = f"those of {first.log} are shown; token arrays of the other are left out"
        return replace(a, remarks=(Remark("tokens", reason, hint),))
    return _aligned(first, second, one, compare=compare)


def _aligned(
    first: LoggedRecord, second: LoggedRecord, ids: FloatArray, *, compare: bool
) -> Record:
    """Both over one response: that of the log whose response is longer."""
    records = first.record, second.record
    starts = [len(ids) - len(r.response_ids) if r.response_ids else 0 for r in records]
    start = min(starts)
    own, others = (
        {n: _Moved(array, at - start, n) if at > start else array for n, array in r.tokens.items()}
        for r, at in zip(records, starts, strict=True)
    )
    pieces = (r.response_tokens for r, at in zip(records, starts, strict=True) if at == start)
    segments = (_shifted(r.segments, at - start) for r, at in zip(records, starts, strict=True))
    return replace(
        first.record,
        tokens={**others, **own},
        prompt_ids=Parsed(ids[:start]),
        response_ids=Parsed(ids[start:]),
        response_tokens=next(filter(None, pieces), None),
        segments=next(filter(None, segments), ()),
        remarks=tuple(_array_differences(own, others, first, second)) if compare else (),
    )


def _all_ids(record: Record) -> FloatArray | None:
    parts = [a.values() for a in (record.prompt_ids, record.response_ids) if a is not None]
    return np.concatenate(parts) if parts and record.response_ids is not None else None


@dataclass(frozen=True, slots=True)
class _Moved:
    """A NumberArray after `count` tokens of which it says nothing; a mask says that they are not in the
    loss, since its log has them in the prompt.
    """

    array: NumberArray
    count: int
    name: str

    def __len__(self) -> int:
        return self.count + len(self.array)

    def values(self) -> FloatArray:
        filler = 0.0 if self.name == "loss_mask" else np.nan
        return np.concatenate((np.full(self.count, filler), self.array.values()))


def _shifted(segments: Sequence[Mapping[str, Any]], count: int) -> Sequence[Mapping[str, Any]]:
    moved = [{**s, "start": s["start"] + count, "end": s["end"] + count} for s in segments if count]
    return moved or segments


def _array_differences(
    own: Mapping[str, NumberArray],
    others: Mapping[str, NumberArray],
    first: LoggedRecord,
    second: LoggedRecord,
) -> Iterator[Remark]:
    for name in own.keys() & others.keys():
        try:
            a, b = own[name].values(), others[name].values()
        except RecordError:  # it is named where the array is shown
            continue
        if len(a) != len(b):
            reason = f"{name} has {len(a)} values in {first.log} and {len(b)} in {second.log}"
        else:
            both = np.isfinite(a) & np.isfinite(b)
            count = int((both & ~np.isclose(a, b, rtol=_RELATIVE, atol=_ABSOLUTE)).sum())
            if not count:
                continue
            where = f"at {count:,} of {int(both.sum()):,} tokens"
            reason = f"{name} differs {where} between {first.log} and {second.log}"
        yield Remark(name, reason, f"that of {first.log} is shown")
