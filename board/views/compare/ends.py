"""Tables of compared runs: their metrics over the last common steps, and the settings that differ."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from board.core.metrics.definitions import REWARD_PART, reward_parts, rollout_metric
from board.core.run_differences import differences
from board.query.compare.ends import EXPLAINED, LAST, MetricEnd
from board.views.compare.compared import Compared, shared_parts
from board.views.shared import cache, state, tables
from board.views.shared.tables import Column
from board.views.shared.text import one_line, plain

_WIDTH = 165
_CHARACTER_PIXELS = 7.4
"""Streamlit cuts a text that is aligned to the right at its beginning, without a sign."""


def show(compared: Compared, metrics: Sequence[str]) -> None:
    """The metrics over the last steps that all runs have, and how far from the first run's they are."""
    st.markdown(f"#### Metrics at the end :gray[means over the last {LAST} steps that all have]")
    ends = cache.run_ends(compared.runs, compared.shifts, tuple(metrics), compared.trainers)
    known = [end for end in ends if len(end.steps)]
    parts = [{*reward_parts(run.metrics)} for run in compared.runs]
    if any(names != parts[0] for names in parts):
        _say_parts(compared)
    if not known:
        st.info(
            "No step is in all of these runs, so their ends are not compared. Shift the steps of a run "
            "that counts from another one, or leave out runs.",
            icon=":material/width:",
        )
        return
    st.caption(plain(_explained(ends, compared), 900))
    tables.draw(_columns(known, compared.names), most_pixels=420)


def _explained(ends: Sequence[MetricEnd], compared: Compared) -> str:
    """Which steps the means are over, and what the intervals are."""
    steps = {end.steps_text: None for end in ends}
    texts = [f"Over {next(iter(steps))} of all runs." if len(steps) == 1 else ""]
    moved = zip(compared.names, compared.shifts, strict=True)
    texts += [f"Steps of {name} {shift:+d}." for name, shift in moved if shift]
    without = [rollout_metric(end.metric).label for end in ends if not len(end.steps)]
    texts.append(EXPLAINED)
    if without:
        texts.append(f"Without a common step, and left out: {', '.join(without)}.")
    return " ".join(filter(None, texts))


def _columns(ends: Sequence[MetricEnd], names: Sequence[str]) -> dict[str, Column]:
    metrics = [rollout_metric(end.metric) for end in ends]
    units = [metric.unit for metric in metrics]
    labels = [one_line(metric.label_with_unit) for metric in metrics]
    columns = {"metric": Column(labels, width=210)}
    steps = [end.steps_text for end in ends]
    for place, name in enumerate(names):
        texts = [end.means[place].text(unit) for end, unit in zip(ends, units, strict=True)]
        columns[f"run {place}"] = _numbers(texts, one_line(name))
        if place:
            texts = [
                end.gaps[place - 1].text(unit, signed=True)
                for end, unit in zip(ends, units, strict=True)
            ]
            columns[f"gap {place}"] = _numbers(texts, one_line(f"minus {names[0]}"))
    if len({*steps}) > 1:
        columns["steps"] = Column(steps, width=150)
    return columns


def _numbers(texts: Sequence[str], label: str) -> Column:
    """A column of numbers with intervals, as wide as the longest."""
    pixels = int(_CHARACTER_PIXELS * max(map(len, texts), default=0)) + 20
    return Column(texts, "", label, max(_WIDTH, pixels), alignment="right")


def _say_parts(compared: Compared) -> None:
    """Says that rewards of other parts can't be subtracted, and which parts can be compared."""

    def listed(parts: Sequence[str]) -> str:
        return ", ".join(part.removeprefix(REWARD_PART) for part in parts)

    parts = [listed(reward_parts(run.metrics)) or "none recorded" for run in compared.runs]
    of_runs = "; ".join(map(": ".join, zip(compared.names, parts, strict=True)))
    shared = listed(shared_parts(compared.runs))
    advice = f" Compare the parts that all of them have: {shared}." if shared else ""
    words = (
        "The reward functions differ: rewards with different parts are not subtracted. Parts of "
        f"{of_runs}.{advice}"
    )
    st.caption(f":material/warning: {plain(words, 700)}")


def show_settings(compared: Compared) -> None:
    """What the last start of each run was set to, where it differs."""
    whole = " :gray[of the whole runs, not of the environments chosen]" if state.get("env") else ""
    st.markdown(f"#### Settings that differ{whole}")
    sides = [*zip(compared.names, compared.runs, strict=True)]
    without = [name for name, run in sides if not run.settings]
    if without:
        st.caption(plain(f"Not recorded: settings (run-*.json) of {', '.join(without)}.", 300))
    newest = {name: run.settings[max(run.settings)] if run.settings else {} for name, run in sides}
    differing = differences(newest)
    if not differing:
        if len(sides) - len(without) > 1:
            st.caption(
                "None of the recorded settings differs, but for names and folders of the runs."
            )
        return
    columns = {"setting": Column([*differing], width=300)}
    for place, (name, _) in enumerate(sides):
        values = [
            json.dumps(of_runs[name], ensure_ascii=False, default=str) if name in of_runs else None
            for of_runs in differing.values()
        ]
        columns[f"run {place}"] = Column(values, "", one_line(name))
    frame = pd.DataFrame({key: column.values for key, column in columns.items()})
    configs = {str(key): columns[str(key)].config(values) for key, values in frame.items()}
    tables.draw_frame(frame, configs, most_pixels=420)
