"""The vocabulary file: token id -> piece, so that ids are readable without the tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from exporters.record import SCHEMA_VERSION

# What each coding means for the text of a token:
BYTE_LEVEL = "byte_level"  # each character is a byte (GPT-2's table); joined, they are UTF-8
METASPACE = "metaspace"  # U+2581 is a space; a piece <0xNN> is one byte
TEXT = "text"  # the piece is the text


def describe_vocabulary(tokenizer: Any) -> dict[str, Any]:
    """The document of `vocab.json`: raw pieces by id, how to decode them, special ids.

    An id without a piece has null. `tokenizer` is any object with `len`, `convert_ids_to_tokens`
    and `all_special_ids`, as Transformers' have; ValueError for one without.
    """
    for name in ("__len__", "convert_ids_to_tokens", "all_special_ids"):
        if not hasattr(tokenizer, name):
            kind = type(tokenizer).__name__
            raise ValueError(
                f"tokenizer: {kind} has no {name}; pass a tokenizer of Transformers (of a processor its "
                "`.tokenizer`), or None to log ids without their texts"
            )
    pieces: list[str | None] = list(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    return {
        "schema": SCHEMA_VERSION,
        "coding": detect_coding(tokenizer, pieces),
        "pieces": pieces,
        "special_ids": sorted(int(i) for i in tokenizer.all_special_ids),
    }


def detect_coding(tokenizer: Any, pieces: Sequence[str | None]) -> str:
    """BYTE_LEVEL, METASPACE or TEXT.

    A fast tokenizer says so in its decoder; of any other the pieces are looked at.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        parts = list(_parts(json.loads(backend.to_str()).get("decoder")))
        kinds = {part.get("type") for part in parts}
        if "ByteLevel" in kinds:
            return BYTE_LEVEL
        if "Metaspace" in kinds or any("\u2581" in str(part.get("pattern")) for part in parts):
            return METASPACE
        return TEXT
    known = [piece for piece in pieces if piece]
    if any(piece.startswith("\u2581") for piece in known):
        return METASPACE
    return BYTE_LEVEL if any(piece.startswith("\u0120") for piece in known) else TEXT


def _parts(node: Any) -> Iterator[dict[str, Any]]:
    """Every component of a serialized decoder, sequences opened."""
    if not isinstance(node, dict):
        return
    yield node
    for child in node.get("decoders", ()):
        yield from _parts(child)
