"""Prompts: the same prompt through training. Never solved, regressed, newly solved, most volatile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.light import light
from board.charts.prompt_charts import prompt_course
from board.components.curve_grid import Card, curve_bar, curve_grid
from board.core.groups.statistics import IntArray
from board.core.metrics.kl import FloatArray
from board.core.metrics.shares import percent
from board.query.open_run import Run
from board.query.prompts import PromptRollouts, RunPrompts, key_from, written_key
from board.views.frame import sidebar
from board.views.prompts import answers
from board.views.shared import cache, page_parts, recording_hints, shortcuts, state, table_headings
from board.views.shared.text import plain, where_they_differ

_SHOWN_ROWS: Final = 500
_TEXT_HEIGHT: Final = 200
# A prompt of more characters or lines is scrolled.
_TALL_TEXT: Final = 800
_TALL_LINES: Final = 7
_LISTS: Final = {
    "all": ("All", "All prompts, in order of first appearance."),
    "never": (
        "Never solved",
        "Seen at two or more steps; no rollout was ever right.",
    ),
    "lost": ("Regressed", "Some rollout was right earlier, none at its last step."),
    "new": ("Newly solved", "No rollout was right at its first step, some at its last."),
    "volatile": (
        "Most volatile",
        "Sorted by the standard deviation of the mean reward over its steps.",
    ),
}
_FLAGS: Final = {"never": "never_solved", "lost": "lost_again", "new": "newly_solved"}


def _cards(found: RunPrompts) -> None:
    count = len(found.keys)
    seen = np.median(found.steps)
    steps = "1 step" if seen == 1 else f"{seen:g} steps"
    told = [("Prompts", f"{count:,}", f"median: seen at {steps}", _LISTS["all"][1])]
    several = found.steps > 1
    for name, flag in _FLAGS.items():
        held = int(getattr(found, flag).sum())
        if found.judged[several].any():
            value, words = f"{held:,}", f"{percent(held / count)} of prompts"
        else:
            words = "correctness not recorded" if several.any() else "no prompt at two steps"
            value = "–"
        told.append((_LISTS[name][0], value, words, _LISTS[name][1]))
    with st.grid(4, min_column_width=170, gap="small"):
        for label, value, words, explained in told:
            with st.container(border=True, height="stretch"):
                st.metric(label, value, help=explained)
                st.caption(words)


def _listed(found: RunPrompts) -> IntArray:
    """Places of the prompts of the chosen list, in its order."""
    chosen = str(state.get("plist"))
    if chosen in _FLAGS:
        places = np.flatnonzero(getattr(found, _FLAGS[chosen]))
        return places[np.argsort(-found.judged[places], kind="stable")]
    if chosen == "volatile":
        places = np.flatnonzero(np.isfinite(found.volatility))
        return places[np.argsort(-found.volatility[places], kind="stable")]
    return np.arange(len(found.keys))


def _table(run: Run, found: RunPrompts) -> int | None:
    """The list; the key of the prompt that is chosen in it or by the URL, None for an empty list."""
    st.segmented_control(
        "Prompts",
        list(_LISTS),
        key="plist",
        required=True,
        format_func=lambda name: _LISTS[name][0],
        label_visibility="collapsed",
        persist_state="session",
    )
    st.caption(_LISTS[str(state.get("plist"))][1])
    listed = _listed(found)
    if not len(listed):
        st.info("No prompt in this list.", icon=":material/check_circle:")
        return None
    shown = listed[:_SHOWN_ROWS]
    table = cache.prompt_table(run, tuple(found.keys[shown].tolist()))
    event: Any = st.dataframe(
        table_headings.written(
            table_headings.without_empty(_frame(found, table, shown)), ("right first", "right last")
        ),
        key=f"prompts_{run.info.name}_{run.version}_{state.get('plist')}",
        hide_index=True,
        height=min(36 * (len(shown) + 1) + 3, 300),
        row_height=36,
        on_select="rerun",
        selection_mode="single-cell",
        placeholder="–",
        column_config=_columns(table),
    )
    if len(shown) < len(listed):
        st.caption(f"Showing the first {len(shown):,} of {len(listed):,}.")
    if event.selection.cells:
        clicked = written_key(int(found.keys[shown[int(event.selection.cells[0][0])]]))
        if clicked != state.get("prompt"):
            _choose(clicked)
    chosen: str | None = state.get("prompt")
    if chosen is not None and key_from(chosen) in found.keys:
        return key_from(chosen)
    state.ensure("prompt", [None], None)
    return int(found.keys[shown[0]])


def _frame(found: RunPrompts, table: pd.DataFrame, places: IntArray) -> pd.DataFrame:
    """The table of the prompts at these places; table: of RunPrompts, of the same."""
    return pd.DataFrame(
        {
            "prompt": where_they_differ(table["prompt"].tolist()),
            "status": _statuses(found, places),
            "reward over steps": [values[-60:].tolist() for values in table["rewards"]],
            "right first": table["first_rate"],
            "right last": table["last_rate"],
            "reward": [_mean(values) for values in table["rewards"]],
            "volatility": found.volatility[places],
            "steps": found.steps[places],
            "rollouts": table["rollouts"],
        }
    )


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _statuses(found: RunPrompts, places: IntArray) -> list[str]:
    """In words what became of each prompt; empty where none of the words holds."""
    flags = {name: getattr(found, flag)[places] for name, flag in _FLAGS.items()}
    words = np.select(list(flags.values()), [_LISTS[name][0].lower() for name in flags], "")
    return words.tolist()


def _columns(table: pd.DataFrame) -> dict[str, Any]:
    rewards = np.concatenate(table["rewards"].tolist())
    known = rewards[np.isfinite(rewards)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return {
        "prompt": st.column_config.TextColumn("prompt", width=280),
        "reward over steps": st.column_config.LineChartColumn(
            "reward over steps", y_min=low, y_max=high if high > low else low + 1, width=150
        ),
        "right first": st.column_config.NumberColumn(
            "solved, first", format=table_headings.PERCENT
        ),
        "right last": st.column_config.NumberColumn("solved, last", format=table_headings.PERCENT),
        "reward": st.column_config.NumberColumn("reward", format="%.4g"),
        "volatility": st.column_config.NumberColumn("volatility", format="%.4g"),
    }


def _moves(found: RunPrompts, key: int, open_best: Callable[[], object]) -> None:
    """Buttons from prompt to prompt of the list, and to the best answer of the newest step."""
    items = [written_key(one) for one in found.keys[_listed(found)[:_SHOWN_ROWS]].tolist()]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Prompt", width="content")
        st.space("stretch")
        shortcuts.through("prompt of the list", items, written_key(key), _choose)
        if shortcuts.opens("its best answer at the newest step"):
            open_best()


def _choose(prompt: str) -> None:
    state.put(prompt=prompt, pstep=None, pfrom=0)


def _newest_best(own: PromptRollouts) -> int:
    """Place of the rollout with the highest reward at the last step at which the prompt was seen."""
    last = np.flatnonzero(own.steps == own.steps.max())
    return int(last[np.argmax(np.nan_to_num(own.rewards[last], nan=-np.inf))])


def _course(run: Run, found: RunPrompts, key: int) -> None:
    """One prompt: rewards and lengths of its rollouts over the steps, and what was answered."""
    own = cache.prompt_rollouts(run, key)
    steps, indices = own.steps, own.indices

    def open_rollout(place: int) -> None:
        state.go("rollouts", step=int(steps[place]), index=int(indices[place]), token=None)

    _moves(found, key, lambda: open_rollout(_newest_best(own)))
    text = cache.prompt_table(run, (key,))["prompt"].iloc[0]
    height = _TEXT_HEIGHT if len(text) > _TALL_TEXT or text.count("\n") > _TALL_LINES else "content"
    st.code(text, language=None, wrap_lines=True, height=height)

    _charts(key, own, found.length, open_rollout)
    answers.show(run, key, own, found.length)


def _charts(
    prompt: int,
    own: PromptRollouts,
    length: str | None,
    open_rollout: Callable[[int], object],
) -> None:
    """Rewards and lengths over the steps. A click on a point opens its rollout; one between points shows
    the answers of that step below.
    """
    drawn = [("reward", own.rewards, "Rewards", "reward")]
    drawn += [(length, own.lengths, "Lengths", "length")] if length else []
    cards = [
        _chart(own, name, values, title, key)
        for name, values, title, key in drawn
        if np.isfinite(values).any()
    ]
    curve_bar(int(own.steps.min()), int(own.steps.max()), key=page_parts.chart_key("prompt_bar"))
    key = page_parts.chart_key(f"prompt_{prompt}")
    picked = curve_grid(cards, step=int(state.get("step")), key=key)
    if picked and picked.dot is not None:
        open_rollout(picked.dot)
    elif picked:
        state.put(pstep=picked.step, pfrom=0)


def _chart(own: PromptRollouts, name: str, values: FloatArray, title: str, key: str) -> Card:
    figure = prompt_course(
        own.steps, own.indices, values, title.lower()[:-1], key, dark=page_parts.dark()
    )
    drawn = light(figure)
    unit = {"response_tokens": "tokens", "response_chars": "characters"}.get(name, "")
    click = "Click a point to open the rollout; drag to zoom both charts."
    return Card(name, title, drawn.chart, unit, [click], drawn.notes)


def _render() -> None:
    run = sidebar.narrowed()
    page_parts.header(run)
    found = cache.prompts_of(run)
    if found is None:
        missing = page_parts.not_recorded(run.columns, ("prompt", "reward"))
        st.info(
            f"{missing} {recording_hints.how_to_record('Prompts')}",
            icon=":material/chat_error:",
        )
        return
    _cards(found)
    if not (found.steps > 1).any():
        st.info("No prompt occurs at more than one step.", icon=":material/looks_one:")
    key = _table(run, found)
    if key is not None:
        _course(run, found, key)
    judged = (
        found.right_by or "the reward: the highest of the run counts as right, the lowest as wrong"
    )
    st.caption(
        plain(
            f"Correctness comes from {judged}. Prompts are the same when all of their text is.", 400
        )
    )


_render()
