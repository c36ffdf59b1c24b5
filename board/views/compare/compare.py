"""Compare: runs over each other on every curve, what differs in their settings, one prompt in both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.curves import CurveOptions
from board.components.curve_grid import Card, Picked, curve_bar, curve_grid
from board.core.metrics.definitions import REWARD_PART, base_name, rollout_metric
from board.core.metrics.shares import in_percent
from board.core.run_differences import differences, final
from board.query.open_run import Run
from board.views.compare import shared_prompts
from board.views.frame import sidebar
from board.views.shared import cache, opened_runs, page_parts, state
from board.views.shared.text import number, one_line, plain

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
# Differ between any two starts, and say nothing about how a run was set up.
_OF_EVERY_START: Final = frozenset(("created", "started", "attempt", "name"))


def _choose(run: Run) -> tuple[Run, ...]:
    """The current run and those it is compared with."""
    names = [info.name for info in sidebar.neighbours() if info.name != run.info.name]
    chosen = state.keep("runs", names)
    usual = [] if chosen else _newest_other(run)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compared"):
        st.multiselect(
            "Compare with",
            names,
            key="runs",
            placeholder=one_line(usual[0]) if usual else "runs of this folder",
            help="By default the newest other run that is small enough to be read at once, from "
            "the same folder if there is one.",
            format_func=one_line,
            persist_state="session",
        )
        runs = [run, *_of_split(_opened(run, list(state.get("runs")) or usual))]
        _shift_fields(runs)
    return tuple(runs)


def _newest_other(run: Run) -> list[str]:
    """What a run is compared with before anything is chosen: the newest, of its own folder if any is."""
    others = [one for one in sidebar.neighbours() if one.name != run.info.name]
    small = [one for one in others if one.bytes <= _AT_ONCE_BYTES]
    beside = _folder(run.info.name)
    small.sort(key=lambda one: _folder(one.name) != beside)
    return [one.name for one in small][:1]


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _narrowed(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs with the chosen environments alone; a run has those of them that it names."""
    chosen: list[str] = state.get("env")
    held = {run.info.name: set(cache.environments_of(run)) for run in runs}
    lacking = [name for name, envs in held.items() if chosen and not envs & set(chosen)]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
    return tuple(
        cache.of_environments(run, tuple(name for name in chosen if name in held[run.info.name]))
        for run in runs
        if run.info.name not in lacking
    )


def _of_split(runs: Sequence[Run]) -> list[Run]:
    """The runs with the rollouts of the chosen split alone; those without it are left out."""
    written = str(state.get("split"))
    found = {run.info.name: cache.of_split(run, written) for run in runs}
    lacking = [name for name, run in found.items() if run is None]
    if lacking:
        st.caption(plain(f"No rollout of split {written} is in {', '.join(lacking)}.", 300))
    return [run for run in found.values() if run is not None]


def _opened(run: Run, names: Sequence[str]) -> list[Run]:
    infos = {info.name: info for info in sidebar.neighbours()}
    return [opened_runs.opened(infos[name], run.options) for name in names]


def _shift_fields(runs: Sequence[Run]) -> None:
    """How many steps each of the others is moved by, for runs that begin at another step."""
    shifts = dict(state.get("shifts"))
    held = {run.info.name for run in runs[1:]}
    if not held:
        return
    with st.popover("Shift steps", icon=":material/arrow_range:"):
        chosen: dict[str, int] = {}
        for run in runs[1:]:
            name = run.info.name
            value = st.number_input(
                plain(f"{name}: steps added"),
                value=int(shifts.get(name, 0)),
                step=1,
                key=f"shift_{state.pulls()}_{name}",
            )
            if value:
                chosen[name] = int(value)
    if chosen != shifts:
        state.put(shifts=chosen)


def _shifts_of(runs: Sequence[Run]) -> tuple[int, ...]:
    shifts: Mapping[str, int] = state.get("shifts")
    here = state.get("run")
    return tuple(0 if run.info.name == here else shifts.get(run.info.name, 0) for run in runs)


def _parts(run: Run) -> list[str]:
    return [name for name in run.metrics if name.startswith(REWARD_PART)]


def _usual(runs: tuple[Run, ...], offered: list[str]) -> list[str]:
    """The curves that are drawn before any is chosen: parts of the reward that all runs have first."""
    shared = [part for part in _parts(runs[0]) if all(part in run.metrics for run in runs)]
    wanted = ("reward", *shared[:_MOST_PARTS], *_USUAL)
    return [name for name in wanted if name in offered] or offered[:2]


def _curves(runs: tuple[Run, ...], offered: list[str]) -> list[str]:
    chosen = state.keep("cmetrics", offered)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label = f"Curves: {len(chosen)} chosen" if chosen else "Curves: default"
        with st.popover(label, key="menu_curves"):
            st.multiselect(
                "Curves",
                offered,
                key="cmetrics",
                placeholder="default",
                width=420,
                format_func=lambda name: one_line(rollout_metric(name).label),
                persist_state="session",
            )
        smoothing = page_parts.smoothing()
        ends = [
            (int(run.steps["step"].min()) + shift, int(run.steps["step"].max()) + shift)
            for run, shift in zip(runs, _shifts_of(runs), strict=True)
        ]
        first, last = min(low for low, _ in ends), max(high for _, high in ends)
        curve_bar(first, last, key=page_parts.chart_key("compare_bar"))
    metrics = list(chosen) or _usual(runs, offered)
    look = CurveOptions(band="none", smoothing=smoothing, pick=True)
    picked = curve_grid(
        [_card(runs, metric, look) for metric in metrics],
        step=state.get("step"),
        key=page_parts.chart_key("compare"),
        across=_ACROSS,
        one_legend=True,
    )
    if picked:
        _open_step(runs, picked)
    return metrics


def _card(runs: tuple[Run, ...], metric: str, look: CurveOptions) -> Card:
    drawn = cache.compared_curve(runs, _shifts_of(runs), metric, look, dark=page_parts.dark())
    lacking = [run.info.name for run in runs if metric not in run.metrics]
    named = f"{len(lacking)} of these runs" if len(lacking) > _MOST_NAMED else ", ".join(lacking)
    notes = [f"Not recorded in {one_line(named, 300)}."] if lacking else []
    return page_parts.card(
        metric, drawn, "Click a curve to see what contributes most to that step.", notes
    )


def _open_step(runs: tuple[Run, ...], picked: Picked) -> None:
    """Of the run whose curve was clicked the step as that run counts."""
    sides = zip(runs, _shifts_of(runs), strict=True)
    drawn = [(run, shift) for run, shift in sides if picked.chart in run.metrics]
    run, shift = drawn[min(picked.line, len(drawn) - 1)]
    place = {"run": run.info.name, "step": picked.step - shift, "of": picked.chart, "index": None}
    state.go("step", part="contributions", **place, token=None, only="", order="highest")


def _endings(runs: tuple[Run, ...], metrics: Sequence[str]) -> None:
    """The metrics at the end of each run, and how far from the first run's they are."""
    names = _names(runs)
    unlike = {run.info.name for run in runs[1:] if {*_parts(run)} != {*_parts(runs[0])}}
    rows: list[dict[str, object]] = []
    for metric in metrics:
        known = rollout_metric(metric)
        is_share = known.unit == "share"
        unit = "%" if is_share else known.unit
        endings = [_ending(run, metric) for run in runs]
        means = [*map(in_percent, endings)] if is_share else endings
        label = f"{known.label}, {unit}" if unit and unit not in known.label else known.label
        row: dict[str, object] = {"metric": label, **dict(zip(names, means, strict=True))}
        for run, name, mean in zip(runs[1:], names[1:], means[1:], strict=True):
            is_other = metric in _TOTALS and run.info.name in unlike
            row[f"{name} − {names[0]}"] = None if is_other else mean - means[0]
        rows.append(row)
    st.markdown(f"#### Metrics at the end :gray[means over the last {_LAST} steps of each run]")
    _say_windows(runs)
    _warn_of_rewards(runs)
    frame = pd.DataFrame(rows)
    frame = frame.astype({name: float for name in frame.columns if name != "metric"})
    formats: Any = {name: number for name in frame.columns if name != "metric"}
    st.dataframe(
        frame.style.format(formats, na_rep="–"),
        hide_index=True,
        row_height=36,
        height=min(36 * (len(frame) + 1) + 3, 420),
        placeholder="–",
    )


def _say_windows(runs: tuple[Run, ...]) -> None:
    """Which steps the means are over: those of another run may be much earlier ones."""
    told: list[str] = []
    for run, name in zip(runs, _names(runs), strict=True):
        last = run.steps["step"].tolist()[-_LAST:]
        told.append(
            f"{name}: steps {last[0]}–{last[-1]}" if len(last) > 1 else f"{name}: step {last[0]}"
        )
    st.caption(plain(" · ".join(told), 400))


def _warn_of_rewards(runs: tuple[Run, ...]) -> None:
    """Says that rewards of other parts can't be subtracted, and which parts can be compared."""
    of_run = {name: _parts(run) for name, run in zip(_names(runs), runs, strict=True)}
    if len({frozenset(parts) for parts in of_run.values()}) < 2:
        return
    shared = [part for part in _parts(runs[0]) if all(part in parts for parts in of_run.values())]
    said = "; ".join(
        f"{name}: {_listed(parts) or 'none recorded'}" for name, parts in of_run.items()
    )
    advice = f" Compare what all of them have: {_listed(shared)}." if shared else ""
    st.warning(
        plain(
            f"The reward functions differ: no difference of rewards is shown. Parts of {said}.{advice}",
            700,
        ),
        icon=":material/warning:",
    )


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(part.removeprefix(REWARD_PART) for part in parts)


def _names(runs: Sequence[Run]) -> list[str]:
    return [one_line(run.info.name, 40) for run in runs]


def _ending(run: Run, metric: str) -> float:
    stem = base_name(metric)
    column = f"{stem}_mean" if f"{stem}_mean" in run.steps else stem
    if column not in run.steps:
        return float("nan")
    values = run.steps[column].to_numpy(np.float64, na_value=np.nan)
    return final(run.steps["step"].tolist(), values, _LAST).mean


def _settings(runs: tuple[Run, ...]) -> None:
    whole = " :gray[of the whole runs, not of the environments chosen]" if state.get("env") else ""
    st.markdown(f"#### Settings that differ{whole}")
    without = [run.info.name for run in runs if not run.settings]
    known = len(runs) - len(without)
    if without:
        st.caption(plain(f"Not recorded: settings (run-*.json) of {', '.join(without)}.", 300))
    names = _names(runs)
    found = differences(dict(zip(names, map(_newest, runs), strict=True)))
    rows = [
        {
            "setting": one.key,
            **{name: _told(one.values[name]) for name in names if name in one.values},
        }
        for one in found
        if one.key not in _OF_EVERY_START
    ]
    if not rows:
        if known > 1:
            st.caption("None of the recorded settings differs.")
        return
    st.dataframe(
        pd.DataFrame(rows, columns=["setting", *names]),
        hide_index=True,
        row_height=36,
        height=min(36 * (len(rows) + 1) + 3, 420),
        placeholder="–",
    )


def _told(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _newest(run: Run) -> Mapping[str, Any]:
    """What the last start of a run was set to."""
    return run.settings[max(run.settings)] if run.settings else {}


def _render() -> None:
    run = sidebar.current()
    page_parts.header(run)
    runs = _choose(run)
    if len(runs) == 1:
        state.keep("cmetrics", run.metrics)
        words = (
            "The other runs are large, so none is read unless you ask. Choose one above to compare with."
            if len(sidebar.neighbours()) > 1
            else "There is no other run in this folder. Put a second run next to this one, or choose a "
            "log folder that holds several."
        )
        st.info(words, icon=":material/difference:")
        return
    offered = list(dict.fromkeys(name for one in runs for name in one.metrics))
    if not offered:
        st.info("Not recorded in these runs: any metric.")
        return
    own = _narrowed(runs)
    if own:
        metrics = _curves(own, offered)
        _endings(own, [*dict.fromkeys((*metrics, *offered))])
    _settings(runs)
    shared_prompts.show(runs, own)


_render()
