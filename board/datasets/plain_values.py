"""Values of a log as every format can hold them: valid UTF-8, and JSON's types alone."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from typing import Any, Final, cast

_UNWRITABLE: Final = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"


class PlainValues:
    """Makes values plain. replaced: texts so far in which a character had to be replaced: NUL, at which
    some readers end a text, and halves of characters, which UTF-8 has not.
    """

    def __init__(self) -> None:
        self.replaced = 0

    def of(self, value: Any) -> Any:
        """The value with texts that can be written. NaN and infinities become None, bytes base64."""
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            return {self._text(str(key)): self.of(one) for key, one in items}
        if isinstance(value, list | tuple):
            return [self.of(one) for one in cast("list[object]", value)]
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return self._text(str(value))

    def _text(self, text: str) -> str:
        if text.isascii() and "\0" not in text:
            return text
        cleaned, count = _UNWRITABLE.subn(_REPLACEMENT, text)
        self.replaced += count > 0
        return cleaned
