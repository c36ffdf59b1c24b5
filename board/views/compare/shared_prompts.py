"""One prompt in two of the compared runs: its rewards over the steps and its last responses."""

from __future__ import annotations

from typing import Final

import numpy as np
import streamlit as st

from board.components.small_charts import sparkline
from board.query.open_run import Run
from board.query.prompts import has_prompts, key_from, written_key
from board.views.shared import cache, page_parts, shortcuts, state
from board.views.shared.text import counted, number, one_line, plain, where_they_differ

_LINE_CHARACTERS: Final = 52


def show(runs: tuple[Run, ...], narrowed: tuple[Run, ...]) -> None:
    """A prompt that two runs share: its rewards over the steps, and its last responses.

    narrowed: those of the runs that have any of the chosen environments, with these alone.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### The same prompt", width="content")
        runs = _choose_pair(runs)
        st.space("stretch")
        moves = st.container(horizontal=True, gap="small", width="content")
    if len(runs) < 2:
        st.caption("Choose a second run.")
        return
    own_runs = {run.info.name: run for run in narrowed}
    lacking = [run.info.name for run in runs if run.info.name not in own_runs]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
        return
    runs = tuple(own_runs[run.info.name] for run in runs)
    for run in runs:
        if not has_prompts(run):
            missing = f"Not recorded in this run: {page_parts.lacking('Prompts', run)}."
            st.caption(plain(f"{run.info.name}: {missing}", 300))
            return
    shared = cache.shared_prompts(runs[0], runs[1])
    if shared.empty:
        st.caption("These two runs have no prompt in common.")
        return
    labels = where_they_differ(shared["prompt"].tolist(), 120)
    texts = dict(zip(map(written_key, shared["key"].tolist()), labels, strict=True))
    # A prompt chosen on another page need not be shared: that is no wrong link.
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
    rewards = cache.prompt_table(run, (key,))["rewards"].iloc[0]
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
    rollouts = cache.prompt_rollouts(run, key)
    order = page_parts.best_first(rollouts, int(rollouts.steps.max()))
    for place in dict.fromkeys((order[0], order[-1])):
        page_parts.answer_to_prompt(run, rollouts, place, width=_LINE_CHARACTERS)
