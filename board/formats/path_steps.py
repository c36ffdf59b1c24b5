"""Names of files and folders that say of which step they are, as patterns for mapping files."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

_STEP_IN_PATH: Final = re.compile(
    r"(?:step|iter|iteration|update|rollout|version)[_-]?([0-9]{1,19})(?![0-9])"
    r"|(?:^|/)([0-9]{1,19})\.[a-z.]+$",
    re.IGNORECASE,
)


def files_pattern(path: PurePath) -> str:
    """A pattern for the end of the path that takes the step from it; empty where it has none."""
    end = "/".join(path.parts[-2:])
    spans = [match.span(match.lastindex or 0) for match in _STEP_IN_PATH.finditer(end)]
    if not spans:
        return ""
    begin, after = spans[-1]
    texts = (end[end.rfind("/", 0, begin) + 1 : begin], end[after:])
    before, behind = map(digits_as_pattern, texts)
    return rf"{before}(?P<step>\d+){behind}"


def digits_as_pattern(text: str) -> str:
    """Return a pattern for a name with any numbers in the place of its own."""
    return re.sub(r"[0-9]+", r"\\d+", re.escape(text))
