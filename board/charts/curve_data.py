"""What a curve draws: which columns, which choices, and the arrays that follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import pandas as pd

from board.charts.layout import number, safe_name
from board.charts.palette import SERIES, category, colour_key
from board.core.arrays import FloatArray, IntArray
from board.core.metrics.definitions import REWARD_PART, base_name, rollout_metric
from board.core.metrics.shares import percent, without_residue
from board.core.metrics.step_means import interval_of_step_means
from board.core.metrics.trainer import PREFIX

Band = Literal["std", "mean", "quantiles", "minmax", "runs", "groups", "none"]

MAX_POINTS: Final = 1500
"""Above this many steps a curve is thinned out to its extremes."""

_PARTS: Final = ("length", "entropy", "ratio", "groups", "truncation", "mismatch", "kl")
"""Colour keys of the parts of a reward, in order."""
_Edges = list[tuple[FloatArray, FloatArray, str]]
MEAN_BAND: Final = "95 % of the mean"
_EDGES: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "quantiles": (("q05", "q95", "5–95 %"), ("q25", "q75", "25–75 %")),
    "minmax": (("q00", "q100", "min–max"),),
    "runs": (("low", "high", "95 % of the mean over runs"),),
    "groups": (("low", "high", "95 % of the mean over groups"),),
}


@dataclass(frozen=True, slots=True)
class CurveOptions:
    """How curves are drawn; every choice applies to the mean and to its band alike.

    band: "std" is mean ± std_scale * standard deviation, no further than the smallest and the
        largest rollout of the step, and "mean"; "mean" the 95 % interval of the mean; "quantiles"
        5-95 % and 25-75 %; "minmax" the smallest and largest rollout. All are of one step's rollouts.
        "runs" and "groups" are intervals of a mean over runs and over groups.
    smoothing: s in 0..0.99, see `smoothed`.
    shift_to_zero: the first recorded mean is subtracted. log: logarithmic value axis.
    """

    band: Band = "std"
    std_scale: float = 1.0
    smoothing: float = 0.0
    shift_to_zero: bool = False
    log: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing <= 0.99:
            raise ValueError(f"smoothing is {self.smoothing:g}; expected 0 to 0.99")
        if not self.std_scale > 0:
            raise ValueError(f"std_scale is {self.std_scale:g}; expected a number above 0")


@dataclass(frozen=True, slots=True)
class Series:
    """One curve. stem: of its columns in the step table ("k3" for k3_mean, k3_std, ...).

    label: words for legend and hover, from a log perhaps: it is made safe here. colour: a key of
    `palette.SERIES`. unit: "nats", "" for none. band: whether it may have one; draw_band: whether that is
    drawn, and not only in the hover. dash: plotly's word, "" for that of the colour. possible: between
    what all its values are; see `Metric.possible`.
    """

    stem: str
    label: str
    colour: str = "reference"
    unit: str = ""
    band: bool = True
    dash: str = ""
    draw_band: bool = True
    possible: tuple[float, float] = (-math.inf, math.inf)

    @classmethod
    def of(cls, column: str) -> Series:
        """The series of a column of `Run.metrics`, in the words and unit of the metric registry."""
        metric = rollout_metric(column)
        stem = base_name(column)
        possible = metric.possible
        return cls(stem, metric.label, colour_key(stem), metric.unit, possible=possible)


def together(columns: Sequence[str], among: Sequence[str] = ()) -> list[Series]:
    """The series of columns that share a chart: the first has the band, and parts of the reward have
    their own names and a colour each.

    among: columns that share another chart of the page; one column alone has its colour there.
    """
    series = [replace(Series.of(column), band=column == columns[0]) for column in columns]
    if len(series) == 1:
        there = {one.stem: one.colour for one in together(among)} if len(among) > 1 else {}
        return [replace(one, colour=there.get(one.stem, one.colour)) for one in series]
    used = {one.colour for one in series if not one.stem.startswith(REWARD_PART)}
    free = [key for key in (*_PARTS, *SERIES) if key not in used]
    parts = [place for place, one in enumerate(series) if one.stem.startswith(REWARD_PART)]
    for place, key in zip(parts, free, strict=False):
        name = series[place].stem.removeprefix(REWARD_PART)
        series[place] = replace(series[place], label=name, colour=key)
    return series


def trainer_series(names: Sequence[str]) -> list[Series]:
    """The series of trainer metrics that share a chart: one alone has the colour of its kind."""
    if len(names) == 1:
        label = names[0].removeprefix(PREFIX)
        return [Series(names[0], label, colour_key(label.rpartition("/")[2]))]
    colours = (category(place) for place in (2, 4, 1, 3))  # orange and blue, then others
    return [
        Series(name, name.removeprefix(PREFIX), colour, band=False, dash="dash" if place else "")
        for place, (name, (colour, _)) in enumerate(zip(names, colours, strict=False))
    ]


@dataclass(slots=True)
class Drawn:
    """A series ready to draw; all arrays are [points].

    steps, values, counts, groups: as recorded: the step, its mean, how many rollouts and groups. edges:
    lower and upper edge of each band with its words, as recorded. mean, bands: shifted and smoothed;
    unsmoothed: the mean shifted only. reach: how much of the widest band decides the value axis; see
    `_reach`. points: every recorded step is a visible point, on a dotted line.
    """

    series: Series
    steps: IntArray
    values: FloatArray
    counts: FloatArray
    groups: FloatArray
    edges: list[tuple[FloatArray, FloatArray, str]]
    mean: FloatArray
    bands: list[tuple[FloatArray, FloatArray]]
    unsmoothed: FloatArray
    reach: tuple[FloatArray, FloatArray]
    left_out: int = 0
    points: bool = False


def smoothed(values: FloatArray, smoothing: float) -> FloatArray:
    """Exponential moving average over the recorded entries of `values` [n], first entry unbiased.

    y_t = Σ_k s^k x_(t-k) / Σ_k s^k, the sums over recorded entries up to t, s = smoothing: what
    TensorBoard draws (its debiased EMA). Entries that are not recorded (NaN) stay NaN and neither
    count as zero nor age the others, so the curve goes on behind a gap where it was.
    """
    known = np.isfinite(values)
    result = np.full(len(values), np.nan)
    result[known] = pd.Series(values[known]).ewm(alpha=1 - smoothing).mean()
    return result


def prepared(steps: pd.DataFrame, series: Series, options: CurveOptions) -> Drawn | None:
    """The series with its band, smoothed and shifted, at every step; None where it has no column."""
    values = mean_column(steps, series.stem)
    if values is None:
        return None
    known = values[~np.isnan(values)]
    first = known[0] if options.shift_to_zero and len(known) else 0.0

    def as_drawn(values: FloatArray) -> FloatArray:
        return smoothed(values, options.smoothing) - first if options.smoothing else values - first

    edges = _possible(steps, series, values, _band_edges(steps, series, values, options))
    low, high = _reach(steps, series, values, edges, options)
    return Drawn(
        series,
        steps["step"].to_numpy(np.int64),
        values,
        column(steps, f"{series.stem}_n"),
        column(steps, f"{series.stem}_groups"),
        edges,
        as_drawn(values),
        [
            (as_drawn(low), as_drawn(high))
            for low, high in _varying(steps, series, values, edges)
            if series.draw_band
        ],
        values - first,
        (as_drawn(low), as_drawn(high)),
    )


def _possible(steps: pd.DataFrame, series: Series, mean: FloatArray, edges: _Edges) -> _Edges:
    """The bands within what is possible: of a share 0 to 1, of another metric also the smallest and the
    largest value that the run has. No mean is left outside.
    """
    least, most = (0.0, 1.0) if series.unit == "share" else series.possible
    if series.unit != "share":
        lows, highs = (column(steps, f"{series.stem}_{name}") for name in ("q00", "q100"))
        least = np.fmax(least, np.fmin.reduce(lows, initial=np.nan))
        most = np.fmin(most, np.fmax.reduce(highs, initial=np.nan))
    return [
        (
            np.minimum(np.maximum(low, least), mean),
            np.maximum(np.minimum(high, most), mean),
            words,
        )
        for low, high, words in edges
    ]


def _varying(
    steps: pd.DataFrame, series: Series, mean: FloatArray, edges: _Edges
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The bands as they are drawn: of a share none where all rollouts of a step are alike. What the
    interval then says of rollouts that were not sampled stands in the hover alone.
    """
    alike = column(steps, f"{series.stem}_std") == 0
    alike &= series.unit == "share"
    for low, high, _ in edges:
        yield np.where(alike, mean, low), np.where(alike, mean, high)


def _reach(
    steps: pd.DataFrame, series: Series, mean: FloatArray, edges: _Edges, options: CurveOptions
) -> tuple[FloatArray, FloatArray]:
    """What of the widest band decides the value axis: no more than the standard deviation around the
    mean, so that neither the extremes of a few steps nor the interval of a few groups flatten the line.
    Where that is not known, three times the usual width of the band.
    """
    if not edges or not series.draw_band:
        return mean, mean
    low, high = next(_varying(steps, series, mean, edges))
    std = column(steps, f"{series.stem}_std")
    if np.isfinite(std).any():
        most = np.nan_to_num(std) * (options.std_scale if options.band == "std" else 1.0)
    else:
        widths = (high - low)[np.isfinite(high - low)]
        most = 3 * float(np.median(widths)) / 2 if len(widths) else 0.0
    return np.maximum(low, mean - most), np.minimum(high, mean + most)


def _band_edges(
    steps: pd.DataFrame, series: Series, mean: FloatArray, options: CurveOptions
) -> list[tuple[FloatArray, FloatArray, str]]:
    """(lower, upper, words) of each band, the widest first; edges are NaN where the mean is."""
    stem = series.stem
    if not series.band:
        return []
    if options.band == "std" and f"{stem}_std" in steps:
        reach = options.std_scale * column(steps, f"{stem}_std")
        # No rollout lies beyond: a skewed metric that is never negative would seem to be.
        least, most = (column(steps, f"{stem}_{name}") for name in ("q00", "q100"))
        low = np.maximum(mean - reach, np.nan_to_num(least, nan=-np.inf))
        high = np.minimum(mean + reach, np.nan_to_num(most, nan=np.inf))
        of_rollouts = (low, high, f"± {options.std_scale:g} std of rollouts, within the data")
        return [of_rollouts, *_interval(steps, series, mean)]
    if options.band == "mean":
        return _interval(steps, series, mean)
    return [
        (column(steps, f"{stem}_{low}"), column(steps, f"{stem}_{high}"), words)
        for low, high, words in _EDGES.get(options.band, ())
        if f"{stem}_{low}" in steps
    ]


def _interval(
    steps: pd.DataFrame, series: Series, mean: FloatArray
) -> list[tuple[FloatArray, FloatArray, str]]:
    """The band in which the mean lies; none where its error is not known."""

    def value_of(name: str) -> FloatArray:
        return mean if name == "mean" else column(steps, f"{series.stem}_{name}")

    if not np.isfinite(value_of("se")).any():
        return []
    low, high = interval_of_step_means(value_of, is_share=series.unit == "share")
    return [(low, high, MEAN_BAND)]


def thinned(one: Drawn) -> Drawn:
    """The points to draw: extremes of the line and of its widest band."""
    lows = [one.mean, *(low for low, _ in one.bands[:1])]
    highs = [one.mean, *(high for _, high in one.bands[:1])]
    rows = keep_extremes(lows, highs, MAX_POINTS)
    columns = ("steps", "values", "counts", "groups", "mean", "unsmoothed")
    return replace(
        one,
        edges=[(low[rows], high[rows], words) for low, high, words in one.edges],
        bands=[(low[rows], high[rows]) for low, high in one.bands],
        reach=(one.reach[0][rows], one.reach[1][rows]),
        **{name: getattr(one, name)[rows] for name in columns},
    )


def hover_texts(one: Drawn) -> list[str]:
    """What is recorded at each of the points, and where it is drawn if that differs."""
    series = one.series
    is_share = series.unit == "share"
    unit = f" {safe_name(series.unit, 20)}" if series.unit and not is_share else ""
    read = percent if is_share else number
    edges = [(low.tolist(), high.tolist(), words) for low, high, words in one.edges]
    texts: list[str] = []
    columns = (one.steps, one.values, one.counts, one.groups, one.mean)
    points = zip(*(column.tolist() for column in columns), strict=True)
    for i, (step, value, count, groups, drawn) in enumerate(points):
        lines = [f"{safe_name(series.label)} <b>{read(value)}</b>{unit}"]
        lines += [
            f"{read(low[i])} to {read(high[i])} ({words})"
            for low, high, words in edges
            if math.isfinite(low[i]) and math.isfinite(high[i])
        ]
        # The step is named: the nearest point of each curve is shown, of other steps too.
        counted = f", {count:.0f} rollout{'s' * (count > 1)}" if count > 0 else ""
        of_groups = f" in {groups:.0f} group{'s' * (groups > 1)}" if 0 < groups < count else ""
        lines.append(f"step {step}{counted}{of_groups}")
        if drawn != value and math.isfinite(drawn) and read(drawn) != read(value):
            lines.append(f"drawn at {read(drawn)}")
        texts.append("<br>".join(lines))
    return texts


def mean_column(steps: pd.DataFrame, stem: str) -> FloatArray | None:
    """The means of a stem [steps]; a column of that very name where it has no spread over rollouts."""
    name = next((name for name in (f"{stem}_mean", stem) if name in steps), None)
    if name is None:
        return None
    values = column(steps, name)
    known = np.where(np.isfinite(values), values, np.nan)
    return without_residue(known, column(steps, f"{stem}_std"))


def column(table: pd.DataFrame, name: str) -> FloatArray:
    """Numbers of a table [rows]; NaN where they are not recorded, throughout without such a column."""
    if name not in table:
        return np.full(len(table), np.nan)
    return table[name].to_numpy(np.float64, na_value=np.nan)


def keep_extremes(
    lows: Sequence[FloatArray], highs: Sequence[FloatArray], limit: int, keep: Sequence[int] = ()
) -> IntArray:
    """Rows, ascending, that draw n points with about `limit`.

    Cuts the rows into equal buckets and keeps of each the smallest entry of every array in `lows`
    and the largest of every array in `highs` (all [n]); with a curve in both this is what an
    oscilloscope shows. The first and last row stay too, those in `keep`, and one row of every gap
    (NaN in an array) that would close otherwise, so the result may exceed `limit` where gaps are many.
    All rows stay when n <= limit.
    """
    size = len(lows[0])
    if size <= limit:
        return np.arange(size)
    buckets = max(1, limit // (len(lows) + len(highs)))
    starts = np.linspace(0, size, buckets + 1).astype(np.int64)[:-1]
    extremes = [_lowest(array, starts) for array in (*lows, *(-array for array in highs))]
    rows = np.unique(np.concatenate([np.array([0, size - 1, *keep], np.int64), *extremes]))
    gaps = [_closed_gaps(array, rows) for array in (*lows, *highs)]
    return np.unique(np.concatenate([rows, *gaps]))


def _lowest(values: FloatArray, starts: IntArray) -> IntArray:
    """The row of the smallest entry from each start to the next, NaN left out; the start itself when
    there is nothing else.
    """
    filled = np.where(np.isnan(values), np.inf, values)
    sizes = np.diff(np.append(starts, len(values)))
    rows = np.flatnonzero(filled == np.repeat(np.minimum.reduceat(filled, starts), sizes))
    return rows[np.searchsorted(rows, starts)]


def _closed_gaps(values: FloatArray, rows: IntArray) -> IntArray:
    """A NaN row for each pair of neighbours in `rows` that has NaN between them and none at them."""
    missing = np.flatnonzero(np.isnan(values))
    if len(missing) == 0:
        return missing
    following = np.searchsorted(missing, rows[:-1], side="right")
    first = missing[np.minimum(following, len(missing) - 1)]
    inside = (first > rows[:-1]) & (first < rows[1:])
    return first[inside & ~np.isnan(values[rows[:-1]])]
