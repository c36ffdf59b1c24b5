"""The command `mcp`: the runs under a folder for a coding agent, over stdin and stdout."""

from __future__ import annotations

import argparse

from board.cli.runs import default_root
from board.errors import BoardError
from board.formats.io.locations import location_of
from board.index.discovery.discovered_runs import discover


def mcp(args: argparse.Namespace) -> int:
    """Serves until stdin is closed. Raises BoardError where the folder can't be listed."""
    try:
        from board.mcp_server.server import server_of
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "pydantic"):
            raise
        raise BoardError(
            f'the command mcp needs {error.name}: pip install "rollout-board[board,mcp]"'
        ) from error
    root = location_of(args.path) if args.path else default_root()
    discover(root)  # said here, and not at the first question
    server_of(root, args.base).run()
    return 0
