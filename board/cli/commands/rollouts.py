"""The command `rollouts`: rows of the run's table, filtered, then sorted, then cut to the limit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from board.cli import output
from board.cli.opened_runs import of_environments, of_split, opened
from board.cli.runs import find_run
from board.errors import ChoiceError
from board.index import segments
from board.query import splits
from board.query.open_run import Run
from board.query.predicate import WHOLE_TEXTS, parsed
from board.query.rollouts import Sorting, batches, frame
from board.query.selection import NO_STEPS, Selection

_USUAL: Final = (
    *("step", "index", "split", "group_id", "env", "reward", "ref_reward", "advantage", "k3_mean"),
    *("mismatch_kl_mean", "entropy_mean", "response_tokens", "finish_reason", "response"),
)
_BATCH_ROLLOUTS: Final = 2048


def main(args: argparse.Namespace) -> int:
    """Prints the rollouts that were asked for."""
    run = of_split(opened(find_run(args.run, args.source)), args.split or splits.ALL)
    run = of_environments(run, args.env)
    if args.step is not None:
        run.row(args.step, 0)
    names = _names(run)
    wanted = output.named_columns(args.columns, (*names, *WHOLE_TEXTS)) if args.columns else []
    listed = _Listed(run, _selection(run, args), _sorting(args, names), args.limit)
    if args.csv or args.jsonl:
        columns = wanted or names
        (output.print_csv if args.csv else output.print_json_lines)(listed.whole(columns), columns)
        return 0
    if set(wanted) & set(WHOLE_TEXTS) - set(names):
        raise ChoiceError("texts that the table does not hold go with --csv or --jsonl")
    records = listed.records(wanted or names)
    if args.json:
        output.print_json(records)
    else:
        asked = parsed(run.columns, args.where).names if args.where else ()
        output.print_table(records, wanted or _table_columns(asked, args.sort, names))
    return 0


def _names(run: Run) -> list[str]:
    """Columns of the table, as the run has them whatever split it is narrowed to."""
    return [
        name for name in (run.whole or run).columns if name not in ("offset", "size", segments.PART)
    ]


def _selection(run: Run, args: argparse.Namespace) -> Selection:
    """The rollouts that the step, the last steps and the filter choose."""
    selection = run.selection
    if args.step is not None:
        selection = replace(selection, steps=(args.step, args.step))
    elif args.last is not None:
        steps = sorted(run.counts)[-args.last :] if args.last else []
        selection = replace(selection, steps=(steps[0], steps[-1]) if steps else NO_STEPS)
    return selection.where(args.where) if args.where else selection


def _sorting(args: argparse.Namespace, names: Sequence[str]) -> Sorting:
    return Sorting(output.known_column(args.sort, names) if args.sort else "", args.desc)


@dataclass(frozen=True, slots=True)
class _Listed:
    """Some rollouts in their order. limit: at most so many."""

    run: Run
    selection: Selection
    sorting: Sorting
    limit: int | None

    def records(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        """All of them, of texts the beginnings."""
        rows = frame(self.selection, columns, self.sorting, limit=self.limit)
        return output.records_of(self._named(rows))

    def whole(self, columns: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """Batches, with whole texts."""
        texts = [name for name in columns if name in WHOLE_TEXTS]
        for rows in batches(
            self.selection, columns, texts, self.sorting, limit=self.limit, size=_BATCH_ROLLOUTS
        ):
            yield output.records_of(self._named(rows))

    def _named(self, rows: pd.DataFrame) -> pd.DataFrame:
        """With names of files in the place of their numbers."""
        if "file" not in rows:
            return rows
        files = [self.run.info.path_of(file) for file in self.run.info.files]
        return rows.assign(file=[files[number] for number in rows["file"]])


def _table_columns(asked: Sequence[str], sort: str | None, names: list[str]) -> list[str]:
    """The usual columns, with those that were asked for before the text."""
    wanted = [*asked, *([sort] if sort else [])]
    usual = [name for name in _USUAL if name in names]
    added = [name for name in dict.fromkeys(wanted) if name in names and name not in usual]
    place = len(usual) - ("response" in usual)
    return [*usual[:place], *added, *usual[place:]]
