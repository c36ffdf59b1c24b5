"""The only source of metrics below a folder, read, and its points."""

import os
from pathlib import Path

from board.formats.metrics import is_metric_name, metric_sources
from board.formats.metrics.base import MetricSource


def only_source(folder: Path, *, at_rest: bool = False) -> MetricSource:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    if at_rest:
        for path in files:
            os.utime(path, (1_700_000_000,) * 2)
    wanted = [path for path in files if is_metric_name(path.name) or path.suffix == ".jsonl"]
    (source,) = metric_sources(wanted, folder)
    source.update()
    return source


def points_of(source: MetricSource) -> list[tuple[int, str, float]]:
    curves = {name: source.points.curve(name) for name in source.points.names}
    return sorted(
        (int(step), name, float(value))
        for name, (steps, values) in curves.items()
        for step, value in zip(steps, values, strict=True)
    )
