"""From token arrays to one number per rollout, many rollouts at a time: a dozen numpy calls for each cost
more than parsing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray
from board.core.metrics import kl
from board.core.metrics.definitions import DERIVED, REDUCTIONS, Reduction

_MASKS: Final = ("is_masked", "is_masked_high", "is_masked_low", "clipped")
"""Of a token that the trainer did not look at they say nothing: that is no missing value."""
_LOGPROBS: Final = frozenset(("logprobs", "ref_logprobs", "old_logprobs", "sampling_logprobs"))
NEEDED: Final = (
    *("logprobs", "ref_logprobs", "old_logprobs", "sampling_logprobs", "entropy"),
    *_MASKS,
)
"""Token arrays that enter per-rollout aggregates; loss_mask selects the tokens."""

COLUMNS: Final = (*(column for column, _, _ in REDUCTIONS), "loss_tokens", "missing_values")

_MAX_PENDING_TOKENS: Final = 1 << 14
"""Tokens collected before they are reduced: 128 KB per array stay in the processor's cache."""

_BY_METRIC: Final[Mapping[str, tuple[tuple[str, Reduction], ...]]] = {
    metric: tuple((column, how) for column, other, how in REDUCTIONS if other == metric)
    for metric in dict.fromkeys(metric for _, metric, _ in REDUCTIONS)
}
_MADE_TOGETHER: Final[Mapping[tuple[str, ...], Callable[..., tuple[FloatArray, ...]]]] = {
    ("k1", "k2", "k3"): kl.reference,
    ("mismatch_ratio", "mismatch_kl"): kl.mismatch,
}
"""Metrics of the same arrays that take less time together."""


@dataclass(slots=True)
class _Alike:
    """Rollouts that recorded the same arrays, all of one length within a rollout."""

    rows: list[int] = field(default_factory=list[int])
    lengths: list[int] = field(default_factory=list[int])
    arrays: dict[str, list[FloatArray]] = field(default_factory=dict[str, list[FloatArray]])


class Aggregator:
    """Turns the token arrays of successive rollouts into the columns named in `COLUMNS`."""

    def __init__(self) -> None:
        self._rows = 0
        self._pending = 0
        self._alike: dict[tuple[str, ...], _Alike] = {}
        self._results: list[tuple[npt.NDArray[np.intp], dict[str, FloatArray]]] = []
        self._gaps: dict[str, list[int]] = {}

    def add(self, arrays: Mapping[str, FloatArray]) -> None:
        """Adds one rollout: those of `NEEDED` and loss_mask that it has, all of the same length."""
        if arrays and len(next(iter(arrays.values()))):
            self.add_together({name: [values] for name, values in arrays.items()})
        else:
            self.pass_over(1)

    def add_together(self, arrays: Mapping[str, Sequence[FloatArray]]) -> None:
        """Adds rollouts that recorded the same arrays, none of them empty: by name that of each."""
        names = tuple(arrays)
        lengths = list(map(len, arrays[names[0]]))
        alike = self._alike.get(names)
        if alike is None:
            alike = self._alike[names] = _Alike(arrays={name: [] for name in names})
        alike.rows.extend(range(self._rows, self._rows + len(lengths)))
        alike.lengths.extend(lengths)
        for name, values in arrays.items():
            alike.arrays[name].extend(values)
        self._rows += len(lengths)
        self._pending += sum(lengths)
        if self._pending >= _MAX_PENDING_TOKENS:
            self._reduce_pending()

    def pass_over(self, rows: int) -> None:
        """Adds so many rollouts that recorded none of the arrays."""
        self._rows += rows

    def finish(self) -> dict[str, FloatArray]:
        """Columns of `COLUMNS`, each float64 [rollouts added], NaN where not recorded; none where no
        rollout recorded any array.
        """
        self._reduce_pending()
        if not self._results:
            return {}
        columns = {name: np.full(self._rows, np.nan) for name in COLUMNS}
        for rows, reduced in self._results:
            for name, values in reduced.items():
                columns[name][rows] = values
        return columns

    def gaps(self) -> Mapping[str, list[int]]:
        """By array: rollouts, counted from 0, with entries that are null, NaN, infinite, or a mask's fill
        value. After finish.
        """
        return self._gaps

    def _reduce_pending(self) -> None:
        for alike in self._alike.values():
            rows = np.asarray(alike.rows, np.intp)
            columns, incomplete = _reduced(alike)
            self._results.append((rows, columns))
            for name, which in incomplete.items():
                self._gaps.setdefault(name, []).extend(rows[which].tolist())
        self._alike = {}
        self._pending = 0


@np.errstate(over="ignore", invalid="ignore")
def _reduced(alike: _Alike) -> tuple[dict[str, FloatArray], dict[str, BoolArray]]:
    """The columns of these rollouts, and by array which of them have entries that are no numbers."""
    arrays = {
        name: parts[0] if len(parts) == 1 else np.concatenate(parts)
        for name, parts in alike.arrays.items()
    }
    for name in arrays.keys() & _LOGPROBS:
        arrays[name] = kl.without_fill(arrays[name])
    mask = arrays.pop("loss_mask", None)
    lengths = np.asarray(alike.lengths, np.intp)
    in_loss = None if mask is None else mask > 0
    missing, incomplete = _missing(arrays, in_loss, _starts(lengths))
    columns: dict[str, FloatArray] = {"missing_values": missing}
    if in_loss is not None:
        if not in_loss.all():
            lengths = np.add.reduceat(in_loss, _starts(lengths), dtype=np.intp)
            arrays = {name: values[in_loss] for name, values in arrays.items()}
        columns["loss_tokens"] = lengths.astype(np.float64)
    some = lengths > 0
    starts, counts = _starts(lengths)[some], lengths[some].astype(np.float64)
    for metric, values in _metrics(arrays) if some.any() else ():
        for column, reduced in _reduce(
            values, starts, counts, _BY_METRIC[metric], gaps=bool(incomplete)
        ):
            columns[column] = np.full(len(some), np.nan)
            columns[column][some] = reduced
    return columns, incomplete


def _metrics(arrays: Mapping[str, FloatArray]) -> Iterator[tuple[str, FloatArray]]:
    """The metrics that these arrays make, each with its values."""
    made = {**arrays}
    for name in _BY_METRIC:
        derived = DERIVED.get(name)
        if derived and name not in made and all(need in arrays for need in derived.needs):
            made |= _made_of(name, [arrays[need] for need in derived.needs])
        if name in made:
            yield name, made.pop(name)


def _made_of(name: str, inputs: Sequence[FloatArray]) -> dict[str, FloatArray]:
    """A metric, and those that are made together with it."""
    for names, compute in _MADE_TOGETHER.items():
        if name in names:
            return dict(zip(names, compute(*inputs), strict=True))
    return {name: DERIVED[name].compute(*inputs)}


def _starts(lengths: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Where each segment begins among segments of these lengths."""
    starts = np.zeros(len(lengths), np.intp)
    np.cumsum(lengths[:-1], out=starts[1:])
    return starts


def _reduce(
    values: FloatArray,
    starts: npt.NDArray[np.intp],
    counts: FloatArray,
    wanted: Sequence[tuple[str, Reduction]],
    *,
    gaps: bool,
) -> Iterator[tuple[str, FloatArray]]:
    """By column one number per segment over its finite entries; NaN where there is none.

    starts, counts: of segments that are not empty. gaps: some entries may be no finite numbers.
    """
    sums, clean = np.add.reduceat(values, starts), values
    # An overflow makes infinities of finite numbers; the sum is none either then.
    if gaps or not math.isfinite(sums.sum()):
        finite = np.isfinite(values)
        counts = np.add.reduceat(finite, starts, dtype=np.float64)
        sums = np.add.reduceat(np.where(finite, values, 0.0), starts)
        clean = np.where(finite, values, -np.inf)
    for column, how in wanted:
        largest = how == "max"
        reduced = np.maximum.reduceat(clean, starts) if largest else sums / np.maximum(counts, 1.0)
        yield column, np.where(counts > 0, reduced, np.nan)


def _missing(
    arrays: Mapping[str, FloatArray], in_loss: BoolArray | None, starts: npt.NDArray[np.intp]
) -> tuple[FloatArray, dict[str, BoolArray]]:
    """Recorded entries in the loss that are null, NaN or infinite, per segment; and by array, bool
    [segments]: whether it has such entries, in the loss or not.
    """
    missing = np.zeros(len(starts))
    incomplete: dict[str, BoolArray] = {}
    for name, values in arrays.items():
        # The quick test: a sum of finite numbers may overflow, too.
        if name in _MASKS or math.isfinite(values.sum()):
            continue
        gap = ~np.isfinite(values)
        if gap.any():
            incomplete[name] = np.logical_or.reduceat(gap, starts)
            gap = gap if in_loss is None else gap & in_loss
            missing += np.add.reduceat(gap, starts, dtype=np.float64)
    return missing, incomplete
