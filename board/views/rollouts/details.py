"""What stands at the side of a rollout: references, scores with formulas, other columns, the record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout
from board.components.reader.frame import Detail, Score
from board.core.metrics.definitions import REWARD_PART, rollout_metric
from board.query.open_run import Run
from board.views.shared.text import number, one_line

_TEXTS: Final = (("ground_truth", "Ground truth"), ("ref_response", "Reference response"))
_SCORES: Final = (
    *("reward", "ref_reward", "reward_gap", "valid_reward", "ref_valid_reward", "advantage"),
    *("k1_mean", "k3_mean", "k3_max", "mismatch_kl_mean", "entropy_mean", "response_tokens"),
)
_LONGEST_EXTRA: Final = 400
_LONGEST_RECORD: Final = 2_000_000
"""Characters of a record that a page shows; more of it would hold up the browser."""


def details_of(run: Run, opened: OpenRollout, row: pd.Series[Any], *, raw: bool) -> list[Detail]:
    """The sections of the side panel. raw: with the record of the log, else a button that asks for it."""
    texts = opened.record.texts
    found = [Detail(title, texts[name]) for name, title in _TEXTS if name in texts]
    found.append(Detail("Scores", rows=_scores(row) or [Score("no score", "not recorded")]))
    extras = _extras(opened)
    if extras:
        found.append(Detail("Other columns", rows=extras))
    found.append(Detail("Place in the log", rows=_places(run, row)))
    title = "Raw record"
    found.append(
        Detail(title, _record(opened.line), tall=True) if raw else Detail(title, ask="raw")
    )
    return found


def _scores(row: pd.Series[Any]) -> list[Score]:
    names = [name for name in _SCORES if name in row]
    names += [str(name) for name in row.index if str(name).startswith(REWARD_PART)]
    found: list[Score] = []
    for name in names:
        if pd.isna(row[name]):
            continue
        metric = rollout_metric(name)
        unit = "" if metric.unit in ("", "share") else f" {metric.unit}"
        shown = number(float(row[name]), metric.unit) + unit
        found.append(Score(metric.label, shown, metric.formula))
    return found


def _extras(opened: OpenRollout) -> list[Score]:
    record = opened.record
    named = {name: value for name, value in record.ids.items() if name not in ("env", "split")}
    shown = {**named, **record.extras}
    return [
        Score(one_line(name), _said(value)) for name, value in shown.items() if value is not None
    ]


def _said(value: Any) -> str:
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=str)
        except (RecursionError, ValueError):
            return "nested too deep to be shown"
    return text if len(text) <= _LONGEST_EXTRA else f"{text[:_LONGEST_EXTRA]}…"


def _places(run: Run, row: pd.Series[Any]) -> list[Score]:
    found: list[Score] = []
    for place in (row, *run.joined_places(row)):
        file = run.info.path_of(run.info.files[int(place["file"])])
        found.append(Score(str(file), f"line {int(place['line'])}, {int(place['size']):,} bytes"))
    return found


def _record(line: Mapping[str, Any]) -> str:
    """The line of the log as it was parsed, as JSON; cut where it is very long."""
    try:
        text = json.dumps(line, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "The record is nested too deep to be shown."
    if len(text) <= _LONGEST_RECORD:
        return text
    return f"{text[:_LONGEST_RECORD]}\n… cut after {_LONGEST_RECORD:,} of {len(text):,} characters"
