"""Two of the compared runs, prompt by prompt: differences with intervals, and one prompt in both."""

from __future__ import annotations

from typing import Final, cast

import numpy as np
import pandas as pd
import streamlit as st

from board.components.small_charts import sparkline
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.paired import (
    RESAMPLES,
    SEED,
    PairedDifference,
    false_discovery_rates,
)
from board.query.compare.matching import Match
from board.query.compare.paired import SOLVE_RATE, PairedRuns
from board.query.open_run import Run
from board.query.prompts import has_prompts, key_from, written_key
from board.views.shared import cache, page_parts, shortcuts, state, tables
from board.views.shared.background import show_progress
from board.views.shared.tables import Column
from board.views.shared.text import counted, number, one_line, plain, where_they_differ

_LINE_CHARACTERS: Final = 52
_MATCHES: Final = {"steps": "Same steps", "tokens": "Same tokens", "time": "Same time"}
_OUTCOMES: Final = {"": "All", "won": "B higher", "lost": "B lower", "equal": "Equal"}
_EQUAL: Final = 1e-9


def show(runs: tuple[Run, ...], narrowed: tuple[Run, ...]) -> None:
    """What two runs did on the prompts that both saw.

    narrowed: those of the runs that have any of the chosen environments, with these alone.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Prompt by prompt", width="content")
        pair = st.container(width="content")
        st.space("stretch")
        matched = cast("Match", page_parts.segments("Compared at", "compare_match", _MATCHES))
    if len(narrowed) > 2:
        _every_pair(narrowed, matched)
    with pair:
        runs = _choose_pair(runs)
    if len(runs) < 2:
        st.caption("Choose a second run.")
        return
    own_runs = {run.info.name: run for run in narrowed}
    lacking = [run.info.name for run in runs if run.info.name not in own_runs]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
        return
    first, second = (own_runs[run.info.name] for run in runs)
    for run in (first, second):
        if not has_prompts(run):
            missing = f"Not recorded in this run: {page_parts.lacking('Prompts', run)}."
            st.caption(plain(f"{run.info.name}: {missing}", 300))
            return
    compared = cache.paired_runs(first, second, matched)
    metric = ""
    if compared.differences:
        metric = _differences(first, second, compared)
    else:
        st.caption(_why_none(compared))
    _same_prompt((first, second), compared, metric)


def _every_pair(runs: tuple[Run, ...], matched: Match) -> None:
    """A row for each other run: its difference from the first one. A click chooses that pair."""
    first, *others = runs
    if not has_prompts(first) or "reward" not in first.metrics:
        return
    task = cache.solve_rates_against_first(runs, matched)
    rows = show_progress(task, "Comparing each run with the first", "every_pair")
    if rows is None:
        return
    known = [(run, one) for run, one in zip(others, rows, strict=True) if one is not None]
    if not known:
        return
    p = np.array([np.nan if one.p is None else one.p for _, one in known])
    st.caption(
        plain(
            f"Solve rate of each run (B) minus that of {first.info.name} (A), on the prompts that both "
            "saw. Click a row for all metrics of the pair.",
            400,
        )
    )
    row = tables.draw(
        {
            "run": Column([one_line(run.info.name, 80) for run, _ in known], label="B", width=210),
            **_interval_columns([one for _, one in known]),
            "rate": tables.rate_column(false_discovery_rates(p).tolist(), "these runs"),
        },
        # Another pair is another table: no row of it was clicked yet.
        key=page_parts.chart_key(f"pairs {state.get('compare_pair')}"),
        most_pixels=330,
    )
    if row is not None:
        state.put(compare_pair=[first.info.name, known[row][0].info.name])


def _why_none(compared: PairedRuns) -> str:
    if compared.steps is not None:
        return "No prompt is in both runs at these steps."
    if compared.matched == "steps":
        return "No step is in both runs: compare them at the same tokens or time."
    what = "response tokens" if compared.matched == "tokens" else "timestamps"
    return f"Not recorded in both runs: {what}."


def _differences(first: Run, second: Run, compared: PairedRuns) -> str:
    """The table of differences, and by environment that of one metric; returns this metric."""
    words = (
        f"B − A on {counted(len(compared.keys), 'prompt')} that both saw, {compared.steps_text}. "
        f"A: {first.info.name} · B: {second.info.name}. The interval is a bootstrap over prompts "
        f"({RESAMPLES:,} resamples, seed {SEED})."
    )
    st.caption(plain(words, 600))
    if compared.reward_note:
        note = compared.reward_note
        st.warning(plain(f"{note[0].upper()}{note[1:]}.", 500), icon=":material/warning:")
    names = [*compared.differences]
    diverged = [
        None if name == SOLVE_RATE else cache.when_diverged(first, second, name).step
        for name in names
    ]
    rows = [compared.differences[name] for name in names]
    row = tables.draw(
        {
            "metric": Column([_label(name) for name in names], width=210),
            **_interval_columns(rows),
            "diverged": Column(
                diverged,
                "%d",
                "beyond chance from",
                130,
                "The first step at which the means of both runs differ beyond chance, by a sequential "
                "test with at most 5 % false alarms over the whole run. Empty: they do not.",
            ),
        },
        key=page_parts.chart_key("paired"),
        most_pixels=330,
    )
    metric = names[row] if row is not None else names[0]
    by_env = cache.by_environment_paired(first, second, compared.matched, metric)
    if by_env:
        st.caption(plain(f"{_label(metric)} by environment; click a row above for another metric"))
        tables.draw(
            {
                "environment": Column([one.env for one in by_env], width=210),
                **_interval_columns([one.paired for one in by_env]),
                "rate": tables.rate_column((one.rate for one in by_env), "all environments"),
            },
            most_pixels=260,
        )
    return metric


def _label(name: str) -> str:
    return "solve rate" if name == SOLVE_RATE else one_line(rollout_metric(name).label)


def _interval_columns(rows: list[PairedDifference]) -> dict[str, Column]:
    return {
        "prompts": Column([one.prompts for one in rows], "localized", width=75),
        "difference": Column([one.difference for one in rows], "%.4g", "B − A", 85),
        "low": Column([one.low for one in rows], "%.4g", "95 % from", 85),
        "high": Column([one.high for one in rows], "%.4g", "to", 85),
        "won": Column([one.won for one in rows], "localized", "B higher", 75, "Prompts."),
        "lost": Column([one.lost for one in rows], "localized", "B lower", 75, "Prompts."),
        "equal": Column([one.equal for one in rows], "localized", width=65, help="Prompts."),
    }


def _same_prompt(runs: tuple[Run, Run], compared: PairedRuns, metric: str) -> None:
    """A prompt that both saw: its rewards over the steps, and its last responses in both runs."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### The same prompt", width="content")
        outcome = ""
        if metric:
            outcome = page_parts.segments("Prompts", "compare_outcome", _OUTCOMES)
            st.caption(plain(f"in {_label(metric)}"), width="content")
        st.space("stretch")
        moves = st.container(horizontal=True, gap="small", width="content")
    shared = cache.shared_prompts(*runs)
    if shared.empty:
        st.caption("These two runs have no prompt in common.")
        return
    if outcome:
        deltas = compared.deltas[metric]
        has_it = {"won": deltas > _EQUAL, "lost": deltas < -_EQUAL, "equal": abs(deltas) <= _EQUAL}
        shared = shared[shared["key"].isin(compared.keys[has_it[outcome]])]
        if shared.empty:
            st.caption("There is no such prompt.")
            return
    labels = where_they_differ(shared["prompt"].tolist(), 120)
    texts = dict(zip(map(written_key, shared["key"].tolist()), labels, strict=True))
    # A prompt chosen on another page need not be shared: the link is not wrong.
    if state.get("prompt") not in texts:
        state.put(prompt=None)
    state.ensure("prompt", texts, next(iter(texts)))
    chosen = str(page_parts.menu("Prompt", "prompt", texts, texts.__getitem__))
    with moves:
        shortcuts.through("shared prompt", [*texts], chosen, lambda key: state.put(prompt=key))
    for side, (column, run) in enumerate(zip(st.columns(2, gap="small"), runs, strict=True)):
        with column, st.container(border=True, height="stretch"):
            _show_side(run, key_from(chosen), side)


def _choose_pair(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Two of the runs: the first ones unless others are chosen."""
    if len(runs) == 2:
        return runs
    by_name = {run.info.name: run for run in runs}
    chosen = state.keep("compare_pair", by_name)[:2]
    st.multiselect(
        "In",
        list(by_name),
        **state.bound("compare_pair"),
        max_selections=2,
        placeholder=one_line(" and ".join([*by_name][:2])),
        width=420,
        format_func=one_line,
        label_visibility="collapsed",
    )
    return tuple(by_name[name] for name in chosen) if chosen else runs[:2]


def _show_side(run: Run, key: int, side: int) -> None:
    """The prompt's rewards over the run, then the best and the worst answer of its last step."""
    rollouts = cache.prompt_rollouts(run, key)
    rewards = pd.Series(rollouts.rewards).groupby(rollouts.steps).mean().to_numpy()
    st.markdown(f"**{plain(run.info.name, 60)}** :gray[seen at {counted(len(rewards), 'step')}]")
    known = rewards[np.isfinite(rewards)]
    if len(known) > 1:
        # Streamlit's arrow points down for a hyphen, not for a minus sign.
        change = number(float(known[-1] - known[0])).replace("−", "-")
        words = "since its first step"
        st.metric("Reward, last", number(float(known[-1])), change, delta_description=words)
        sparkline(known.tolist(), key=f"rewards-{side}")
    elif len(known):
        st.metric("Reward, last", number(float(known[-1])))
    order = page_parts.best_first(rollouts, int(rollouts.steps.max()))
    for place in dict.fromkeys((order[0], order[-1])):
        page_parts.answer_to_prompt(run, rollouts, place, width=_LINE_CHARACTERS)
