"""What JSON cannot hold, made into what it can: it costs itself, not the rollout it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from exporters.record import dump, encode_line

_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1


def encode_mended(fields: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Return one JSON line, and what is wrong by the name of each field that is not as it was.

    Lone surrogates are replaced by U+FFFD and integers of more than 64 bits by their digits as text. A
    field that cannot be mended so is left out.
    """
    line: dict[str, orjson.Fragment] = {}
    wrong: dict[str, str] = {}
    for given, value in fields.items():
        name = _text(given)
        if name != given:
            wrong[name] = "its name has half a character"
        try:
            line[name] = orjson.Fragment(dump(value))
        except Exception as error:
            wrong[name] = str(error)
            try:
                line[name] = orjson.Fragment(dump(mended(value)))
            except Exception as again:
                wrong[name] = f"left out: {again}"
    return encode_line(line), wrong


def mended(value: Any) -> Any:
    """Return `value` with what JSON cannot hold replaced, at any depth."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return str(value)
    if isinstance(value, Mapping):
        return {_text(str(key)): mended(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [mended(member) for member in value]
    return value


def _text(text: str) -> str:
    """Two halves of one character next to each other become that character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
