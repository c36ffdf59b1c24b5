"""Rollout Board: from a spike on a curve to the guilty token, in any RL framework's rollout log.

Imports run one way: cli -> views -> export -> analysis -> query -> {components, charts, index} ->
formats -> core.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from board.query.user_sql import RunTables

__version__ = "0.1.0"

# Read by Arrow when it is first imported. Its own allocator keeps what a long scan has freed: a process
# that builds an index grew by 80 MB for each GB it read.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def open_run(path: str, source: str | None = None) -> RunTables:
    """A run for a notebook: `open_run("runs/my_run").sql("select * from steps")` is a pandas frame.

    Args:
        path: a run's folder, a log file or a URL of either, or the name of a bundled run.
        source: which logs of a folder that holds several formats, as `--source` of the command line.

    Raises:
        NotFoundError: there is no run, or there are several.
    """
    # Imported late: a version can be asked for without what the dashboard needs.
    from board.cli.opened_runs import opened
    from board.cli.runs import find_run
    from board.query.user_sql import RunTables

    return RunTables(opened(find_run(path, source)))
