"""Compare: runs over each other on every curve, what differs in their settings, one prompt in both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.curves import CurveOptions
from board.components.curve_grid import Card, Picked, curve_grid
from board.components.sparkline import sparkline
from board.core.metrics import rollout_metric
from board.core.run_differences import differences, final
from board.errors import BoardError
from board.store.run import Run
from board.store.run_prompts import RunPrompts, shared_prompts
from board.store.steps import base_name
from board.views import _cached, _cached_looks, _keys, _page, _sidebar, _state
from board.views._text import counted, number, one_line, piece_shown, plain

_USUAL: Final = (
    *("reward", "k3_mean", "response_tokens", "entropy_mean"),
    *("is_truncated", "mismatch_kl_mean"),
)
_LAST: Final = 10
_MOST_PROMPTS: Final = 2000
# More takes longer to read than to ask for.
_AT_ONCE_BYTES: Final = 256 << 20
_TEXT_HEIGHT: Final = 220
# Differ between any two starts, and say nothing about how a run was set up.
_OF_EVERY_START: Final = frozenset(("created", "started", "attempt", "name"))


def _choose(run: Run) -> tuple[Run, ...]:
    """The current run and those it is compared with."""
    names = [info.name for info in _sidebar.neighbours() if info.name != run.info.name]
    chosen = _state.keep("runs", names)
    usual = [] if chosen else _newest_other(run)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.multiselect(
            "Compare with",
            names,
            key="runs",
            placeholder=one_line(usual[0]) if usual else "runs of this folder",
            help="Until some are chosen: the newest other run that is small enough to be read at "
            "once, of the same folder if there is one.",
            width=420,
            format_func=one_line,
            persist_state="session",
        )
        runs = [run, *_of_split(_opened(run, list(_state.get("runs")) or usual))]
        _shift_fields(runs)
    return tuple(runs)


def _newest_other(run: Run) -> list[str]:
    """What a run is compared with before anything is chosen: the newest, of its own folder if any is."""
    others = [one for one in _sidebar.neighbours() if one.name != run.info.name]
    small = [one for one in others if one.bytes <= _AT_ONCE_BYTES]
    beside = _folder(run.info.name)
    small.sort(key=lambda one: _folder(one.name) != beside)
    return [one.name for one in small][:1]


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _narrowed(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs with the chosen environments alone; a run has those of them that it names."""
    chosen: list[str] = _state.get("env")
    held = {run.info.name: set(_cached.environments(run)) for run in runs}
    lacking = [name for name, envs in held.items() if chosen and not envs & set(chosen)]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
    return tuple(
        _cached.narrowed(run, tuple(name for name in chosen if name in held[run.info.name]))
        for run in runs
        if run.info.name not in lacking
    )


def _of_split(runs: Sequence[Run]) -> list[Run]:
    """The runs with the rollouts of the chosen split alone; those without it are left out."""
    written = str(_state.get("split"))
    found = {run.info.name: _cached.of_split(run, written) for run in runs}
    lacking = [name for name, run in found.items() if run is None]
    if lacking:
        st.caption(plain(f"No rollout of split {written} is in {', '.join(lacking)}.", 300))
    return [run for run in found.values() if run is not None]


def _opened(run: Run, names: Sequence[str]) -> list[Run]:
    infos = {info.name: info for info in _sidebar.neighbours()}
    return [_cached.run(infos[name], run.options) for name in names]


def _shift_fields(runs: Sequence[Run]) -> None:
    """How many steps each of the others is moved by, for runs that begin at another step."""
    shifts = dict(_state.get("shifts"))
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
                key=f"shift_{_state.pulls()}_{name}",
            )
            if value:
                chosen[name] = int(value)
    if chosen != shifts:
        _state.put(shifts=chosen)


def _shifts_of(runs: Sequence[Run]) -> tuple[int, ...]:
    shifts: Mapping[str, int] = _state.get("shifts")
    here = _state.get("run")
    return tuple(0 if run.info.name == here else shifts.get(run.info.name, 0) for run in runs)


def _curves(runs: tuple[Run, ...], offered: list[str]) -> list[str]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = _state.keep("cmetrics", offered)
        st.multiselect(
            "Curves",
            offered,
            key="cmetrics",
            placeholder="the usual ones",
            width=420,
            format_func=lambda name: one_line(rollout_metric(name).label),
            persist_state="session",
        )
        smoothing = _page.smoothing()
    metrics = list(chosen) or [name for name in _USUAL if name in offered] or offered[:2]
    look = CurveOptions(band="none", smoothing=smoothing, pick=True)
    cards = [_card(runs, metric, look) for metric in metrics]
    picked = curve_grid(cards, step=_state.get("step"), key=_page.chart_key("compare"))
    if picked:
        _open_step(runs, picked)
    return metrics


def _card(runs: tuple[Run, ...], metric: str, look: CurveOptions) -> Card:
    drawn = _cached_looks.compared_curve(runs, _shifts_of(runs), metric, look, dark=_page.dark())
    lacking = [run.info.name for run in runs if metric not in run.metrics]
    notes = [f"Not recorded in {one_line(', '.join(lacking), 300)}."] if lacking else []
    return _page.card(metric, drawn, "Click a curve to see what carries that step.", notes)


def _open_step(runs: tuple[Run, ...], picked: Picked) -> None:
    """Of the run whose curve was clicked the step as that run counts."""
    sides = zip(runs, _shifts_of(runs), strict=True)
    drawn = [(run, shift) for run, shift in sides if picked.chart in run.metrics]
    run, shift = drawn[min(picked.line, len(drawn) - 1)]
    place = {"run": run.info.name, "step": picked.step - shift, "of": picked.chart, "index": 0}
    _state.go("spike", **place, token=None, only="", order="highest")


def _endings(runs: tuple[Run, ...], metrics: Sequence[str]) -> None:
    """The metrics at the end of each run, and how far from the first run's they are."""
    rows: list[dict[str, object]] = []
    for metric in metrics:
        known = rollout_metric(metric)
        unit, scale = ("%", 100) if known.unit == "share" else (known.unit, 1)
        means = [scale * _ending(run, metric) for run in runs]
        label = f"{known.label}, {unit}" if unit and unit not in known.label else known.label
        row: dict[str, object] = {"metric": label}
        row |= dict(zip(_names(runs), means, strict=True))
        for name, mean in zip(_names(runs)[1:], means[1:], strict=True):
            row[f"{name} - {_names(runs)[0]}"] = mean - means[0]
        rows.append(row)
    st.markdown(f"#### Metrics at the end :gray[mean of the last {_LAST} recorded steps]")
    frame = pd.DataFrame(rows)
    config = {
        name: st.column_config.NumberColumn(name, format="%.4g")
        for name in map(str, frame.columns)
        if name != "metric"
    }
    st.dataframe(
        frame,
        hide_index=True,
        row_height=36,
        height=min(36 * (len(frame) + 1) + 3, 420),
        placeholder="not recorded",
        column_config=config,
    )


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
    whole = " :gray[of the whole runs, not of the environments chosen]" if _state.get("env") else ""
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


def _same_prompt(runs: tuple[Run, ...], narrowed: tuple[Run, ...]) -> None:
    """A prompt that two runs share: its rewards over the steps, and what was answered last.

    narrowed: those of the runs that have any of the chosen environments, with these alone.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### The same prompt", width="content")
        runs = _pair(runs)
        st.space("stretch")
        moves = st.container(horizontal=True, gap="small", width="content")
    if len(runs) < 2:
        st.caption("Choose a second run.")
        return
    whole, own_runs = runs[0], {run.info.name: run for run in narrowed}
    lacking = [run.info.name for run in runs if run.info.name not in own_runs]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
        return
    runs = tuple(own_runs[run.info.name] for run in runs)
    found = [_cached_looks.prompts(run) for run in runs]
    left, right = found[0], found[1]
    if left is None or right is None:
        without = runs[0] if left is None else runs[1]
        told = _page.not_recorded(without.columns, ("prompt", "reward"))
        st.caption(plain(f"{without.info.name}: {told}", 300))
        return
    shared: list[int] = shared_prompts(left, right, _MOST_PROMPTS).tolist()
    if not shared:
        st.caption("These two runs have no prompt in common.")
        return
    of_run: list[int] = _cached_looks.codes_in(whole, left)[shared].tolist()
    # A prompt chosen on another page need not be shared: no mistake that has to be told.
    if _state.get("prompt") not in of_run:
        _state.put(prompt=None)
    _state.ensure("prompt", of_run, of_run[0])
    texts = dict(zip(of_run, left.texts(shared), strict=True))
    st.selectbox(
        "Prompt",
        of_run,
        key="prompt",
        format_func=lambda code: piece_shown(texts[code], 120),
        label_visibility="collapsed",
        help=None,
        persist_state="session",
    )
    code = shared[of_run.index(int(_state.get("prompt")))]
    with moves:
        _keys.through("shared prompt", of_run, int(_state.get("prompt")), _choose_prompt)
    other = int(np.flatnonzero(right.text_keys == left.text_keys[code])[-1])
    sides = zip(runs, (left, right), (code, other), strict=True)
    columns = zip(st.columns(2, gap="small"), sides, strict=True)
    for side, (column, (run, prompts, own)) in enumerate(columns):
        with column, st.container(border=True, height="stretch"):
            _prompt_side(run, prompts, own, side)


def _choose_prompt(prompt: int) -> None:
    _state.put(prompt=prompt)


def _pair(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The two runs that are held side by side: the first two unless others are chosen."""
    if len(runs) == 2:
        return runs
    by_name = {run.info.name: run for run in runs}
    chosen = _state.keep("pair", by_name)[:2]
    st.multiselect(
        "In",
        list(by_name),
        key="pair",
        max_selections=2,
        placeholder=one_line(" and ".join([*by_name][:2])),
        width=420,
        format_func=one_line,
        label_visibility="collapsed",
        persist_state="session",
    )
    return tuple(by_name[name] for name in chosen) if chosen else runs[:2]


def _prompt_side(run: Run, prompts: RunPrompts, code: int, side: int) -> None:
    """The prompt's rewards over the run, then the best and the worst answer of its last step."""
    rewards = prompts.of([code]).visits.rewards
    st.markdown(f"**{plain(run.info.name, 60)}** :gray[seen at {counted(len(rewards), 'step')}]")
    known = rewards[np.isfinite(rewards)]
    if len(known):
        st.metric(
            "Reward, last",
            number(float(known[-1])),
            number(float(known[-1] - known[0])) if len(known) > 1 else None,
            delta_description="since its first step" if len(known) > 1 else None,
        )
        if len(known) > 1:
            sparkline(known.tolist(), tone="gray", key=f"rewards-{side}")
    own = prompts.rollouts(code)
    last = np.flatnonzero(own.steps == own.steps.max())
    scores = own.rewards[last]
    order = last[np.argsort(np.where(np.isfinite(scores), -scores, np.inf), kind="stable")]
    for place in dict.fromkeys((int(order[0]), int(order[-1]))):
        _answer(run, int(own.steps[place]), int(own.indices[place]))


def _answer(run: Run, step: int, index: int) -> None:
    try:
        opened = _cached.rollout(run, step, index, str(_state.get("tokenizer")))
    except BoardError as error:
        st.caption(plain(error, 200))
        return
    reward = opened.record.scores.get("reward")
    label = plain(f"step {step} · rollout {index} · reward {number(reward)}")
    if st.button(
        label, key=f"answer_{run.info.name}_{index}", type="tertiary", help="Opens the rollout"
    ):
        _state.go("rollout", run=run.info.name, step=step, index=index, token=None)
    text = opened.record.texts.get("response") or "".join(opened.tokens)
    lines = sum(1 + len(line) // 52 for line in text.split("\n"))
    height: Any = "content" if 24 * lines < _TEXT_HEIGHT else _TEXT_HEIGHT
    if text:
        st.code(text, language=None, wrap_lines=True, height=height)


def _render() -> None:
    run = _sidebar.current()
    _page.header(run, [_keys.moves("prompt that both runs hold")])
    runs = _choose(run)
    if len(runs) == 1:
        _state.keep("cmetrics", run.metrics)
        some = len(_sidebar.neighbours()) > 1
        words = (
            "The other runs are large: choose which to read and compare this one with."
            if some
            else "This folder holds no other run."
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
    _same_prompt(runs, own)


_render()
