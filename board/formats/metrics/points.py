"""Scalars by step, as they were read of files."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from board.core.arrays import FloatArray, IntArray, groups_of
from board.formats.parse import is_measure, is_object

MOST_NAMES: Final = 5_000
"""Metrics of one source."""
MOST_POINTS: Final = 50_000_000
MOST_NAME_CHARACTERS: Final = 300
"""A metric with a longer name is left out."""
_MOST_DEPTH: Final = 8
_BATCH_POINTS: Final = 250_000
"""Points that are handed out at once."""
_WORDS: Final = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "-infinity": -math.inf,
}
"""NaN and infinities as writers of JSON and CSV spell them, in lower case."""


class Points:
    """Scalars in the order of their file. non_finite: by name how many are NaN or infinite: gaps."""

    def __init__(self) -> None:
        self._steps: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}
        self.non_finite = Counter[str]()
        self.count = 0
        self.left_out = 0
        """Points beyond MOST_NAMES or MOST_POINTS."""
        self.too_long = 0
        """Values whose names are longer than MOST_NAME_CHARACTERS."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order in which they first appeared."""
        return tuple(name for name, steps in self._steps.items() if steps)

    def add(self, step: int, name: str, value: float) -> None:
        """Adds a point; a value that is not finite is a gap."""
        if not self._has_place(name, 1):
            return
        if self.count >= MOST_POINTS:
            self.left_out += 1
            return
        if not math.isfinite(value):
            self.non_finite[name] += 1
            value = math.nan
        self._steps[name].append(step)
        self._values[name].append(value)
        self.count += 1

    def add_all(
        self, names: Sequence[str], name: IntArray, steps: IntArray, values: FloatArray
    ) -> None:
        """Adds points, [n] each, in their order. name: of each its place among names."""
        for place, own in groups_of(name):
            self.extend(names[place], steps[own], values[own])

    def extend(self, name: str, steps: IntArray, values: FloatArray) -> None:
        """Adds points of one metric, [n] each, in their order; values that are not finite are gaps."""
        if not self._has_place(name, len(steps)):
            return
        room = MOST_POINTS - self.count
        self.left_out += max(len(steps) - room, 0)
        steps, values = steps[:room], values[:room]
        is_gap = ~np.isfinite(values)
        if gaps := int(is_gap.sum()):
            self.non_finite[name] += gaps
        self._steps[name].frombytes(steps.astype(np.int64).tobytes())
        self._values[name].frombytes(np.where(is_gap, math.nan, values).tobytes())
        self.count += len(steps)

    def _has_place(self, name: str, count: int) -> bool:
        """Whether so many points of a metric may be added; counts them where it has no place."""
        if name not in self._steps:
            if len(name) > MOST_NAME_CHARACTERS:
                self.too_long += count
                return False
            if len(self._steps) >= MOST_NAMES:
                self.left_out += count
                return False
            self._steps[name], self._values[name] = array("q"), array("d")
        return True

    def add_record(self, step: int, record: Mapping[str, Any], without: str = "") -> None:
        """Adds the numbers of a record, those of objects in it as `outer/inner`. without: its key of the
        step.
        """
        for name, value in record.items():
            if name != without:
                self._add_value(step, name, value, 0)

    def _add_value(self, step: int, name: str, value: object, depth: int) -> None:
        if isinstance(value, float):
            self.add(step, name, value)
        elif is_object(value):
            if len(name) > MOST_NAME_CHARACTERS:  # which would be copied for each value in it
                self.too_long += 1
            elif depth < _MOST_DEPTH and "_type" not in value:  # no table, no image
                for inner, own in value.items():
                    self._add_value(step, f"{name}/{inner}", own, depth + 1)
        elif isinstance(value, str):
            if (number := _WORDS.get(value.lower())) is not None:
                self.add(step, name, number)
        elif is_measure(value) and not isinstance(value, bool):
            self.add(step, name, float(value))

    def drop_from(self, step: int) -> None:
        """Drops the points at this step and later ones, which a resumed training writes again."""
        for name, steps in self._steps.items():
            known = np.frombuffer(steps, np.int64)
            if len(known) and known.max() >= step:
                stays = known < step
                values = np.frombuffer(self._values[name], np.float64)[stays]
                self._steps[name] = array("q", known[stays].tobytes())
                self._values[name] = array("d", values.tobytes())
                self.count -= int(len(known) - stays.sum())

    def lengths(self) -> dict[str, int]:
        """By name the number of points; `cut` goes back to it."""
        return {name: len(steps) for name, steps in self._steps.items()}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Takes back the points that were added since."""
        for name, values in self._values.items():
            begin = lengths.get(name, 0)
            self.count -= len(values) - begin
            if gaps := sum(map(math.isnan, values[begin:])):
                self.non_finite[name] -= gaps
            del values[begin:], self._steps[name][begin:]

    def batches(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Steps and values of a few metrics at once, one after the other in the order of `lengths`; a
        metric is in one batch.
        """
        names, count = list[str](), 0
        for name, length in self.lengths().items():
            names.append(name)
            count += length
            if count >= _BATCH_POINTS:
                yield self._columns(names)
                names, count = [], 0
        if names:
            yield self._columns(names)

    def _columns(self, names: Sequence[str]) -> tuple[IntArray, FloatArray]:
        steps = np.concatenate([np.frombuffer(self._steps[name], np.int64) for name in names])
        values = np.concatenate([np.frombuffer(self._values[name], np.float64) for name in names])
        return steps, values

    def curve(self, name: str) -> tuple[IntArray, FloatArray]:
        """The steps [n], ascending, and values [n] of a metric. Of a step that was written several times,
        by a resumed training, the last value counts.
        """
        steps = np.array(self._steps[name], np.int64)
        values = np.array(self._values[name], np.float64)
        unique, places = np.unique(steps[::-1], return_index=True)
        return unique, values[::-1][places]
