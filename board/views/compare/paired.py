"""Two of the compared runs, prompt by prompt: differences with intervals, and one prompt in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

import numpy as np
import pandas as pd
import streamlit as st

from board.components.small_charts import sparkline
from board.core.metrics.divergence import Divergence
from board.core.metrics.paired import (
    LEAST_PROMPTS,
    PairedDifference,
    false_discovery_rates,
    paired_difference,
)
from board.core.metrics.skewed_means import LEAST_UNBOUNDED
from board.query.compare.answer import Outcome, answer, metric_name, summary
from board.query.compare.diverged import NULL
from board.query.compare.matching import Match
from board.query.compare.paired import PairedRuns, tested_metrics
from board.query.open_run import Run
from board.query.prompts import has_prompts, key_from, written_key
from board.views.compare.compared import Compared
from board.views.shared import cache, page_parts, shortcuts, state, tables
from board.views.shared.background import show_progress
from board.views.shared.tables import Column
from board.views.shared.text import counted, number, one_line, plain, where_they_differ

_LINE_CHARACTERS: Final = 52
_MATCHES: Final = {"steps": "Same steps", "tokens": "Same tokens", "time": "Same time"}
_OUTCOMES: Final = {"": "All", "won": "B higher", "lost": "B lower", "equal": "Equal"}
_EQUAL: Final = 1e-9
_ICONS: Final[Mapping[Outcome, str]] = {
    "higher": "trending_up",
    "lower": "trending_down",
    "no difference seen": "drag_handle",
    "too few shared prompts to tell": "question_mark",
    "not compared": "block",
}


class Pair(NamedTuple):
    """Two of the runs, which have prompts, with their comparison; metric: that was clicked."""

    compared: Compared
    paired: PairedRuns
    metric: str


def show(every: Compared, narrowed: Compared) -> Pair | None:
    """What the shared prompts say: in a sentence, then by metric. The pair, None where there is none.

    narrowed: those of the runs that have any of the chosen environments, with these alone.
    """
    top = st.container(gap="small")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Prompt by prompt", width="content")
        pair_choice = st.container(width="content")
        st.space("stretch")
        matched = cast("Match", page_parts.segments("Compared at", "compare_match", _MATCHES))
    if len(narrowed.runs) > 2:
        with top:
            _every_pair(narrowed, matched)
    with pair_choice:
        runs = _choose_pair(every)
    known = {run.info.name: run for run in narrowed.runs}
    lacking = [run.info.name for run in runs if run.info.name not in known]
    if len(runs) < 2 or lacking:
        why = f"None of these environments is in {', '.join(lacking)}." if lacking else ""
        st.caption(plain(why or "Choose a second run.", 300))
        return None
    pair = narrowed.narrowed([known[run.info.name] for run in runs])
    first, second = pair.runs
    paired = cache.paired_runs(first, second, matched, _shift(pair), narrowed.runs)
    said = answer(paired)
    with top if len(narrowed.runs) == 2 else st.container():
        _say(said.sentence(*pair.names), _ICONS[said.outcome])
    metric = _differences(pair, paired, narrowed.runs) if paired.differences else ""
    if not paired.differences:
        _diverged(pair, paired)
    return Pair(pair, paired, metric) if all(map(has_prompts, pair.runs)) else None


def _shift(pair: Compared) -> int:
    """Steps added to the second run's, as the first one counts."""
    return pair.shifts[1] - pair.shifts[0]


def _say(sentence: str, icon: str) -> None:
    st.markdown(f"#### :material/{icon}: {plain(sentence, 600)}")


def _every_pair(compared: Compared, matched: Match) -> None:
    """How all other runs compare with the first: a sentence, and a row of each, whose click chooses the
    pair.
    """
    task = cache.answers_against_first(compared.runs, compared.shifts, matched)
    answers = show_progress(task, "Comparing each run with the first", "every_pair")
    if answers is None:
        return
    _say(summary(compared.names[0], answers), "compare_arrows")
    rows = [one.paired or paired_difference(np.empty(0)) for one in answers]
    p = np.array([np.nan if one.p is None else one.p for one in rows])
    labels = [one_line(metric_name(one.metric)) if one.metric else None for one in answers]
    same = len({*labels} - {None}) < 2
    row = tables.draw(
        {
            "run": Column([*compared.names[1:]], label="B", width=210),
            "answer": Column([one.outcome for one in answers], label="answer", width=190),
            **({} if same else {"metric": Column(labels, width=120)}),
            **_interval_columns(rows),
            "rate": tables.rate_column(false_discovery_rates(p).tolist(), "these runs"),
        },
        # Another pair is another table: no row of it was clicked yet.
        key=page_parts.chart_key(f"pairs {state.get('compare_pair')}"),
        most_pixels=330,
    )
    st.caption(
        plain(
            f"Each run (B) minus {compared.names[0]} (A), on the prompts that both saw. Click a row for "
            "all metrics of the pair.",
            400,
        )
    )
    if row is not None:
        names = [run.info.name for run in compared.runs]
        state.put(compare_pair=[names[0], names[row + 1]])


def _differences(pair: Compared, paired: PairedRuns, among: tuple[Run, ...]) -> str:
    """The table of differences, and by environment that of one metric; returns this metric."""
    first, second = pair.runs
    a, b = pair.names
    if paired.reward_note:
        note = paired.reward_note
        st.warning(plain(f"{note[0].upper()}{note[1:]}.", 500), icon=":material/warning:")
    names = [*paired.differences]
    tested = cache.when_diverged(first, second, tested_metrics(first, second, paired), _shift(pair))
    rows = [paired.differences[name] for name in names]
    row = tables.draw(
        {
            "metric": Column([one_line(metric_name(name)) for name in names], width=210),
            **_interval_columns(rows),
            **_diverged_columns([tested.get(name) for name in names]),
        },
        key=page_parts.chart_key("paired"),
        most_pixels=330,
    )
    words = (
        f"B − A on {counted(len(paired.keys), 'prompt')} that both saw, {paired.steps_text}. "
        f"A: {a} · B: {b}. The interval is over prompts (Student's t, corrected for skewness); there is "
        f"none for fewer than {LEAST_PROMPTS}, {LEAST_UNBOUNDED} of values that may be of any size, or "
        "where all differ by the same. "
        f"Solve rate: {paired.right_note or 'not compared'}."
    )
    st.caption(plain(words, 900))
    metric = names[row] if row is not None else names[0]
    by_env = cache.by_environment_paired(first, second, paired.matched, _shift(pair), among, metric)
    if by_env:
        label = metric_name(metric)
        st.caption(plain(f"{label} by environment; click a row above for another metric"))
        tables.draw(
            {
                "environment": Column([one.env for one in by_env], width=210),
                **_interval_columns([one.paired for one in by_env]),
                "rate": tables.rate_column((one.rate for one in by_env), "all environments"),
            },
            most_pixels=260,
        )
    return metric


def _diverged(pair: Compared, paired: PairedRuns) -> None:
    """When metrics of runs without a common prompt went apart, by the means of their steps."""
    first, second = pair.runs
    tested = cache.when_diverged(first, second, tested_metrics(first, second, paired), _shift(pair))
    if any(one.steps for one in tested.values()):
        names = [one_line(metric_name(name)) for name in tested]
        columns = _diverged_columns([*tested.values()])
        tables.draw({"metric": Column(names, width=210), **columns}, most_pixels=330)


def _diverged_columns(tested: Sequence[Divergence | None]) -> dict[str, Column]:
    return {
        "diverged": Column(
            [one and one.step for one in tested],
            "%d",
            "beyond chance from",
            130,
            f"{NULL} Empty: they do not.",
        ),
        "since": Column(
            [one and _since(one) for one in tested],
            "",
            "since",
            110,
            "The steps at which the difference most likely began, 95 % interval.",
        ),
    }


def _since(one: Divergence) -> str | None:
    if one.since is None:
        return None
    return f"{one.since}" if one.earliest == one.latest else f"{one.earliest} to {one.latest}"


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


def show_same_prompt(pair: Pair) -> None:
    """A prompt that both saw: its rewards over the steps, and its last responses in both runs."""
    compared, paired, metric = pair
    runs = compared.runs
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### The same prompt", width="content")
        outcome = ""
        if metric:
            outcome = page_parts.segments("Prompts", "compare_outcome", _OUTCOMES)
            st.caption(plain(f"in {metric_name(metric)}"), width="content")
        st.space("stretch")
        moves = st.container(horizontal=True, gap="small", width="content")
    shared = cache.shared_prompts(runs[0], runs[1])
    if shared.empty:
        st.caption("These two runs have no prompt in common.")
        return
    if outcome:
        deltas = paired.deltas[metric]
        has_it = {"won": deltas > _EQUAL, "lost": deltas < -_EQUAL, "equal": abs(deltas) <= _EQUAL}
        shared = shared[shared["key"].isin(paired.keys[has_it[outcome]])]
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
    for side, column in enumerate(st.columns(2, gap="small")):
        with column, st.container(border=True, height="stretch"):
            _show_side(runs[side], compared.names[side], key_from(chosen), side)


def _choose_pair(compared: Compared) -> tuple[Run, ...]:
    """Two of the runs: the first ones unless others are chosen."""
    runs = compared.runs
    if len(runs) == 2:
        return runs
    by_name = {run.info.name: run for run in runs}
    labels = dict(zip(by_name, compared.names, strict=True))
    chosen = state.keep("compare_pair", by_name)[:2]
    st.multiselect(
        "In",
        list(by_name),
        **state.bound("compare_pair"),
        max_selections=2,
        placeholder=" and ".join(compared.names[:2]),
        width=420,
        format_func=labels.__getitem__,
        label_visibility="collapsed",
    )
    return tuple(by_name[name] for name in chosen) if chosen else runs[:2]


def _show_side(run: Run, name: str, key: int, side: int) -> None:
    """The prompt's rewards over the run, then the best and the worst answer of its last step."""
    rollouts = cache.prompt_rollouts(run, key)
    rewards = pd.Series(rollouts.rewards).groupby(rollouts.steps).mean().to_numpy()
    st.markdown(f"**{plain(name, 90)}** :gray[seen at {counted(len(rewards), 'step')}]")
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
