"""Dataclasses of what a JSON document holds, every value of it checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints


def from_json(kind: Any, data: object) -> Any:
    """A value of a type, from what orjson made of it and gives back.

    Args:
        kind: a dataclass, a class with `from_json`, a plain type, Any, or a tuple[X, ...], frozenset,
            Mapping, Literal or `X | None` of them.
        data: the parsed document, or part of it.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the data is of another type.
    """
    return _reader(kind)(data)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda data: data
    if hasattr(kind, "from_json"):
        return kind.from_json
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        readers = {one.name: _reader(hints[one.name]) for one in fields(kind)}
        return lambda data: kind(**{name: readers[name](value) for name, value in data.items()})
    if origin is UnionType:
        optional = _reader(args[0])
        return lambda data: None if data is None else optional(data)
    if origin in (tuple, frozenset):
        member = _reader(args[0])
        return lambda data: origin(map(member, data))
    if origin is Mapping:
        key, value = args[0], _reader(args[1])  # keys of JSON are texts
        return lambda data: {key(name): value(entry) for name, entry in data.items()}
    allowed = set(args) if origin is Literal else None

    def checked(data: object) -> object:
        if data not in allowed if allowed else type(data) is not kind:
            raise ValueError(f"{data!r} is not a {kind}")
        return data

    return checked
