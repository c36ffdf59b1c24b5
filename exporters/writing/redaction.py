"""What must not be in a log is taken out before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import orjson

from exporters.arrays.batch import Rollout

Redact = Callable[[str], str] | Iterable[str | re.Pattern[str]]
"""A function of a text, or patterns of what is replaced by `REDACTED`."""
REDACTED = "[redacted]"

_OWN = frozenset(("type", "step", "micro_step", "rank", "index"))
_IDS = ("prompt_ids", "response_ids", "response_tokens", "topk_ids")


class Redaction:
    """Applies a `redact` argument. Where its function raises, the error is the caller's to count: a text
    that was not looked at is never written.
    """

    def __init__(self, redact: Redact, tokenizer: Any) -> None:
        """Raises TypeError or ValueError (re.error) for what is neither a function nor patterns."""
        self._decode = getattr(tokenizer, "decode", None)
        if callable(redact):
            self._function = redact
            return
        if isinstance(redact, str):
            raise TypeError("redact: expected a function or a list of patterns, found one text")
        self._patterns = [re.compile(pattern) for pattern in redact]
        self._function = self._replaced

    def _redact(self, text: str) -> str:
        """The text as it may be written. Raises an Exception where the function gives none."""
        try:
            redacted = self._function(text)
        except (SystemExit, GeneratorExit) as error:  # it would end the thread that writes
            raise RuntimeError(f"redact raised {type(error).__name__}") from error
        if not isinstance(redacted, str):
            raise TypeError(f"redact: expected a text, found {type(redacted).__name__}")
        return redacted

    def _replaced(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        return text

    def value(self, value: Any) -> Any:
        """The value with all of its texts redacted, at any depth, keys included."""
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(member) for key, member in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(member) for member in value]
        is_plain = value is None or isinstance(
            value, bool | int | float | np.ndarray | np.generic | orjson.Fragment
        )
        return value if is_plain else self._redact(str(value))

    def line(self, fields: dict[str, Any], rollout: Rollout) -> dict[str, Any]:
        """The fields of a line, redacted. Ids and pieces stay only where their decoded text may."""
        redacted = {n: v if n in _OWN or n in _IDS else self.value(v) for n, v in fields.items()}
        if not all(map(self._may_stay, (rollout.prompt_ids, rollout.response_ids))):
            for name in _IDS:
                redacted.pop(name, None)
        return redacted

    def _may_stay(self, ids: Any) -> bool:
        if ids is None or not len(ids):
            return True
        if self._decode is None:  # whatever they are the ids of
            return False
        text = self._decode(ids.tolist())
        return self._redact(text) == text
