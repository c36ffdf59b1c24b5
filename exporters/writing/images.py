"""Images in messages: small ones are written as they are, of larger ones what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

MOST_CHARS = 64 << 10
"""Of a data URL that is written: a thumbnail fits, a photograph does not."""


def with_references(value: Any) -> Any:
    """Return a value of a column with a reference in the place of each large image and of all bytes."""
    if isinstance(value, str):
        is_large = len(value) > MOST_CHARS and value.startswith("data:image/")
        return _reference(value[5:].split(";", 1)[0], value.encode()) if is_large else value
    if isinstance(value, bytes | bytearray):
        return _reference("bytes", bytes(value))
    if isinstance(value, Mapping):
        return {key: with_references(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [with_references(member) for member in value]
    return value


def _reference(kind: str, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"{kind}, {len(content)} bytes, sha256 {digest}, not in the log"
