"""Prompts: the same prompt through training. Never solved, regressed, newly solved, most volatile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.curve_charts import prompt_course
from board.charts.curves import light
from board.components.curve_grid import Card, curve_bar, curve_grid
from board.core.groups.statistics import IntArray
from board.core.metrics.kl import FloatArray
from board.core.metrics.shares import percent
from board.query.open_run import Run
from board.query.prompts import PromptRollouts, RunPrompts, key_from, written_key
from board.views.frame import sidebar
from board.views.prompts import answers
from board.views.shared import cache, page_parts, shortcuts, state, tables
from board.views.shared.page_parts import best_first
from board.views.shared.text import plain, where_they_differ

_MOST_PROMPTS: Final = 500
# A prompt of more characters or lines is scrolled.
_TALL_CHARACTERS: Final = 800
_TALL_LINES: Final = 7
_TALL_PIXELS: Final = 200
_LISTS: Final = {
    "all": "All",
    "never": "Never solved",
    "lost": "Regressed",
    "new": "Newly solved",
    "volatile": "Most volatile",
}
_EXPLAINED: Final = {
    "all": "All prompts, in order of first appearance.",
    "never": "Seen at two or more steps; no rollout was ever right.",
    "lost": "Some rollout was right earlier, none at its last step.",
    "new": "No rollout was right at its first step, some at its last.",
    "volatile": "Sorted by the standard deviation of the mean reward over its steps.",
}
_FLAGS: Final = {"never": "never_solved", "lost": "lost_again", "new": "newly_solved"}


def _show_cards(prompts: RunPrompts) -> None:
    count, several = len(prompts.keys), prompts.steps > 1
    seen = np.median(prompts.steps)
    steps = "1 step" if seen == 1 else f"{seen:g} steps"
    cards = [("Prompts", f"{count:,}", f"median: seen at {steps}", _EXPLAINED["all"])]
    unknown = "correctness not recorded" if several.any() else "no prompt at two steps"
    for name, flag in _FLAGS.items():
        value, words = "–", unknown
        if prompts.graded[several].any():
            flagged = int(getattr(prompts, flag).sum())
            value, words = f"{flagged:,}", f"{percent(flagged / count)} of prompts"
        cards.append((_LISTS[name], value, words, _EXPLAINED[name]))
    tables.cards(cards)


def _places_of_list(prompts: RunPrompts, name: str) -> IntArray:
    """Places of the prompts of a list, in its order."""
    if name == "all":
        return np.arange(len(prompts.keys))
    if name == "volatile":
        chosen, largest_first = np.isfinite(prompts.volatility), prompts.volatility
    else:
        chosen, largest_first = getattr(prompts, _FLAGS[name]), prompts.graded
    places = np.flatnonzero(chosen)
    return places[np.argsort(-largest_first[places], kind="stable")]


def _choose_prompt(run: Run, prompts: RunPrompts) -> tuple[int, list[str]] | None:
    """The prompt that is chosen in the list or by the URL, and all that are listed; None for an empty
    list.
    """
    name = page_parts.segments("Prompts", "prompts_list", _LISTS)
    st.caption(_EXPLAINED[name])
    places = _places_of_list(prompts, name)
    if not len(places):
        st.info("No prompt in this list.", icon=":material/check_circle:")
        return None
    count = len(places)
    places = places[:_MOST_PROMPTS]
    keys = prompts.keys[places].tolist()
    table = cache.prompt_table(run, tuple(keys))
    row = tables.draw(
        _frame(prompts, table, places),
        _columns(table),
        key=f"prompts_{run.info.name}_{run.version}_{name}",
        most_pixels=300,
    )
    if len(places) < count:
        st.caption(f"Showing the first {len(places):,} of {count:,}.")
    written = [written_key(key) for key in keys]
    if row is not None and written[row] != state.get("prompt"):
        _put_prompt(written[row])
    chosen: str | None = state.get("prompt")
    if chosen is not None and key_from(chosen) in prompts.keys:
        return key_from(chosen), written
    state.ensure("prompt", [None], None)
    return keys[0], written


def _put_prompt(prompt: str) -> None:
    state.put(prompt=prompt, prompts_step=None, prompts_first=0)


def _frame(prompts: RunPrompts, table: pd.DataFrame, places: IntArray) -> pd.DataFrame:
    """What the list shows of the prompts at these places; table: what the index has of the same."""
    flags = {name: getattr(prompts, flag)[places] for name, flag in _FLAGS.items()}
    statuses = np.select(list(flags.values()), [_LISTS[name].lower() for name in flags], "")
    frame = pd.DataFrame(
        {
            "prompt": where_they_differ(table["prompt"].tolist()),
            "status": statuses.tolist(),
            "reward over steps": [values[-60:].tolist() for values in table["rewards"]],
            "right first": table["first_rate"],
            "right last": table["last_rate"],
            "reward": [pd.Series(_finite(values)).mean() for values in table["rewards"]],
            "volatility": prompts.volatility[places],
            "steps": prompts.steps[places],
            "rollouts": table["rollouts"],
        }
    )
    return tables.written(tables.without_empty(frame), ("right first", "right last"))


def _finite(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values)]


def _columns(table: pd.DataFrame) -> dict[str, Any]:
    known = _finite(np.concatenate(table["rewards"].tolist()))
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    percent_column = partial(st.column_config.NumberColumn, format=tables.PERCENT)
    return {
        "prompt": st.column_config.TextColumn("prompt", width=280),
        "reward over steps": st.column_config.LineChartColumn(
            "reward over steps", y_min=low, y_max=high if high > low else low + 1, width=150
        ),
        "right first": percent_column("solved, first"),
        "right last": percent_column("solved, last"),
        **tables.numbers("%.4g", "reward", "volatility"),
    }


def _show_prompt(run: Run, key: int, listed: Sequence[str], length: str | None) -> None:
    """One prompt: rewards and lengths of its rollouts over the steps, and what was answered.

    listed: the prompts that K and J go through. length: the column of lengths; None: the log has none.
    """
    rollouts = cache.prompt_rollouts(run, key)

    def open_rollout(place: int) -> None:
        step, index = int(rollouts.steps[place]), int(rollouts.indices[place])
        state.go("rollouts", step=step, index=index, token=None)

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Prompt", width="content")
        st.space("stretch")
        shortcuts.through("prompt of the list", listed, written_key(key), _put_prompt)
        if shortcuts.opens("its best answer at the newest step"):
            open_rollout(best_first(rollouts, rollouts.steps.max())[0])
    text = cache.prompt_table(run, (key,))["prompt"].iloc[0]
    is_tall = len(text) > _TALL_CHARACTERS or text.count("\n") > _TALL_LINES
    height = _TALL_PIXELS if is_tall else "content"
    st.code(text, language=None, wrap_lines=True, height=height)
    _show_charts(key, rollouts, length, open_rollout)
    answers.show(run, rollouts)
    answers.list_responses(run, key, rollouts, length)


def _show_charts(
    prompt: int,
    rollouts: PromptRollouts,
    length: str | None,
    open_rollout: Callable[[int], object],
) -> None:
    """Rewards and lengths over the steps. A click on a point opens its rollout; one between points shows
    the answers of that step below.
    """
    charts = (("reward", rollouts.rewards, "reward"), (length, rollouts.lengths, "length"))
    cards = [
        _chart(rollouts, column, values, name)
        for column, values, name in charts
        if column and np.isfinite(values).any()
    ]
    first, last = int(rollouts.steps.min()), int(rollouts.steps.max())
    curve_bar(first, last, key=page_parts.chart_key("prompt_bar"))
    key = page_parts.chart_key(f"prompt_{prompt}")
    clicked = curve_grid(cards, step=int(state.get("step")), key=key)
    if clicked and clicked.dot is not None:
        open_rollout(clicked.dot)
    elif clicked:
        state.put(prompts_step=clicked.step, prompts_first=0)


def _chart(rollouts: PromptRollouts, column: str, values: FloatArray, name: str) -> Card:
    dark = page_parts.dark()
    drawn = light(prompt_course(rollouts.steps, rollouts.indices, values, name, name, dark=dark))
    unit = {"response_tokens": "tokens", "response_chars": "characters"}.get(column, "")
    click = "Click a point to open the rollout; drag to zoom both charts."
    return Card(column, f"{name.title()}s", drawn, unit, [click])


def _render() -> None:
    run = sidebar.narrowed()
    page_parts.header(run)
    prompts = cache.prompts_of(run)
    if prompts is None:
        page_parts.say_lacking("Prompts", run, "chat_error")
        return
    _show_cards(prompts)
    if not (prompts.steps > 1).any():
        st.info("No prompt occurs at more than one step.", icon=":material/looks_one:")
    chosen = _choose_prompt(run, prompts)
    if chosen is not None:
        _show_prompt(run, *chosen, prompts.length)
    by_reward = "the reward: the highest of the run counts as right, the lowest as wrong"
    words = (
        f"Correctness comes from {prompts.right_by or by_reward}. "
        "Prompts are the same when all of their text is."
    )
    st.caption(plain(words, 400))


_render()
