"""`rollout-board index`: builds or extends the index of a run."""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager, nullcontext

from board.cli import output
from board.cli.opened_runs import opened
from board.cli.runs import find_run
from board.core.problems import count_of
from board.errors import ChoiceError
from board.index.reading.workers import ChooseEngine, local_engine


def main(args: argparse.Namespace) -> int:
    """Builds the index and says what it covers."""
    begun = time.monotonic()
    with _engine(args) as engine:
        run = opened(find_run(args.run, args.source), persist=True, engine=engine)
    document = {
        "run": run.info.name,
        "index": None if run.index_folder is None else str(run.index_folder),
        "bytes": run.info.bytes,
        "bytes_read": run.done,
        "steps": len(run.steps),
        "rollouts": run.rollout_count,
        "problems": count_of(run.problems, "lost") + count_of(run.problems, "partial"),
        "seconds": round(time.monotonic() - begun, 3),
    }
    if args.json:
        output.print_json(document)
    else:
        output.print_fields([*document.items()])
    return 0


def _engine(args: argparse.Namespace) -> AbstractContextManager[ChooseEngine]:
    """What `--engine` and `--address` ask for."""
    if args.engine == "ray":
        from board.index.reading import (
            ray_engine,  # late, as is what it imports: nothing else needs it
        )

        return ray_engine.connected(args.address)
    if args.address is not None:
        raise ChoiceError("--address names a Ray cluster: it goes with --engine ray")
    return nullcontext(local_engine)
