"""What the table of all runs shows of one run: where it stands now, in a few numbers and two lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
import orjson

from board.analysis.findings import diagnose
from board.charts.curve_data import keep_extremes, mean_column
from board.core.arrays import FloatArray, IntArray
from board.core.findings.finding import SEVERITIES, Thresholds
from board.core.metrics.definitions import base_name
from board.core.metrics.recent import Recent, recent, window_of
from board.core.problems import count_of
from board.core.repeated_runs import setup_of
from board.core.run_differences import flat_settings
from board.index.json_values import from_json
from board.query import splits
from board.query.checks import step_checks
from board.query.run import Run

VERSION: Final = 7
"""Raised whenever the same run gets another summary."""
_LINE_POINTS: Final = 60
_DIGITS: Final = 5
MOST_SETTINGS: Final = 400
_LONGEST_SETTING: Final = 200
_PACE_STEPS: Final = 20


@dataclass(frozen=True, slots=True)
class LastMean:
    """A metric over the last steps: the mean of their means, and over how many rollouts (n).

    change: from the steps before, with the standard error of that difference; None: too few of them.
    """

    mean: float
    n: int
    change: float | None = None
    error: float | None = None

    @property
    def is_noise(self) -> bool:
        """Whether the change is within noise."""
        return Recent(self.mean, self.change, self.error).is_noise


@dataclass(frozen=True, slots=True)
class ListedFinding:
    """A finding in short. key: Finding.key, by which it is muted."""

    severity: str
    title: str
    key: str


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in short; None is not recorded.

    split: the one that means and findings are of; empty where the log has a single one. window: the
    first and the last of the steps of the means. reward_line, kl_line: (step, mean) of all steps, thinned
    to extremes. findings: those that the index alone tells, the worst first. lost, partial: lines and
    values left out. settings: of the newest start, by path, the first MOST_SETTINGS; has_more_settings:
    whether it has others. setup: as of `setup_of`, of all settings of the newest start. has_ended: as
    RunFiles has it. seconds_per_step: usual time between the last steps. timestamp: the newest recorded.
    """

    steps: int
    rollouts: int
    split: str = ""
    window: tuple[int, ...] = ()
    reward: LastMean | None = None
    kl: LastMean | None = None
    truncated: LastMean | None = None
    reward_line: tuple[tuple[float, ...], ...] = ()
    kl_line: tuple[tuple[float, ...], ...] = ()
    findings: tuple[ListedFinding, ...] = ()
    lost: int = 0
    partial: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    has_more_settings: bool = False
    setup: str = ""
    has_ended: bool | None = None
    seconds_per_step: float | None = None
    timestamp: float | None = None

    @property
    def worst(self) -> ListedFinding | None:
        """The worst finding; None: there is none."""
        return next(iter(self.findings), None)

    def without(self, muted: Set[str]) -> RunSummary:
        """The summary without the findings of these keys."""
        return replace(self, findings=tuple(one for one in self.findings if one.key not in muted))

    def to_bytes(self) -> bytes:
        """The summary as one JSON document."""
        return orjson.dumps(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self | None:
        """What to_bytes gave; None for anything else."""
        try:
            return from_json(cls, orjson.loads(content))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None


def summarised(run: Run, thresholds: Thresholds) -> RunSummary:
    """The summary of an opened run. Raises UnreadableError."""
    own, split = run, ""
    if len(names := [*splits.splits_of(run)]) > 1:
        own, split = run.where(split=names[0]), _clean(names[0])
    steps = own.steps["step"].to_numpy(np.int64)
    window = window_of(steps, int(steps[-1])) if len(steps) else steps
    findings = sorted(
        diagnose(own, thresholds, tokens=False).findings,
        key=lambda one: SEVERITIES.index(one.severity),
    )
    clock = _clock(own)
    pace = np.diff(clock[-_PACE_STEPS - 1 :])
    settings, has_more_settings = settings_of(run.settings)
    return RunSummary(
        steps=len(run.counts),
        rollouts=run.rollout_count,
        split=split,
        window=(int(window[0]), int(window[-1])) if len(window) else (),
        reward=_last_mean(own, "reward", steps),
        kl=_last_mean(own, "k3_mean", steps),
        truncated=_last_mean(own, "is_truncated", steps),
        reward_line=_line(own, "reward", steps),
        kl_line=_line(own, "k3_mean", steps),
        findings=tuple(
            ListedFinding(one.severity, _clean(one.title), _clean(one.key)) for one in findings
        ),
        lost=count_of(run.problems, "lost"),
        partial=count_of(run.problems, "partial"),
        settings=settings,
        has_more_settings=has_more_settings,
        setup=setup_of(run.settings[max(run.settings)]) if run.settings else "",
        has_ended=run.rows.files.has_ended,
        seconds_per_step=float(np.median(pace)) if len(pace) else None,
        timestamp=float(clock[-1]) if len(clock) else None,
    )


def settings_of(documents: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Settings of the newest start by path, and whether it has more than are kept: plain values as they
    are, others as JSON. documents: as Run.settings has them.
    """
    newest = documents[max(documents)] if documents else {}
    settings: dict[str, Any] = {}
    for path, value in flat_settings(newest):
        if len(settings) == MOST_SETTINGS:
            return settings, True
        if not isinstance(value, str | int | float | bool | None) or _is_huge(value):
            value = json.dumps(value, ensure_ascii=True, default=str)
        settings[_cut(path)] = _cut(value) if isinstance(value, str) else value
    return settings, False


def _cut(text: str) -> str:
    """A text of a few characters; of a longer one the hash, so that it differs from others cut there."""
    if len(text) <= _LONGEST_SETTING:
        return _clean(text)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return _clean(f"{text[: _LONGEST_SETTING - 10]}… {digest}")


def _clean(text: str) -> str:
    """A text of a few characters that UTF-8 has bytes for."""
    return text[:_LONGEST_SETTING].encode("utf-8", "replace").decode()


def _is_huge(value: object) -> bool:
    """Whether JSON has no number for it that every reader takes."""
    return isinstance(value, int | float) and not abs(value) < 2**53


def _means(run: Run, column: str) -> FloatArray | None:
    return mean_column(run.steps, base_name(column)) if column in run.columns else None


def _last_mean(run: Run, column: str, steps: IntArray) -> LastMean | None:
    values = _means(run, column)
    if values is None or not len(steps):
        return None
    now = recent(steps, values, int(steps[-1]))
    if now.mean is None:
        return None
    window = run.steps["step"].isin(window_of(steps, int(steps[-1])))
    n = int(run.steps.loc[window, f"{base_name(column)}_n"].sum())
    return LastMean(now.mean, n, now.change, now.error)


def _line(run: Run, column: str, steps: IntArray) -> tuple[tuple[float, ...], ...]:
    """The recorded means, as points of a line of a few pixels."""
    values = _means(run, column)
    if values is None:
        return ()
    known = np.flatnonzero(np.isfinite(values))
    chosen = known[keep_extremes([values[known]], [values[known]], _LINE_POINTS)]
    means = (float(f"{value:.{_DIGITS}g}") for value in values[chosen].tolist())
    return tuple(zip(map(float, steps[chosen].tolist()), means, strict=True))


def _clock(run: Run) -> FloatArray:
    """The newest timestamp of each step that has one, where they rise: else they are no clock."""
    checks = step_checks(run)
    if checks is None:
        return np.array([])
    clock = np.asarray(checks.clock, np.float64)
    clock = clock[np.isfinite(clock)]
    return clock if (np.diff(clock) >= 0).all() else clock[-1:]
