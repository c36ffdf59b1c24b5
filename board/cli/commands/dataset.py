"""The command that writes a data set: `export --as`."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from board.cli import output
from board.cli.opened_runs import narrowed_as_asked, open_run
from board.datasets.export import Request
from board.datasets.export import write_dataset as write
from board.errors import ChoiceError


def write_dataset(args: argparse.Namespace) -> int:
    """Writes the rollouts of a run as a data set, and says on stderr how many."""
    if args.output is None:
        raise ChoiceError("--as needs -o PATH, a file or a folder to write")
    path = Path(args.output)
    run = narrowed_as_asked(open_run(args), args)
    if args.step is not None:
        run.row(args.step, 0)  # raises for an unknown step
        run = run.where(steps=(args.step, args.step))
    columns = [name.strip() for name in (args.columns or "").split(",") if name.strip()]
    choices = {
        "filter": run.expression,
        "split": run.split or "",
        "environments": ", ".join(run.envs),
        "step": "" if args.step is None else str(args.step),
        "least difference of rewards": "" if args.margin is None else f"{args.margin:g}",
    }
    request = Request(
        *(args.kind, path, [*dict.fromkeys(columns)] or None, args.limit, args.margin),
        overwrite=args.overwrite,
        choices={words: text for words, text in choices.items() if text},
    )
    with closing(output.ProgressLine(text=output.rows_text)) as progress:
        summary = write(run, request, progress)
    for line in summary.lines():
        output.say(line)
    output.say(f"written to {output.one_line(args.output)}")
    return 0
