"""Prompts: the same prompt through training. Never solved, regressed, newly solved, most volatile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.curve_charts import prompt_course
from board.charts.curves import light
from board.components.curve_grid import Card, curve_bar, curve_grid
from board.core.arrays import IntArray
from board.core.metrics.shares import percent
from board.export.file_names import file_of
from board.export.run_pages import prompts_page
from board.query.open_run import Run
from board.query.prompts import FLAGS, PromptRollouts, RunPrompts, key_from, written_key
from board.views.frame import sidebar
from board.views.shared import cache, page_export, page_parts, shortcuts, state, step_choice, tables
from board.views.shared.page_parts import answer_to_prompt, best_first, text_box
from board.views.shared.run_options import SET_RIGHT
from board.views.shared.tables import Column
from board.views.shared.text import counted, plain, visible_token, where_they_differ

_MOST_PROMPTS: Final = 500
_LISTS: Final = {
    "all": ("All", "All prompts, in order of first appearance."),
    "never": ("Never solved", "Seen at two or more steps; no rollout was ever right."),
    "lost": (
        "Regressed",
        "Fewer rollouts are right in the later half of its steps than in the earlier half, beyond "
        "chance: Fisher's exact test, 5 % false discoveries among all changes.",
    ),
    "new": (
        "Newly solved",
        "At most 1 in 8 rollouts was right in the earlier half of its steps, more in the later half, "
        "beyond chance: Fisher's exact test, 5 % false discoveries among all changes.",
    ),
    "volatile": (
        "Most volatile",
        "Sorted by the standard deviation of the mean reward over its steps.",
    ),
}
_ACROSS: Final = 3
_MOST_ANSWERS: Final = 12
_LINE_CHARACTERS: Final = 34
_MOST_OPTIONS: Final = 400  # Streamlit makes an element of every entry of a menu
_NEWEST: Final = 64  # responses in the list: each step they are of is read for them
_PREVIEW_CHARACTERS: Final = 160
_TYPED: Final = "_pstep_typed"
_NO_STEP: Final = "first, middle, last"
_STEP_HELP: Final = (
    "Three steps: the first, middle and last at which the prompt was seen, with the best and the worst "
    "answer of each. One step: all of its answers."
)


def _show_cards(prompts: RunPrompts) -> None:
    count, several = len(prompts.keys), prompts.steps > 1
    seen = np.median(prompts.steps)
    steps = "1 step" if seen == 1 else f"{seen:g} steps"
    cards = [("Prompts", f"{count:,}", f"median: seen at {steps}", _LISTS["all"][1])]
    unknown = "correctness not recorded" if several.any() else "no prompt at two steps"
    for name, flag in FLAGS.items():
        value, words = "–", unknown
        if prompts.graded[several].any():
            flagged = int(getattr(prompts, flag).sum())
            value, words = f"{flagged:,}", f"{percent(flagged / count)} of prompts"
        title, explained = _LISTS[name]
        cards.append((title, value, words, explained))
    tables.cards(cards)


def _choose_prompt(run: Run, prompts: RunPrompts) -> tuple[int, list[str]] | None:
    """The prompt that is chosen in the list or by the URL, and all that are listed, if there are any."""
    titles = {name: title for name, (title, _) in _LISTS.items()}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        name = page_parts.segments("Prompts", "prompts_list", titles)
        st.space("stretch")
        st.text_input(
            "Search prompts",
            **state.bound("prompts_q"),
            width=300,
            icon=":material/search:",
            placeholder="words in the prompt",
            help="All of these words, in any order and case.",
        )
    st.caption(_LISTS[name][1])
    places = prompts.listed(name)
    if words := state.get("prompts_q").split():
        matching = cache.prompts_with(run, tuple(words))
        listed = len(places)
        places = places[np.isin(prompts.keys[places], matching)]
        st.caption(f"{len(places):,} of the {counted(listed, 'prompt')} of this list match.")
    if not len(places):
        if words:
            st.info("No prompt of this list matches.", icon=":material/search_off:")
        else:
            st.info("No prompt in this list.", icon=":material/check_circle:")
        return None
    count = len(places)
    places = places[:_MOST_PROMPTS]
    keys = prompts.keys[places].tolist()
    table = cache.prompt_table(run, tuple(keys))
    written = [written_key(key) for key in keys]
    clicked = tables.pick(
        _columns(prompts, table, places),
        written,
        key=f"prompts_{run.info.name}_{name}",
        most_pixels=300,
    )
    if len(places) < count:
        st.caption(f"Showing the first {len(places):,} of {count:,}.")
    if clicked is not None and clicked != state.get("prompt"):
        _put_prompt(clicked)
    chosen: str | None = state.get("prompt")
    if chosen is not None and key_from(chosen) in prompts.keys:
        return key_from(chosen), written
    state.ensure("prompt", [None], None)
    return keys[0], written


def _put_prompt(prompt: str) -> None:
    state.put(prompt=prompt, prompts_step=None, prompts_first=0)


def _columns(prompts: RunPrompts, table: pd.DataFrame, places: IntArray) -> dict[str, Column]:
    """The list of the prompts at these places; table: what the index has of the same."""
    flags = {name: getattr(prompts, flag)[places] for name, flag in FLAGS.items()}
    statuses = np.select(list(flags.values()), [_LISTS[name][0].lower() for name in flags], "")
    known = [values[np.isfinite(values)] for values in table["rewards"]]
    every = np.concatenate(known)
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    return {
        "prompt": Column(where_they_differ(table["prompt"].tolist()), width=280),
        "status": Column(statuses.tolist(), width=100),
        "reward over steps": Column(
            [values[-60:].tolist() for values in table["rewards"]],
            width=150,
            line=(low, high if high > low else low + 1),
        ),
        "change": Column(
            _changes(prompts, places),
            label="right, earlier → later",
            help="Right rollouts of the judged ones, in the earlier and the later half of its steps.",
        ),
        "earlier": Column(prompts.earlier[places], tables.PERCENT, "solved earlier"),
        "later": Column(
            prompts.later[places],
            tables.PERCENT,
            "solved later" if (prompts.steps > 1).any() else "solved",
        ),
        "rate": Column(
            prompts.rate[places],
            "%.2g",
            "false discovery rate",
            help="Of the change between the halves, over all prompts: Fisher's exact test (1935), "
            "Benjamini and Hochberg (1995).",
        ),
        "reward": Column([pd.Series(values).mean() for values in known], "%.4g"),
        "volatility": Column(prompts.volatility[places], "%.4g"),
        "steps": Column(prompts.steps[places], "%d"),
        "rollouts": Column(table["rollouts"].tolist(), "%d"),
    }


def _changes(prompts: RunPrompts, places: IntArray) -> list[str]:
    """Counts of both halves: "3/16 → 12/16"; empty where fewer than two steps are judged."""
    halves = (
        prompts.earlier_right,
        prompts.earlier_graded,
        prompts.later_right,
        prompts.later_graded,
    )
    rows = zip(prompts.graded[places], *(half[places] for half in halves), strict=True)
    return [f"{a}/{n} → {b}/{m}" if steps > 1 else "" for steps, a, n, b, m in rows]


def _show_prompt(run: Run, key: int, listed: Sequence[str], length: str | None) -> None:
    """One prompt: its rollouts over the steps, and what was answered. listed: the prompts that K and J go
    through. length: the column of lengths; None: the log has none.
    """
    rollouts = cache.prompt_rollouts(run, key)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Prompt", width="content")
        st.space("stretch")
        shortcuts.through("prompt of the list", listed, written_key(key), _put_prompt)
        if shortcuts.opens("its best answer at the newest step"):
            _open_rollout(*_address(rollouts, best_first(rollouts, rollouts.steps.max())[0]))
    text_box(cache.prompt_table(run, (key,))["prompt"].iloc[0], width=110, most_pixels=200)
    _show_charts(key, rollouts, length)
    _show_answers(run, rollouts)
    _list_responses(run, key, rollouts, length)


def _address(rollouts: PromptRollouts, place: int) -> tuple[int, int]:
    return int(rollouts.steps[place]), int(rollouts.indices[place])


def _open_rollout(step: int, index: int) -> None:
    state.go("rollouts", step=step, index=index, token=None)


def _show_charts(prompt: int, rollouts: PromptRollouts, length: str | None) -> None:
    """Rewards and lengths over the steps. A click on a point opens it, else shows that step's answers."""
    charts = (("reward", rollouts.rewards, "reward"), (length, rollouts.lengths, "length"))
    units = {"response_tokens": "tokens", "response_chars": "characters"}
    help_lines = ["Click a point to open the rollout; drag to zoom both charts."]
    cards: list[Card] = []
    for column, values, name in charts:
        if column and np.isfinite(values).any():
            numbers = rollouts.steps, rollouts.indices, values
            drawn = light(prompt_course(*numbers, name, name, dark=page_parts.dark()))
            cards.append(Card(column, f"{name.title()}s", drawn, units.get(column, ""), help_lines))
    first, last = int(rollouts.steps.min()), int(rollouts.steps.max())
    curve_bar(first, last, key=page_parts.chart_key("prompt_bar"))
    key = page_parts.chart_key(f"prompt_{prompt}")
    clicked = curve_grid(cards, step=int(state.get("step")), key=key)
    if clicked and clicked.dot is not None:
        _open_rollout(*_address(rollouts, clicked.dot))
    elif clicked:
        state.put(prompts_step=clicked.step, prompts_first=0)


def _show_answers(run: Run, rollouts: PromptRollouts) -> None:
    """The answers of the chosen step, a dozen at a time; else the best and the worst of three steps."""
    seen = np.unique(rollouts.steps)
    step = _choose_step(seen.tolist())
    if step is None:
        places = np.linspace(0, len(seen) - 1, min(_ACROSS, len(seen))).round().astype(int)
        columns = st.columns(_ACROSS, gap="small")
        for column, one in zip(columns, seen[places].tolist(), strict=False):
            with column:
                order = best_first(rollouts, one)
                for place in dict.fromkeys((order[0], order[-1])):
                    answer_to_prompt(run, rollouts, place, width=_LINE_CHARACTERS)
        return
    order = best_first(rollouts, step)
    starts = list(range(0, len(order), _MOST_ANSWERS))
    page = min(int(state.get("prompts_first")) // _MOST_ANSWERS, len(starts) - 1)
    places = order[starts[page] :][:_MOST_ANSWERS]
    with st.grid(_ACROSS, gap="small"):
        for place in places:
            with st.container():
                answer_to_prompt(run, rollouts, place, width=_LINE_CHARACTERS)
    if len(starts) > 1:
        first = starts[page] + 1
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            words = f"{first:,} to {first + len(places) - 1:,} of {len(order):,}"
            st.caption(words, width="content")
            row = {"key": "answers", "items": starts, "choose": _go_to_answer}
            shortcuts.move(icon="arrow_back", words="Previous answers", place=page - 1, **row)
            shortcuts.move(icon="arrow_forward", words="Next answers", place=page + 1, **row)


def _choose_step(seen: list[int]) -> int | None:
    """A step at which the prompt was seen; None: the first, the middle and the last of them."""
    chosen: int | None = state.ensure("prompts_step", [None, *seen], None)
    place = -1 if chosen is None else seen.index(chosen)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Answers :gray[best first · click to open]", width="content")
        st.space("stretch")
        if len(seen) > _MOST_OPTIONS:
            _type_step(seen, chosen)
        else:
            st.selectbox(
                "Answers at step",
                [None, *seen],
                **state.bound("prompts_step"),
                width=230,
                # Streamlit takes None for nothing chosen, and shows the placeholder.
                placeholder=_NO_STEP,
                format_func=lambda step: _NO_STEP if step is None else f"step {step}, all of them",
                help=_STEP_HELP,
                on_change=state.put,
                kwargs={"prompts_first": 0},
            )
        shortcuts.move("answers", "chevron_left", "Previous step", seen, place - 1, _go_to_step)
        shortcuts.move("answers", "chevron_right", "Next step", seen, place + 1, _go_to_step)
    return chosen


def _type_step(seen: list[int], chosen: int | None) -> None:
    # A field of its own: what is typed may be no step at which the prompt was seen.
    state.put(prompts_step=chosen)
    st.session_state[_TYPED] = chosen

    def use_typed() -> None:
        wanted: int | None = st.session_state[_TYPED]
        if wanted is not None:
            wanted = step_choice.nearest(seen, wanted, wanted if chosen is None else chosen)
        _go_to_step(wanted)

    st.number_input(
        "Answers at step",
        value=None,
        step=1,
        key=_TYPED,
        width=230,
        placeholder=_NO_STEP,
        help=f"{_STEP_HELP} The prompt was seen at {len(seen):,} steps, {seen[0]} to {seen[-1]}. Type a "
        "step; the nearest one is shown.",
        on_change=use_typed,
    )


def _go_to_step(step: int | None) -> None:
    state.put(prompts_step=step, prompts_first=0)


def _go_to_answer(first: int) -> None:
    state.put(prompts_first=first)


def _list_responses(run: Run, key: int, rollouts: PromptRollouts, length: str | None) -> None:
    """The prompt's newest rollouts as the index has them; a click opens one."""
    newest = range(len(rollouts.steps))[::-1][:_NEWEST]
    is_cut = len(newest) < len(rollouts.steps)
    words = f"the newest {len(newest):,} of {len(rollouts.steps):,}" if is_cut else "newest first"
    unit = "characters" if length == "response_chars" else "tokens"
    st.markdown(f"#### Every response :gray[{words} · click to open]")
    place = tables.pick(
        {
            "step": Column(rollouts.steps[newest], "%d", width=70),
            "rollout": Column(rollouts.indices[newest], "%d", width=75),
            "reward": Column(rollouts.rewards[newest], "%.4g", width=90),
            unit: Column(rollouts.lengths[newest], "%d"),
            "response": Column(_previews(run, rollouts, newest), label="response (start)"),
        },
        [_address(rollouts, place) for place in newest],
        key=f"responses_{run.info.name}_{key}",
        most_pixels=300,
        placeholder="not recorded",
    )
    if place is not None:
        _open_rollout(*place)


def _previews(run: Run, rollouts: PromptRollouts, places: Sequence[int]) -> list[str | None]:
    """How some responses begin; None where the log holds no text."""
    texts: dict[tuple[int, int], object] = {}
    for step in np.unique(rollouts.steps[places]).tolist():
        rows = run.frame(("response",), (step, step))
        if "response" in rows:
            texts |= {(step, i): text for i, text in rows[["index", "response"]].to_numpy()}
    responses = (texts.get((int(rollouts.steps[i]), int(rollouts.indices[i]))) for i in places)
    return [
        visible_token(text, _PREVIEW_CHARACTERS) if isinstance(text, str) else None
        for text in responses
    ]


def _render() -> None:
    run = sidebar.narrowed()
    page_parts.header(run)
    prompts = cache.prompts_of(run)
    if prompts is None:
        page_parts.say_lacking("Prompts", run, "chat_error")
        return
    page_export.offer(file_of(run, "prompts"), partial(prompts_page, run))
    _show_cards(prompts)
    if not (prompts.steps > 1).any():
        st.info("No prompt occurs at more than one step.", icon=":material/looks_one:")
    chosen = _choose_prompt(run, prompts)
    if chosen is not None:
        _show_prompt(run, *chosen, prompts.length)
    words = f"{prompts.judged.text} ({SET_RIGHT})."
    st.caption(plain(f"{words} Prompts are the same when all of their text is.", 400))


_render()
