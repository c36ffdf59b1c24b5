"""Prompts: the same prompt through training. Never solved, regressed, newly solved, most volatile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.light import light
from board.charts.prompt_charts import prompt_course
from board.components.curve_grid import Card, curve_bar, curve_grid
from board.core.groups import IntArray
from board.core.kl import FloatArray
from board.core.prompts import Prompts
from board.core.shares import percent
from board.query.prompts import Courses, PromptRollouts, RunPrompts
from board.store.run import Run
from board.views import (
    _cached_looks,
    _headings,
    _keys,
    _needs,
    _page,
    _prompt_answers,
    _sidebar,
    _state,
)
from board.views._text import piece_shown, plain

_SHOWN_ROWS: Final = 500
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
    seen = np.median(found.seen())
    steps = "1 step" if seen == 1 else f"{seen:g} steps"
    told = [("Prompts", f"{count:,}", f"median: seen at {steps}", _LISTS["all"][1])]
    judged, several = found.several.judged, found.several.visits.prompts
    for name, flag in _FLAGS.items():
        held = int(getattr(judged, flag).sum())
        if len(judged.codes):
            value, words = f"{held:,}", f"{percent(held / count)} of prompts"
        else:
            words = "correctness not recorded" if len(several) else "no prompt at two steps"
            value = "–"
        told.append((_LISTS[name][0], value, words, _LISTS[name][1]))
    with st.grid(4, min_column_width=170, gap="small"):
        for label, value, words, explained in told:
            with st.container(border=True, height="stretch"):
                st.metric(label, value, help=explained)
                st.caption(words)


def _listed(found: RunPrompts) -> IntArray:
    """Codes of the prompts of the chosen list, in its order."""
    chosen = str(_state.get("plist"))
    judged, scored = found.several.judged, found.several.scored
    if chosen in _FLAGS:
        held = getattr(judged, _FLAGS[chosen])
        order = np.argsort(-judged.visits[held], kind="stable")
        return judged.codes[held][order]
    if chosen == "volatile":
        known = np.flatnonzero(np.isfinite(scored.volatility))
        return scored.codes[known[np.argsort(-scored.volatility[known], kind="stable")]]
    return np.arange(len(found.keys))


def _table(run: Run, found: RunPrompts) -> int | None:
    """The list; the code of the prompt that is chosen in it or by the URL, None for an empty list."""
    st.segmented_control(
        "Prompts",
        list(_LISTS),
        key="plist",
        required=True,
        format_func=lambda name: _LISTS[name][0],
        label_visibility="collapsed",
        persist_state="session",
    )
    st.caption(_LISTS[str(_state.get("plist"))][1])
    listed = _listed(found)
    if not len(listed):
        st.info("No prompt in this list.", icon=":material/check_circle:")
        return None
    shown = listed[:_SHOWN_ROWS]
    courses = found.of(shown.tolist())
    event: Any = st.dataframe(
        _headings.written(
            _headings.without_empty(_frame(found, courses, shown)), ("right first", "right last")
        ),
        key=f"prompts_{run.info.name}_{run.version}_{_state.get('plist')}",
        hide_index=True,
        height=min(36 * (len(shown) + 1) + 3, 300),
        row_height=36,
        on_select="rerun",
        selection_mode="single-cell",
        placeholder="–",
        column_config=_columns(courses),
    )
    if len(shown) < len(listed):
        st.caption(f"Showing the first {len(shown):,} of {len(listed):,}.")
    of_run = _cached_looks.codes_in(_sidebar.current(), found)
    if event.selection.cells:
        clicked = int(of_run[shown[int(event.selection.cells[0][0])]])
        if clicked != _state.get("prompt"):
            _state.put(prompt=clicked, pstep=None, pfrom=0)
    chosen = _state.get("prompt")
    own = np.flatnonzero(of_run == (-2 if chosen is None else chosen))
    if len(own):
        return int(own[0])
    _state.ensure("prompt", [None], None)
    return int(shown[0])


def _frame(found: RunPrompts, courses: Courses, codes: IntArray) -> pd.DataFrame:
    """The table of the prompts with these codes; courses: theirs."""
    visits, judged, scored = courses.visits, courses.judged, courses.scored
    spans = [visits.of(code) for code in codes.tolist()]
    rewards = [visits.rewards[span] for span in spans]
    return pd.DataFrame(
        {
            "prompt": _where_they_differ(found.texts(codes.tolist())),
            "status": _courses(judged, codes),
            "reward over steps": [values[-60:].tolist() for values in rewards],
            "right first": _of(judged, codes, judged.first),
            "right last": _of(judged, codes, judged.last),
            "reward": [_mean(values) for values in rewards],
            "volatility": _of(scored, codes, scored.volatility),
            "steps": [len(values) for values in rewards],
            "rollouts": [int(visits.rollouts[span].sum()) for span in spans],
        }
    )


def _where_they_differ(texts: Sequence[str]) -> list[str]:
    """The prompts of a list on one line each, without the lines that all of them begin with."""
    lines = [text.splitlines(keepends=True) for text in texts]
    most = min(map(len, lines)) - 1 if len(lines) > 1 else 0
    shared = next((i for i in range(most) if len({own[i] for own in lines}) > 1), max(most, 0))
    mark = "… " if shared else ""
    return [f"{mark}{piece_shown(''.join(own[shared:]), 160)}" for own in lines]


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _of(prompts: Prompts, codes: IntArray, values: FloatArray) -> FloatArray:
    """Of each code its value; NaN where it is not among the prompts."""
    places = np.searchsorted(prompts.codes, codes)
    own = np.append(values, np.nan)[places]
    return np.where(np.append(prompts.codes, -1)[places] == codes, own, np.nan)


def _courses(judged: Prompts, codes: IntArray) -> list[str]:
    """In words what became of each prompt; empty where none of the words holds."""
    words = [""] * len(codes)
    for name, flag in _FLAGS.items():
        held = judged.codes[getattr(judged, flag)]
        for place in np.flatnonzero(np.isin(codes, held)).tolist():
            words[place] = _LISTS[name][0].lower()
    return words


def _columns(courses: Courses) -> dict[str, Any]:
    known = courses.visits.rewards[np.isfinite(courses.visits.rewards)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return {
        "prompt": st.column_config.TextColumn("prompt", width=280),
        "reward over steps": st.column_config.LineChartColumn(
            "reward over steps", y_min=low, y_max=high if high > low else low + 1, width=150
        ),
        "right first": st.column_config.NumberColumn("solved, first", format=_headings.PERCENT),
        "right last": st.column_config.NumberColumn("solved, last", format=_headings.PERCENT),
        "reward": st.column_config.NumberColumn("reward", format="%.4g"),
        "volatility": st.column_config.NumberColumn("volatility", format="%.4g"),
    }


def _moves(run: Run, found: RunPrompts, code: int, open_best: Callable[[], object]) -> None:
    """Buttons from prompt to prompt of the list, and to the best answer of the newest step."""
    listed = _listed(found)[:_SHOWN_ROWS]
    of_run = _cached_looks.codes_in(_sidebar.current(), found)
    items = of_run[listed].tolist()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Prompt", width="content")
        st.space("stretch")
        _keys.through("prompt of the list", items, int(of_run[code]), _choose)
        if _keys.opens("its best answer at the newest step"):
            open_best()


def _choose(prompt: int) -> None:
    _state.put(prompt=prompt, pstep=None, pfrom=0)


def _newest_best(own: PromptRollouts) -> int:
    """Place of the rollout with the highest reward at the last step at which the prompt was seen."""
    last = np.flatnonzero(own.steps == own.steps.max())
    return int(last[np.argmax(np.nan_to_num(own.rewards[last], nan=-np.inf))])


def _course(run: Run, found: RunPrompts, code: int) -> None:
    """One prompt: rewards and lengths of its rollouts over the steps, and what was answered."""
    own = found.rollouts(code)
    steps, indices = own.steps, own.indices

    def open_rollout(place: int) -> None:
        _state.go("rollouts", step=int(steps[place]), index=int(indices[place]), token=None)

    _moves(run, found, code, lambda: open_rollout(_newest_best(own)))
    st.code(found.texts([code])[0], language=None, wrap_lines=True)

    _charts(code, own, found.length, open_rollout)
    _prompt_answers.show(run, code, own, found.length)


def _charts(
    code: int,
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
    curve_bar(int(own.steps.min()), int(own.steps.max()), key=_page.chart_key("prompt_bar"))
    key = _page.chart_key(f"prompt_{code}")
    picked = curve_grid(cards, step=int(_state.get("step")), key=key)
    if picked and picked.dot is not None:
        open_rollout(picked.dot)
    elif picked:
        _state.put(pstep=picked.step, pfrom=0)


def _chart(own: PromptRollouts, name: str, values: FloatArray, title: str, key: str) -> Card:
    figure = prompt_course(
        own.steps, own.indices, values, title.lower()[:-1], key, dark=_page.dark()
    )
    drawn = light(figure)
    unit = {"response_tokens": "tokens", "response_chars": "characters"}.get(name, "")
    click = "Click a point to open the rollout; drag to zoom both charts."
    return Card(name, title, drawn.chart, unit, [click], drawn.notes)


def _render() -> None:
    run = _sidebar.narrowed()
    _page.header(run)
    found = _cached_looks.prompts(run)
    if found is None:
        st.info(
            f"{_page.not_recorded(run.columns, ('prompt', 'reward'))} {_needs.how_to_record('Prompts')}",
            icon=":material/chat_error:",
        )
        return
    _cards(found)
    if len(found.keys) == 1 and found.texts([0])[0].endswith("…"):
        st.warning(
            "All prompts begin with the same text and count as one. If that is a system prompt, name its "
            "end under Run settings, *End of the system prompt*.",
            icon=":material/merge:",
        )
    elif not len(found.several.visits.prompts):
        st.info("No prompt occurs at more than one step.", icon=":material/looks_one:")
    code = _table(run, found)
    if code is not None:
        _course(run, found, code)
    judged = (
        found.right_by or "the reward: the highest of the run counts as right, the lowest as wrong"
    )
    st.caption(
        plain(
            f"Correctness comes from {judged}. Prompts are distinguished by their first 240 characters "
            "and their number of tokens; if all share a long system prompt, leave it out in the run "
            "settings.",
            400,
        )
    )


_render()
