"""What stands in a log that a test had written: its lines, and what the board reads of them."""

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from read_formats import records, run_at, values_of

from exporters import RolloutExporter
from exporters.arrays.batch import Batch
from exporters.record import encode_line
from exporters.writing.lines import native_line


def lines(exporter: RolloutExporter, kind: str | None = None) -> list[dict[str, Any]]:
    """The lines of an exporter's file, or those of one type."""
    parsed = map(json.loads, exporter.path.read_text().splitlines())
    return [line for line in parsed if kind in (None, line["type"])]


def lines_of_batch(batch: Batch, rank: int = 0) -> list[dict[str, Any]]:
    """The rollouts of a batch as they would be written."""
    rows = ((row, batch.cut(row)) for row in batch.rows)
    written = (encode_line(native_line(batch, cut, row, rank=rank, digits=5)) for row, cut in rows)
    return [json.loads(line) for line in written]


def opened(folder: Path) -> list[dict[str, Any]]:
    """Rollouts of a run that has no problem, by step and index, as plain values by name.

    Whatever the record holds stands side by side: step, ids, token arrays (None where a token has no
    value), texts, scores and extras.
    """
    run = run_at(folder)
    assert not run.problems
    return [*map(values_of, records(run))]


def assert_rollouts(folder: Path, *expected: Mapping[str, Any]) -> None:
    """The board opens these rollouts, in this order; None: not recorded."""
    rollouts = opened(folder)
    assert len(rollouts) == len(expected)
    for rollout, values in zip(rollouts, expected, strict=True):
        assert {name: rollout.get(name) for name in values} == {
            name: pytest.approx(value) for name, value in values.items()
        }


def with_real(stand_in: Any, module: str, name: str) -> list[Any]:
    """A stand-in for something of a framework, and its own where that can be imported."""
    with suppress(ImportError):
        return [stand_in, getattr(import_module(module), name)]
    return [stand_in]
