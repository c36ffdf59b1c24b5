"""The rows of the table of runs: what is known of each run, in words, numbers and lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from board.analysis.run_summary import LastMean, RunSummary
from board.components.run_table import LINE_HEIGHT, LINE_WIDTH, Cell, RunRow
from board.core.metrics.definitions import Metric, rollout_metric
from board.core.metrics.recent import WINDOW
from board.core.metrics.shares import percent
from board.index.discovery.run_info import RunInfo
from board.query.open_run import reader_titles
from board.query.run_filter import number_in
from board.views.runs.columns import setting_text
from board.views.runs.names import id_of
from board.views.runs.summaries import Known, RunSummaries
from board.views.shared.text import ago, counted, number, one_line

_LIVE_SECONDS: Final = 60.0
_LIVE_STEPS: Final = 3.0
"""A run that logs every ten minutes is no less live for it."""
_EDGE: Final = 4
"""Room for the dot at the end of a line."""
_EQUALLY_NEW: Final = 10
_SEVERITIES: Final = ("severe", "warning", "lead")
FINDING_SIGNS: Final = 120
"""Of the title of a finding, the most that a cell says."""
_MISSING: Final[Cell] = {"text": "not recorded", "sort": None, "tone": "missing"}


def row_of(
    info: RunInfo, known: Known | None, store: RunSummaries, wanted: Sequence[str], now: float
) -> RunRow:
    """The row of a run. wanted: paths of settings that have a column. now: Unix seconds."""
    share = store.is_reading(info)
    summary = None if known is None else known.summary
    state, words = state_of(info, known, share, now)
    cells: dict[str, Cell] = {"format": _format_cell(info), "changed": _changed_cell(info, state)}
    if summary is not None:
        cells |= _cells(summary)
        cells |= {id_of(path): setting_cell(summary.settings, path) for path in wanted}
    waits = (
        ""
        if known is not None
        else "waiting"
        if share is None
        else f"reading, {percent(share)}"
        if share
        else "reading"
    )
    return RunRow(
        name=info.name,
        label=one_line(info.name, 400),
        state=state,
        words=words,
        cells=cells,
        waits=waits,
        error=one_line(known.error, 300) if known is not None and summary is None else "",
        is_old=state not in ("live", "error") and store.is_old(info),
    )


def state_of(
    info: RunInfo, known: Known | None, share: float | None, now: float
) -> tuple[str, str]:
    """The state of a run, and the same in words."""
    if known is None:
        return ("waiting", "not indexed yet") if share is None else ("reading", "being indexed")
    if known.summary is None:
        return "error", "can't be read"
    age, summary = max(now - info.mtime, 0.0), known.summary
    state = run_state(age, has_ended=summary.has_ended, seconds_per_step=summary.seconds_per_step)
    words = {
        "live": "live: the log grows",
        "ended": "ended: the log says so",
        "stale": f"stale since {ago(age)}: not closed, and unchanged for so long",
        "unchanged": f"unchanged for {ago(age)}: logs of this format do not say that they ended",
    }
    return state, words[state]


def run_state(
    age_seconds: float, *, has_ended: bool | None, seconds_per_step: float | None
) -> Literal["live", "ended", "stale", "unchanged"]:
    """Whether a run is still written: what its log says, and else when its files changed last.

    live: its log grows. ended: its log says so. stale: its log would say so, and stopped growing before
    it did. unchanged: it stopped growing, and logs of its kind (has_ended: None) never say why.
    """
    if has_ended:
        return "ended"
    if age_seconds < max(_LIVE_SECONDS, _LIVE_STEPS * (seconds_per_step or 0.0)):
        return "live"
    return "unchanged" if has_ended is None else "stale"


def _format_cell(info: RunInfo) -> Cell:
    title = reader_titles(info)
    return {"text": one_line(title, 60), "sort": title}


def _changed_cell(info: RunInfo, state: str) -> Cell:
    # Runs that were copied together keep the order that discovery gave them.
    cell: Cell = {"at": info.mtime, "sort": info.mtime // _EQUALLY_NEW}
    return cell | {"text": "stale"} if state == "stale" else cell


def _cells(summary: RunSummary) -> dict[str, Cell]:
    return {
        "steps": {"text": f"{summary.steps:,}", "sort": summary.steps},
        "rollouts": {"text": f"{summary.rollouts:,}", "sort": summary.rollouts},
        "reward": _mean_cell(summary, "reward", summary.reward, summary.reward_line),
        "kl": _mean_cell(summary, "k3_mean", summary.kl, summary.kl_line),
        "truncated": _mean_cell(summary, "is_truncated", summary.truncated, ()),
        "finding": _finding_cell(summary),
        "problems": _problems_cell(summary),
    }


def _mean_cell(
    summary: RunSummary, column: str, now: LastMean | None, line: Sequence[Sequence[float]]
) -> Cell:
    """The mean with its change, how many rollouts it is over on hover, and the line of all steps."""
    if now is None:
        return {**_MISSING, "help": "The log holds no value of it at these steps."}
    metric = rollout_metric(column)
    cell: Cell = {
        "text": short_number(now.mean, metric.unit),
        "sort": now.mean,
        "n": now.n,
        "help": _about(summary, now, metric),
    }
    if now.change and column == "reward":
        cell |= {"note": _signed(now.change), "noteTone": _tone(now, metric)}
    return cell | {"line": line_places([line])[0]} if len(line) > 1 else cell


def _about(summary: RunSummary, now: LastMean, metric: Metric) -> str:
    first, last = summary.window
    steps = f"steps {first}–{last}" if last > first else f"step {first}"
    split = f" of split {one_line(summary.split, 40)}" if summary.split else ""
    words = f"{metric.label}: mean of {steps}{split}, n = {counted(now.n, 'rollout')}"
    if now.change is None or now.error is None:
        return words
    scale, unit = (100, " points") if metric.unit == "share" else (1, "")
    change = f"{_signed(scale * now.change)} ± {scale * now.error:.2g}{unit}"
    return f"{words}; change from the {WINDOW} steps before {change} (standard error over steps)"


def short_number(value: float, unit: str) -> str:
    """A mean with three significant digits, a share in percent."""
    return number(value if unit == "share" else float(f"{value:.3g}"), unit)


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{abs(value):.2g}"


def _tone(now: LastMean, metric: Metric) -> str:
    """Green and red only beyond noise, and only where a direction is good."""
    if not now.change or now.is_noise or metric.better == "neither":
        return ""
    return "good" if (now.change > 0) == (metric.better == "up") else "bad"


def line_places(lines: Sequence[Sequence[Sequence[float]]]) -> list[list[int]]:
    """The points of lines within one box, the smallest at the bottom; of each line x and y in turn."""
    xs, ys = zip(*(point for line in lines for point in line), strict=True)
    (left, right), (low, high) = (min(xs), max(xs)), (min(ys), max(ys))
    across = (LINE_WIDTH - 2 * _EDGE) / ((right - left) or 1.0)
    up = (LINE_HEIGHT - 2 * _EDGE) / ((high - low) or 1.0)
    middle = (LINE_HEIGHT / 2 - _EDGE) if high == low else 0.0
    return [
        [
            place
            for x, y in line
            for place in (
                round(_EDGE + (x - left) * across),
                round(LINE_HEIGHT - _EDGE - ((y - low) * up + middle)),
            )
        ]
        for line in lines
    ]


def _finding_cell(summary: RunSummary) -> Cell:
    """The worst finding, and how many problems the log has."""
    problems = _problem_words(summary)
    total = summary.lost + summary.partial
    note: Cell = (
        {"note": problems, "noteTone": "severe" if summary.lost else "warning"} if total else {}
    )
    if summary.worst is None:
        # Behind all findings: runs with problems before those without.
        return {
            **note,
            "text": "" if total else "none",
            "tone": "missing",
            "sort": min(total, 1) / 2,
        }
    severity, title = summary.worst.severity, summary.worst.title
    others = len(summary.findings) - 1
    more = f", and {counted(others, 'other')}" if others else ""
    return {
        **note,
        "text": one_line(title, FINDING_SIGNS),
        "tone": severity,
        "sort": len(_SEVERITIES) - _SEVERITIES.index(severity) + min(total, 1) / 2,
        "help": f"{severity}{more}: open Findings",
    }


def _problem_words(summary: RunSummary) -> str:
    parts = [
        counted(summary.lost, "line") + " not used" if summary.lost else "",
        counted(summary.partial, "value") + " left out" if summary.partial else "",
    ]
    return ", ".join(filter(None, parts))


def _problems_cell(summary: RunSummary) -> Cell:
    total = summary.lost + summary.partial
    if not total:
        return {"text": "none", "tone": "missing", "sort": 0}
    tone = "severe" if summary.lost else "warning"
    return {"text": f"{total:,}", "tone": tone, "sort": total, "help": _problem_words(summary)}


def setting_cell(settings: Mapping[str, Any], path: str) -> Cell:
    """The value of a setting, by its path."""
    if path not in settings:
        return {"text": "–", "sort": None, "tone": "missing", "help": "not recorded"}
    value = settings[path]
    text, number = setting_text(value), number_in(value)
    sort = None if value is None else text if number is None else number
    return {"text": one_line(text, 120), "sort": sort}
