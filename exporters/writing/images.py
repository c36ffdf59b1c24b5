"""Images in messages: small data URLs are written as they are, of all others what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

MOST_CHARS = 64 << 10
"""Of a data URL that is written: a thumbnail fits, a photograph does not."""


def with_references(value: Any) -> Any:
    """Return a value of a column with references in the place of large images and of bytes."""
    if isinstance(value, str):
        is_large = len(value) > MOST_CHARS and value.startswith("data:image/")
        return _reference(value[5:].split(";", 1)[0], value.encode()) if is_large else value
    if isinstance(value, bytes | bytearray):
        return _reference("bytes", bytes(value))
    if hasattr(value, "tobytes") and hasattr(value, "mode"):  # Pillow's
        width, height = value.size
        return _reference(f"image {value.mode} {width}x{height}", value.tobytes())
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim > 2:
        return _reference(f"image {'x'.join(map(str, value.shape))}", value.tobytes())
    if isinstance(value, Mapping):
        return {key: with_references(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [with_references(member) for member in value]
    return value


def _reference(kind: str, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"{kind}, {len(content)} bytes, sha256 {digest}, not in the log"
