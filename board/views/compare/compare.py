"""Compare: runs over each other on every curve, and what differs in their settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.curve_data import CurveOptions, mean_column
from board.components.curve_grid import Card, Click, curve_bar
from board.core.metrics.definitions import REWARD_PART, base_name, reward_parts, rollout_metric
from board.core.metrics.shares import in_percent
from board.core.metrics.trainer import PREFIX
from board.core.run_differences import differences, final_mean
from board.export.run_pages import compared_page
from board.query.open_run import Run
from board.views.compare import paired, seeds
from board.views.frame import sidebar
from board.views.shared import cache, opened_runs, page_export, page_parts, state, tables, trainer
from board.views.shared.text import counted, number, one_line, plain

_USUAL: Final = (
    *("k3_mean", "response_tokens", "entropy_mean"),
    *("is_truncated", "mismatch_kl_mean"),
)
_MOST_PARTS: Final = 3
_ACROSS: Final = 3
_MOST_NAMED: Final = 2
# Sums of parts: of other parts they are other quantities.
_TOTALS: Final = frozenset(
    ("reward", "ref_reward", "reward_gap", "valid_reward", "ref_valid_reward")
)
_LAST: Final = 10
# More takes longer to read than to ask for.
_AT_ONCE_BYTES: Final = 256 << 20


def _choose_runs(run: Run) -> tuple[Run, ...]:
    """The current run and those it is compared with, of the chosen split, without those that lack it."""
    infos = {info.name: info for info in sidebar.neighbours() if info.name != run.info.name}
    chosen = state.keep("compare_runs", infos)
    usual = [] if chosen else _newest_other(run)
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compared")
    row.multiselect(
        "Compare with",
        [*infos],
        **state.bound("compare_runs"),
        placeholder=one_line(usual[0]) if usual else "runs of this folder",
        help="By default the newest other run that is small enough to be read at once, from "
        "the same folder if there is one.",
        format_func=one_line,
    )
    split, names = str(state.get("split")), list(state.get("compare_runs")) or usual
    runs, lacking = [run], list[str]()
    with st.spinner(f"Opening {counted(len(names), 'run')} …"):
        for name in names:
            of_split = cache.of_split(opened_runs.opened(infos[name], run.options), split)
            if of_split is None:
                lacking.append(name)
            else:
                runs.append(of_split)
    with row:
        if lacking:
            st.caption(plain(f"No rollout of split {split} is in {', '.join(lacking)}.", 300))
        _shift_fields(runs)
    return tuple(runs)


def _newest_other(run: Run) -> list[str]:
    """What a run is compared with before anything is chosen: the newest, of its own folder if any is."""
    folder = run.info.name.rpartition("/")[0]
    small = [
        one.name
        for one in sidebar.neighbours()
        if one.name != run.info.name and one.bytes <= _AT_ONCE_BYTES
    ]
    return sorted(small, key=lambda name: name.rpartition("/")[0] != folder)[:1]


def _narrow_to_environments(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs with the chosen environments alone, without those that have none of them."""
    chosen: list[str] = state.get("env")
    envs = [tuple(env for env in chosen if env in cache.environments_of(run)) for run in runs]
    lacking = [run.info.name for run, own in zip(runs, envs, strict=True) if chosen and not own]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
    return tuple(
        cache.of_environments(run, own)
        for run, own in zip(runs, envs, strict=True)
        if run.info.name not in lacking
    )


def _shift_fields(runs: Sequence[Run]) -> None:
    """Fields for the number of steps each other run is moved by, for runs that begin at another step."""
    if len(runs) < 2:
        return
    before: Mapping[str, int] = state.get("compare_shifts")
    with st.popover("Shift steps", icon=":material/arrow_range:"):
        shifts = {
            run.info.name: st.number_input(
                plain(f"{run.info.name}: steps added"),
                value=int(before.get(run.info.name, 0)),
                step=1,
                key=f"shift_{state.pulls()}_{run.info.name}",
            )
            for run in runs[1:]
        }
    state.put(compare_shifts={name: steps for name, steps in shifts.items() if steps})


def _shared_parts(runs: tuple[Run, ...]) -> list[str]:
    parts = reward_parts(runs[0].metrics)
    return [part for part in parts if all(part in run.metrics for run in runs)]


def _curves(runs: tuple[Run, ...], offered: list[str]) -> list[str]:
    """Draws the curves of the chosen metrics; returns these metrics."""
    of_names = {**state.get("compare_shifts"), state.get("run"): 0}
    shifts = tuple(of_names.get(run.info.name, 0) for run in runs)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        chosen = page_parts.choose_metrics("compare_metrics", offered, width=420)
        smoothing = page_parts.smoothing()
        steps = [run.steps["step"] + shift for run, shift in zip(runs, shifts, strict=True)]
        first, last = min(own.min() for own in steps), max(own.max() for own in steps)
        curve_bar(int(first), int(last), key=page_parts.chart_key("compare_bar"))
    usual = ("reward", *_shared_parts(runs)[:_MOST_PARTS], *_USUAL)
    metrics = chosen or [name for name in usual if name in offered] or offered[:2]
    look = CurveOptions(band="none", smoothing=smoothing)
    cards = [_card(runs, shifts, metric, look) for metric in metrics]
    if clicked := page_parts.curves(cards, "compare", across=_ACROSS, one_legend=True):
        _open_step(runs, shifts, clicked)
    return metrics


def _card(runs: tuple[Run, ...], shifts: tuple[int, ...], metric: str, look: CurveOptions) -> Card:
    trainers = tuple(map(trainer.metrics, runs)) if metric.startswith(PREFIX) else ()
    drawn = cache.compared_curve(runs, shifts, metric, look, trainers, dark=page_parts.dark())
    lacking = [run.info.name for run in runs if metric not in _metrics_of(run)]
    named = f"{len(lacking)} of these runs" if len(lacking) > _MOST_NAMED else ", ".join(lacking)
    notes = [f"Not recorded in {one_line(named, 300)}."] if lacking else []
    return page_parts.card(
        metric, drawn, "Click a curve to see what contributes most to that step.", notes
    )


def _open_step(runs: tuple[Run, ...], shifts: tuple[int, ...], clicked: Click) -> None:
    """Opens the step of the run whose curve was clicked, as that run counts its steps."""
    sides = zip(runs, shifts, strict=True)
    drawn = [(run, shift) for run, shift in sides if clicked.chart in _metrics_of(run)]
    run, shift = drawn[min(clicked.line, len(drawn) - 1)]
    place = {"run": run.info.name, "step": clicked.step - shift, "index": None, "token": None}
    column = clicked.chart
    if column.startswith(PREFIX):
        column = trainer.explaining_metric(run, clicked.step - shift)
    metric = {"step_metric": column, "step_only": "", "step_order": "highest"}
    state.go("step", step_part="contributions", **place, **metric)


def _endings(runs: tuple[Run, ...], metrics: Sequence[str]) -> None:
    """The metrics at the end of each run, and how far from the first run's they are."""
    names = _names(runs)
    known = [rollout_metric(metric) for metric in metrics]
    units = ["%" if one.unit == "share" else one.unit for one in known]
    labels = [
        f"{one.label}, {unit}" if unit and unit not in one.label else one.label
        for one, unit in zip(known, units, strict=True)
    ]
    ends = pd.DataFrame(index=range(len(metrics)))
    for name, run in zip(names, runs, strict=True):
        ends[name] = [_end(run, metric) for metric in metrics]
    is_share = np.array([one.unit == "share" for one in known])
    ends[is_share] = ends[is_share].map(in_percent)
    parts = [{*reward_parts(run.metrics)} for run in runs]
    is_total = np.array([metric in _TOTALS for metric in metrics])
    for name, own in list(zip(names, parts, strict=True))[1:]:
        gap = ends[name] - ends[names[0]]
        ends[f"{name} − {names[0]}"] = gap.mask(is_total & (own != parts[0]))
    st.markdown(f"#### Metrics at the end :gray[means over the last {_LAST} steps of each run]")
    # The last steps of one run may be much earlier than those of another.
    last_steps = [(name, [*run.counts][-_LAST:]) for name, run in zip(names, runs, strict=True)]
    ranges = {
        name: f"steps {last[0]}–{last[-1]}" if len(last) > 1 else f"step {last[0]}"
        for name, last in last_steps
    }
    if len({*ranges.values()}) == 1:
        ranges = {"all runs": ranges[names[0]]}
    st.caption(plain(" · ".join(map(": ".join, ranges.items())), 400))
    if any(own != parts[0] for own in parts):
        _warn_of_rewards(runs)
    formats: Any = dict.fromkeys(ends, number)
    ends.insert(0, "metric", labels)
    tables.draw_frame(ends.style.format(formats, na_rep="–"), most_pixels=420)


def _metrics_of(run: Run) -> tuple[str, ...]:
    """What can be compared of a run: metrics of its rollouts, then those of its trainer."""
    return (*run.metrics, *trainer.metrics(run).curves)


def _end(run: Run, metric: str) -> float:
    """The mean over the last steps of a run; NaN where it is not recorded."""
    if metric.startswith(PREFIX):
        curve = trainer.metrics(run).curves.get(metric)
        return np.nan if curve is None else final_mean(curve.values, _LAST)
    means = mean_column(run.steps, base_name(metric))
    return np.nan if means is None else final_mean(means, _LAST)


def _warn_of_rewards(runs: tuple[Run, ...]) -> None:
    """Says that rewards of other parts can't be subtracted, and which parts can be compared."""

    def listed(parts: Sequence[str]) -> str:
        return ", ".join(part.removeprefix(REWARD_PART) for part in parts)

    own = [listed(reward_parts(run.metrics)) or "none recorded" for run in runs]
    parts = "; ".join(map(": ".join, zip(_names(runs), own, strict=True)))
    shared = listed(_shared_parts(runs))
    advice = f" Compare the parts that all of them have: {shared}." if shared else ""
    words = (
        "The reward functions differ: rewards with different parts are not subtracted. Parts of "
        f"{parts}.{advice}"
    )
    st.warning(plain(words, 700), icon=":material/warning:")


def _names(runs: Sequence[Run]) -> list[str]:
    return [one_line(run.info.name, 40) for run in runs]


def _settings(runs: tuple[Run, ...]) -> None:
    """What the last start of each run was set to, where it differs."""
    whole = " :gray[of the whole runs, not of the environments chosen]" if state.get("env") else ""
    st.markdown(f"#### Settings that differ{whole}")
    without = [run.info.name for run in runs if not run.settings]
    if without:
        st.caption(plain(f"Not recorded: settings (run-*.json) of {', '.join(without)}.", 300))
    names = _names(runs)
    newest = [run.settings[max(run.settings)] if run.settings else {} for run in runs]
    rows = [
        {"setting": path}
        | {
            name: json.dumps(value, ensure_ascii=False, default=str)
            for name, value in values.items()
        }
        for path, values in differences(dict(zip(names, newest, strict=True))).items()
    ]
    if rows:
        tables.draw_frame(pd.DataFrame(rows, columns=["setting", *names]), most_pixels=420)
    elif len(runs) - len(without) > 1:
        st.caption("None of the recorded settings differs.")


def _render() -> None:
    run = sidebar.current()
    page_parts.header(run)
    runs = _choose_runs(run)
    if len(runs) == 1:
        state.keep("compare_metrics", run.metrics)
        words = (
            "The other runs are large, so none is read unless you ask. Choose one above to compare with."
            if len(sidebar.neighbours()) > 1
            else "There is no other run in this folder. Put a second run next to this one, or choose a "
            "log folder that holds several."
        )
        st.info(words, icon=":material/difference:")
        return
    offered = list(dict.fromkeys(name for one in runs for name in _metrics_of(one)))
    # Those of rollouts first, whichever run has them.
    offered.sort(key=lambda name: name.startswith(PREFIX))
    if not offered:
        st.info("Not recorded in these runs: any metric.")
        return
    narrowed = _narrow_to_environments(runs)
    if narrowed:
        metrics = _curves(narrowed, offered)
        drawn = [name for name in metrics if not name.startswith(PREFIX)]
        page_export.offer(
            f"{run.info.name}_compared",
            partial(compared_page, narrowed, drawn, state.get("compare_shifts")),
        )
        if len(narrowed) > 2:
            seeds.show(narrowed, offered)
        _endings(narrowed, [*dict.fromkeys((*metrics, *offered))])
    _settings(runs)
    paired.show(runs, narrowed)


_render()
