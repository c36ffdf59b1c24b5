"""One prompt in two of the compared runs: its rewards over the steps and its last responses."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import streamlit as st

from board.components.sparkline import sparkline
from board.errors import BoardError
from board.query.open_run import Run
from board.query.prompts import key_from, shared_prompts, written_key
from board.views.shared import cache, page_parts, shortcuts, state
from board.views.shared.text import counted, number, one_line, plain, where_they_differ

_MOST_PROMPTS: Final = 2000
_TEXT_HEIGHT: Final = 220


def show(runs: tuple[Run, ...], narrowed: tuple[Run, ...]) -> None:
    """A prompt that two runs share: its rewards over the steps, and its last responses.

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
    own_runs = {run.info.name: run for run in narrowed}
    lacking = [run.info.name for run in runs if run.info.name not in own_runs]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
        return
    runs = tuple(own_runs[run.info.name] for run in runs)
    found = [cache.prompts_of(run) for run in runs]
    left, right = found[0], found[1]
    if left is None or right is None:
        without = runs[0] if left is None else runs[1]
        told = page_parts.not_recorded(without.columns, ("prompt", "reward"))
        st.caption(plain(f"{without.info.name}: {told}", 300))
        return
    shared = shared_prompts(left, right, _MOST_PROMPTS)
    if not shared:
        st.caption("These two runs have no prompt in common.")
        return
    table = cache.prompt_table(runs[0], tuple(shared))
    labels = where_they_differ(table["prompt"].tolist(), 120)
    texts = dict(zip(map(written_key, shared), labels, strict=True))
    # A prompt chosen on another page need not be shared: no mistake that has to be told.
    if state.get("prompt") not in texts:
        state.put(prompt=None)
    state.ensure("prompt", texts, next(iter(texts)))
    st.selectbox(
        "Prompt",
        list(texts),
        key="prompt",
        format_func=lambda key: texts[key],
        label_visibility="collapsed",
        help=None,
        persist_state="session",
    )
    chosen = str(state.get("prompt"))
    with moves:
        shortcuts.through("shared prompt", list(texts), chosen, _choose_prompt)
    for side, (column, run) in enumerate(zip(st.columns(2, gap="small"), runs, strict=True)):
        with column, st.container(border=True, height="stretch"):
            _prompt_side(run, key_from(chosen), side)


def _choose_prompt(prompt: str) -> None:
    state.put(prompt=prompt)


def _pair(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The two runs that are held side by side: the first two unless others are chosen."""
    if len(runs) == 2:
        return runs
    by_name = {run.info.name: run for run in runs}
    chosen = state.keep("pair", by_name)[:2]
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


def _prompt_side(run: Run, key: int, side: int) -> None:
    """The prompt's rewards over the run, then the best and the worst answer of its last step."""
    rewards = cache.prompt_table(run, (key,))["rewards"].iloc[0]
    st.markdown(f"**{plain(run.info.name, 60)}** :gray[seen at {counted(len(rewards), 'step')}]")
    known = rewards[np.isfinite(rewards)]
    if len(known):
        st.metric(
            "Reward, last",
            number(float(known[-1])),
            # Streamlit's arrow points down for a hyphen, not for a minus sign.
            number(float(known[-1] - known[0])).replace("−", "-") if len(known) > 1 else None,
            delta_description="since its first step" if len(known) > 1 else None,
        )
        if len(known) > 1:
            sparkline(known.tolist(), tone="gray", key=f"rewards-{side}")
    own = cache.prompt_rollouts(run, key)
    last = np.flatnonzero(own.steps == own.steps.max())
    scores = own.rewards[last]
    order = last[np.argsort(np.where(np.isfinite(scores), -scores, np.inf), kind="stable")]
    for place in dict.fromkeys((int(order[0]), int(order[-1]))):
        _answer(run, int(own.steps[place]), int(own.indices[place]))


def _answer(run: Run, step: int, index: int) -> None:
    try:
        opened = cache.rollout(run, step, index, str(state.get("tokenizer")))
    except BoardError as error:
        st.caption(plain(error, 200))
        return
    reward = opened.record.scores.get("reward")
    label = plain(f"step {step} · rollout {index} · reward {number(reward)}")
    if st.button(
        label, key=f"answer_{run.info.name}_{index}", type="tertiary", help="Opens the rollout"
    ):
        state.go("rollouts", run=run.info.name, step=step, index=index, token=None)
    text = opened.record.texts.get("response") or "".join(opened.tokens)
    lines = sum(1 + len(line) // 52 for line in text.split("\n"))
    height: Any = "content" if 24 * lines < _TEXT_HEIGHT else _TEXT_HEIGHT
    if text:
        st.code(text, language=None, wrap_lines=True, height=height)
