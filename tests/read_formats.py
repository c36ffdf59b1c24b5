"""Runs as the board has them: those of this checkout, and those that a test writes."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from written_logs import write_lines

from board.analysis.rollout import OpenRollout, open_rollout
from board.core.records import Record
from board.index.discovery.discovered_runs import RunInfo, discover
from board.query.open_run import Follower, OpenOptions, Run

SAMPLES = Path(__file__).parents[1] / "rollout_samples"
DATA = Path(__file__).parent / "formats" / "data"
REAL_RUNS = [info for root in (SAMPLES, DATA) for info in discover(root).runs]


def _kind(info: RunInfo) -> tuple[Any, ...]:
    return info.formats, info.is_joined, frozenset(file.path.suffix for file in info.files)


ONE_OF_EACH = [*{_kind(info): info for info in REAL_RUNS}.values()]
"""Of REAL_RUNS one for each format, kind of file and pair of logs that are joined."""


@cache
def real_run(info: RunInfo) -> Run:
    """One of REAL_RUNS, read once for all tests of a process."""
    return Follower().run(info)


def sample_run(name: str) -> Run:
    """One of the bundled runs, read once for all tests of a process."""
    return next(real_run(info) for info in REAL_RUNS if info.path == SAMPLES / name)


def collection() -> Path:
    """Real files of other people's frameworks, beside the checkout or a folder above it."""
    sidecar = (folder.parent / "shared" / "formats" for folder in Path(__file__).resolve().parents)
    return next((folder for folder in sidecar if folder.is_dir()), Path("shared/formats"))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of lines."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def info_at(folder: Path) -> RunInfo:
    """What is discovered of the one run at a folder, or below it."""
    (result,) = discover(folder).runs
    return result


@cache
def _data_run(path: Path) -> Run:
    return Follower().run(info_at(path))


def run_at(folder: Path, options: OpenOptions | None = None, *, persist: bool = False) -> Run:
    """The one run at a folder, or below it; that of test files, and a bundled one, is read once for all
    tests of a process.

    persist: with an index on disk.
    """
    if options is None and not persist and folder.is_relative_to(DATA):
        return _data_run(folder)
    if options is None and not persist and folder.parent == SAMPLES:
        return sample_run(folder.name)
    return Follower(options, persist=persist).run(info_at(folder))


def run_of(
    folder: Path,
    rows: Iterable[Mapping[str, Any] | str],
    options: OpenOptions | None = None,
    *,
    persist: bool = False,
) -> Run:
    """The run of these rollouts, which `folder`/run/log.jsonl then holds."""
    write_lines(folder / "run" / "log.jsonl", rows)
    return run_at(folder / "run", options, persist=persist)


def opened(run: Run) -> list[OpenRollout]:
    """All rollouts of a run, each read again from its file, by step and index."""
    return [*_opened_data(run)] if run.info.path.is_relative_to(DATA) else _opened(run)


@cache
def _opened_data(run: Run) -> list[OpenRollout]:
    return _opened(run)


def _opened(run: Run) -> list[OpenRollout]:
    places = zip(run.rollouts["step"], run.rollouts["index"], strict=True)
    return [open_rollout(run, int(step), int(index)) for step, index in places]


def records(run: Run) -> list[Record]:
    """The records of `opened`."""
    return [rollout.record for rollout in opened(run)]


def reasons(run: Run) -> list[tuple[str, int]]:
    """What is said of the run: reason and count of each problem."""
    return [(problem.reason, problem.count) for problem in run.problems]


def values_of(record: Record) -> dict[str, Any]:
    """All that a record holds, side by side: step, ids, token arrays, texts, scores and extras.

    In arrays None stands for a token without a value.
    """
    ids = {"prompt_ids": record.prompt_ids, "response_ids": record.response_ids}
    return {
        "step": record.step,
        **{name: [int(i) for i in a.values()] for name, a in ids.items() if a is not None},
        **{name: [_known(v) for v in a.values().tolist()] for name, a in record.tokens.items()},
        **record.ids,
        **record.texts,
        **record.scores,
        **record.extras,
    }


def _known(value: Any) -> Any:
    return None if value != value else value


def assert_fields(
    result: Iterable[Record],
    rows: Iterable[Any],
    *same: str,
    **fields: str | Callable[[Any], Any],
) -> None:
    """Each record holds what its row of the original file has; NaN and null are not recorded.

    Args:
        found: the records, in the order of the rows.
        rows: of the files, read plainly.
        same: names that record and row share.
        fields: name in the record -> key in the row, or what makes the value of the row.
    """
    for record, row in zip(result, rows, strict=True):
        values = values_of(record)
        for name, of in (dict(zip(same, same, strict=True)) | fields).items():
            expected = _known(of(row) if callable(of) else row.get(of))
            assert values.get(name) == expected, name
