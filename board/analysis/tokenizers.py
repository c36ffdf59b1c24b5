"""Text for token ids from a tokenizer on this machine: the only module that knows Transformers.

Nothing is downloaded unless the caller asks for it, and no code of a tokenizer's repository is ever
run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from board.core.texts.messages import as_fields
from board.core.tokens.pieces import Coding
from board.core.tokens.vocabulary import Vocabulary, coding_of_pieces
from board.errors import NotFoundError
from board.query.open_run import Run

_NAME_KEYS: Final = ("name_or_path", "name", "path")
_CONFIG_KEYS: Final = (
    "tokenizer",
    "tokenizer_name",
    "tokenizer_name_or_path",
    "model_name_or_path",
)


def named_tokenizer(run: Run) -> str | None:
    """The tokenizer that a run's settings name: a folder or a hub name; None without one."""
    for settings in run.settings.values():
        for fields in (settings, as_fields(settings.get("config")) or {}):
            for key in _CONFIG_KEYS:
                if name := _name_in(fields.get(key)):
                    return name
    return None


def _name_in(value: object) -> str | None:
    if fields := as_fields(value):
        value = next((fields[key] for key in _NAME_KEYS if fields.get(key)), None)
    return value if isinstance(value, str) and value.strip() else None


def load_vocabulary(name: str, *, download: bool = False) -> Vocabulary:
    """The pieces of a tokenizer by id.

    name: a local folder, or a hub name that lies in the local cache. download: fetch it from the hub
    where it does not. Raises NotFoundError, which says what to do, when it can't be loaded.
    """
    try:
        import transformers
    except ImportError as error:
        raise NotFoundError(
            "Decoding with a tokenizer needs Transformers: pip install 'rollout-board[decode]'"
        ) from error
    loader: Any = transformers
    try:
        tokenizer: Any = loader.AutoTokenizer.from_pretrained(
            name, local_files_only=not download, trust_remote_code=False
        )
        count: int = len(tokenizer)
        pieces: list[str | None] = list(tokenizer.convert_ids_to_tokens(list(range(count))))
        special: list[int] = [int(i) for i in tokenizer.all_special_ids]
    # A folder can hold anything: each way of being no tokenizer raises another error.
    except Exception as error:
        where = "on the hub" if download else "in a local folder or the local cache"
        raise NotFoundError(
            f"No usable tokenizer {name[:80]!r} {where} ({type(error).__name__}); expected a folder with "
            "tokenizer.json, or a name that was downloaded before"
        ) from error
    return Vocabulary(pieces, coding_of(tokenizer, pieces), frozenset(special))


def coding_of(tokenizer: Any, pieces: Sequence[str | None]) -> Coding:
    """How a tokenizer writes its pieces. A fast one says so in its decoder; else by its pieces."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return coding_of_pieces(pieces)
    parts = list(_parts(json.loads(backend.to_str()).get("decoder")))
    kinds = {part.get("type") for part in parts}
    if "ByteLevel" in kinds:
        return "byte_level"
    spaced = any("\u2581" in str(part.get("pattern")) for part in parts)
    return "metaspace" if "Metaspace" in kinds or spaced else "text"


def _parts(node: Any) -> Iterator[dict[str, Any]]:
    """Every component of a serialized decoder, sequences opened."""
    if isinstance(node, dict):
        yield node
        for child in cast("dict[str, Any]", node).get("decoders") or ():
            yield from _parts(child)
