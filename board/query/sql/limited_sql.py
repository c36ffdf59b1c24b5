"""One SELECT of a user in a process of its own, which the system ends where it takes too long or too much
memory.

DuckDB looks at its limits between vectors of values, and not while it parses: one expression, such as
printf('%2000000000d', 1), passes both within one value.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from board.errors import BoardError, ChoiceError
from board.formats import known_mapping, mapping_text
from board.index.discovery.run_info import RunInfo
from board.query.labels.matching import with_labels
from board.query.open_run import Follower, OpenOptions
from board.query.sql.user_sql import asks_for_metrics, select
from board.query.trainer.metrics import read_trainer_metrics

MOST_MEMORY: Final = 1 << 30
"""Bytes of address space for a statement and its rows, beside what the opened run takes."""
_TOO_LARGE: Final = f"the statement needs more than the {MOST_MEMORY >> 20:,} MB that it may have"
MOST_CHARACTERS: Final = 100_000
"""Of a statement: parsing 400 kB of brackets takes 13 s."""
_PROJECT: Final = Path(__file__).parents[3]
_GRACE_SECONDS: Final = 1.0
"""DuckDB stops most statements by itself, and says so; the system ends the others after these."""


@dataclass(frozen=True, slots=True)
class Question:
    """A statement, and the run that it is about.

    metrics, shift: as of `--metrics` and `--metric-shift`. timeout: in seconds. limit: rows at most;
    None is all.
    """

    info: RunInfo
    options: OpenOptions
    statement: str
    timeout: float
    limit: int | None = None
    metrics: Path | None = None
    shift: int | None = None


def ask(question: Question) -> pa.Table:
    """Return the rows of a SELECT, as `user_sql.select` does.

    Raises ChoiceError where the statement is wrong, too long, or takes more time or memory than it may,
    and BoardError where the run can't be read.
    """
    if len(question.statement) > MOST_CHARACTERS:
        length = len(question.statement)
        raise ChoiceError(
            f"the statement has {length:,} characters; {MOST_CHARACTERS:,} are allowed"
        )
    # Paths may be relative to the folder this process is in; modules in there are nobody's to import.
    path = os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))
    process = subprocess.run(
        [sys.executable, "-P", "-m", __name__],
        env={**os.environ, "PYTHONPATH": path},
        input=pickle.dumps((question, [*map(mapping_text, question.info.formats)])),
        stdout=subprocess.PIPE,
        check=False,
    )
    if process.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    if process.returncode == -signal.SIGALRM:
        raise ChoiceError(f"the statement took more than {question.timeout:g} seconds")
    if process.returncode < 0:  # what finds no memory may also abort
        raise ChoiceError(_TOO_LARGE)
    process.check_returncode()
    answer = pickle.loads(process.stdout)
    if isinstance(answer, BoardError):
        raise answer
    with pa.ipc.open_stream(answer) as rows:
        return rows.read_all()


def _answer(question: Question) -> bytes | BoardError:
    """The rows as Arrow's stream, or why there are none."""
    try:
        run = with_labels(Follower(question.options).run(question.info))
        is_asked = asks_for_metrics(question.statement)
        trainer = read_trainer_metrics(run, question.metrics, question.shift) if is_asked else None
        _limit_this_process(question.timeout + _GRACE_SECONDS)
        limit = question.limit
        table = select(run, question.statement, question.timeout, trainer, limit=limit)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return sink.getvalue().to_pybytes()
    except BoardError as error:
        return error
    except MemoryError:
        return ChoiceError(_TOO_LARGE)


def _limit_this_process(seconds: float) -> None:
    """Let the system end this process after these seconds, and refuse it memory beyond MOST_MEMORY."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    statistics = Path("/proc/self/statm")
    if statistics.exists():  # elsewhere the system does not count address space by this limit
        used = int(statistics.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    question, mappings = pickle.load(sys.stdin.buffer)
    for text in filter(None, mappings):  # readers that this process does not know by their names
        known_mapping(text)
    answer = _answer(question)
    sys.stdout.buffer.write(pickle.dumps(answer))
