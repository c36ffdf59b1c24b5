"""Rollout Board: from a spike on a curve to the guilty token, in any RL framework's rollout log.

Imports run one way: cli -> views -> export -> analysis -> query -> {components, charts, index} ->
formats -> core.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from board import errors

if TYPE_CHECKING:
    import pandas as pd

    from board.api import OpenRun

__all__ = ["__version__", "errors", "list_runs", "open_run"]

__version__ = "0.1.0"

# Read by Arrow when it is first imported. Its own allocator keeps what a long scan has freed: a process
# that builds an index grew by 80 MB for each GB it read.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def __dir__() -> list[str]:
    """What is public."""
    return [*__all__]


def open_run(
    path: str | os.PathLike[str], source: str | None = None, *, right_from: float | None = None
) -> OpenRun:
    """A run for a script or a notebook: `open_run("runs/my_run").steps` is a pandas frame.

    Args:
        path: a run's folder, a log file or a URL of either, or the name of a bundled run.
        source: which logs of a folder that holds several formats, as `--source` of the command line.
        right_from: from which score on a rollout is right, as `--right-from`; None: what the log says.

    Raises:
        NotFoundError: there is no run, or there are several.
    """
    # Imported late: a version can be asked for without what the dashboard needs.
    from board import given
    from board.api import OpenRun
    from board.cli.opened_runs import opened
    from board.cli.runs import find_run
    from board.query.open_run import OpenOptions

    source = None if source is None else given.text("source", source, "'slime_train'")
    right_from = None if right_from is None else given.number("right_from", right_from)
    return OpenRun(opened(find_run(_path(path), source), OpenOptions(right_from=right_from)))


def list_runs(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The runs under a folder or a URL, the one that changed last first.

    Columns: run (its name below the folder), path, source, format (names of readers), bytes, changed
    (UTC). Raises NotFoundError where there is no such folder, UnreadableError where it can't be listed.
    """
    from board.api import runs_frame

    return runs_frame(_path(path))


def _path(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, str | os.PathLike):
        raise errors.ChoiceError(
            f"path={path!r:.60} is of the type {type(path).__name__}; give a path, such as 'runs/my_run'"
        )
    text = os.fspath(path)
    if any("\ud800" <= sign <= "\udbff" for sign in text):  # what os.fsdecode gives is above
        raise errors.ChoiceError(f"path={text!r:.60} has half a character; give whole ones")
    return text
