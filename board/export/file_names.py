"""What files are called that a reader saves: of which run, which rollouts, what, and which content."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, replace
from typing import Final

from board.export.page_text import Redaction, visible
from board.query.run import Run

_NO_NAME: Final = re.compile(r"[^\w.-]+")
_MOST_BYTES: Final = {"run": 100, "which": 70, "what": 50}
"""Together with digest and ending below 255, the most that file systems take."""


@dataclass(frozen=True, slots=True)
class FileOf:
    """What a file is of. run: its name, or that of the folder of several. which: the rollouts in words,
    such as step97 and split_eval; what: of them, such as overview.
    """

    run: str
    what: str
    which: tuple[str, ...] = ()

    def and_also(self, *which: str) -> FileOf:
        """The same where there is more to say of the rollouts; "" says nothing."""
        return replace(self, which=(*self.which, *filter(None, which)))

    def name(
        self, ending: str, content: bytes | None = None, redaction: Redaction | None = None
    ) -> str:
        """The name of the file: letters and digits of any script, dots and hyphens. content: of which no
        other file has the name, whatever else is the same. redaction: of what the name says.
        """

        def written(text: str) -> str:
            text = visible(text if redaction is None else redaction.text(text))
            return _NO_NAME.sub("_", text).strip("._-")

        pieces = {"run": written(self.run), "which": "_".join(map(written, self.which))}
        pieces["what"] = written(self.what)
        said = (_cut(piece, _MOST_BYTES[kind]) for kind, piece in pieces.items())
        digest = "" if content is None else hashlib.blake2b(content, digest_size=4).hexdigest()
        return f"{'_'.join(filter(None, (*said, digest)))}{ending}"


def file_of(run: Run, what: str, *, step: int | None = None) -> FileOf:
    """What a file of rollouts of a run is of. step: of a file of one step."""
    low, high = (step, step) if step is not None else _steps_of(run)
    steps = "" if low is None else f"step{low}" if low == high else f"steps{low}-{high}"
    envs = "_".join(run.envs[:3]) if len(run.envs) < 4 else f"{len(run.envs)}_environments"
    split = "" if run.split is None else f"split_{run.split}"
    filtered = "filtered" if run.expression else ""
    return FileOf(run.info.name, what).and_also(steps, split, envs, filtered)


def _steps_of(run: Run) -> tuple[int, int] | tuple[None, None]:
    """The first and the last step that the rollouts can be of."""
    low, high = run.step_range or (-math.inf, math.inf)
    steps = [step for step in run.counts if low <= step <= high]
    return (min(steps), max(steps)) if steps else (None, None)


def _cut(text: str, most: int) -> str:
    """The beginning and the end of a text of more bytes: names of runs differ at their ends."""
    encoded = text.encode("utf-8")
    if len(encoded) <= most:
        return text
    half = most // 2 - 1
    begin, end = encoded[:half].decode("utf-8", "ignore"), encoded[-half:].decode("utf-8", "ignore")
    return f"{begin}--{end}"
