"""What pages have in common: header, what a run lacks for them, clicks in charts, fields for choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.charts.curves import LightCurve
from board.charts.layout import PLOTLY_CONFIG, notes_of
from board.components.curve_grid import Card, Click, curve_grid
from board.core.metrics.definitions import rollout_metric
from board.errors import BoardError
from board.index.discovery import mapping_editor
from board.query import failures, splits
from board.query.open_run import Run, how_to_log, reader_titles
from board.query.outlines import is_outline
from board.query.prompts import PromptRollouts
from board.views.shared import (
    cache,
    page_export,
    pages,
    reward_choice,
    run_notes,
    run_options,
    state,
    step_choice,
)
from board.views.shared.text import distinct_options, number, one_line, plain

_RECORDED_AS: Final = {"mismatch_kl_mean": "sampling_logprobs", "cause": "reward"}
_OF_OUTLINES: Final = ("Overview", "Rollouts")
"""Pages of which most is there when ids and scores are."""
_SAID_FROM: Final = 0.01
_SMOOTHING: Final = "_smoothing"
_TEXT_PIXELS: Final = 190
_LINE_PIXELS: Final = 24


def run(page: st.Page, current: Run | None = None) -> None:
    """Runs a page; what it refuses to do becomes a message, never a traceback. current: the run that is
    shown; None on the page of all runs.
    """
    if current is not None and is_outline(current) and page.title not in _OF_OUTLINES:
        header(current)
        say_reading(page.title)
        return
    try:
        page.run()
    except BoardError as error:
        st.error(plain(error, 600), icon=":material/error:")
    except RecursionError:  # a parser takes a thousand arrays within each other
        st.error("What the log holds here is nested too deep to be shown.", icon=":material/error:")


def say_reading(title: str) -> None:
    """The page, or the part of one, that an outline has too little for."""
    words = f"{title} needs what is still being read. Overview and the list of rollouts are there."
    st.info(words, icon=":material/hourglass_top:")


def lacking(title: str, run: Run) -> str:
    """What a page or part needs and the run does not hold, as names; empty where it holds all."""
    if title == "Step" and run.metrics:  # any number of a step is enough
        return ""
    return ", ".join(_RECORDED_AS.get(one, one) for one in _lacking(title, run))


def _lacking(title: str, run: Run) -> list[str]:
    return [column for column in pages.titled(title).needs if column not in run.columns]


def how_to_record(title: str, run: Run) -> str:
    """What to do so that the run, or a later one of its format, has what the page needs."""
    lacking = _lacking(title, run) or [*pages.titled(title).needs]
    return " ".join(dict.fromkeys(_how(column, run) for column in lacking))


def _how(column: str, run: Run) -> str:
    """The same for one column: what helps at once, then what the run's format is asked for."""
    if run.reward is not None and column in ("reward", "cause"):
        return "Its parts are: choose the reward under Run settings."
    if column == "group_id" and "prompt" in run.columns:
        return "Turn on “Group equal prompts” in Run settings."
    return how_to_log(run.info, column, _RECORDED_AS.get(column, column))


def say_lacking(title: str, run: Run, icon: str) -> None:
    """The page where the run does not hold what it needs: what that is, and how to record it."""
    names, how = lacking(title, run), how_to_record(title, run)
    words = f"Not recorded in this run: {names}. " if names else ""
    if mapping_editor.is_generic(run.info):
        how = "Choose its key under Keys, next to the run's name."
    st.info(f"{words}{how}", icon=f":material/{icon}:")


def dark() -> bool:
    """Whether the page is shown in a dark theme."""
    theme = st.context.theme
    return bool(theme and theme.type == "dark")


def header(run: Run, *, page: str = "") -> DeltaGenerator:
    """Draws the run's name with its settings, its format, and which part of it is shown; at the right
    Export. page: one whose parts are offered. Returns a row for the page's controls.
    """
    row = st.container(key="title", horizontal=True, vertical_alignment="center", gap="small")
    with row:
        st.subheader(plain(run.info.name, 200), anchor=False, width="content")
        run_options.settings_panel(run)
        run_notes.show(run.info, in_words=not page)
        st.badge(plain(reader_titles(run.info)), color="violet")
        step_choice.in_title(run)
        if page:
            _choose_part(run, pages.page_of(page))
        _split_badge(run)
        if run.rows.derived.group_by_prompt:
            st.badge("grouped by prompt", icon=":material/group_work:", color="orange")
        if run.reward is not None:
            reward_choice.badge(run.reward)
        for name in run.envs:
            st.badge(plain(f"env {name}", 40), icon=":material/public:", color="green")
        step = state.get("step")
        of_step = run.steps[run.steps["step"] == step]
        if "complete" in of_step and of_step["complete"].eq(False).any():
            ranks = run.missing_ranks.get(step, ())
            names = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
            text = f"step not ended yet{f' by rank {names}' if ranks else ''}"
            st.badge(text, icon=":material/hourglass_top:", color="orange")
        with st.container(key="title_right", horizontal=True, gap="small", width="content"):
            controls = st.container(horizontal=True, gap="small", width="content")
            st.session_state[_SMOOTHING] = st.container(width="content")
            page_export.place()
    return controls


def _choose_part(run: Run, page: pages.Page) -> None:
    """The parts of a page side by side, dimmed where the run lacks what they need."""
    words: dict[str, str] = {}
    for part in page.parts:
        names = lacking(part.title, run)
        words[part.name] = (
            f":gray[{part.title} :small[no {plain(names, 60)}]]" if names else part.title
        )
    segments("Part of the page", page.choice, words)


def _split_badge(run: Run) -> None:
    """Of which split numbers are, where the log has several, or one that is not of training."""
    names = [*cache.split_counts(run)]
    name = run.split
    if name is None and len(names) == 1 and not splits.is_training(names[0]):
        name = names[0]
    if name is not None:
        st.badge(plain(f"split {name}", 40), icon=":material/call_split:", color="green")
    elif len(names) > 1 and state.get("split") == splits.ALL:
        st.badge("all splits mixed", icon=":material/call_merge:", color="orange")


def failures_line(run: Run) -> None:
    """A link to the failures in a line, where more than 1 % of the rollouts failed by infrastructure, or
    with an unclear cause.
    """
    if lacking("Failures", run) or not run.counts:
        return
    head = failures.headline(cache.cause_counts(run))
    if head.not_earned > _SAID_FROM * head.rollouts:
        state.link("findings", head.sentence, "plumbing", findings_part="failures")


def has_step(run: Run) -> bool:
    """Whether the chosen step has a rollout of the chosen environments; says so where it has none."""
    step = int(state.get("step"))
    if run.counts.get(step):
        return True
    st.info(f"No rollout of these environments is at step {step}.", icon=":material/public_off:")
    if run.counts:
        other = min(run.counts, key=lambda one: abs(one - step))
        choices = {"step": other, **state.NO_ROLLOUT}
        icon = ":material/arrow_forward:"
        st.button(f"To step {other}", icon=icon, on_click=state.put, kwargs=choices)
    return False


def open_matching(where: str) -> NoReturn:
    """Opens the list of all rollouts of the run that pass a filter, with their share over the steps."""
    choices = {"rollouts_view": "list", "rollouts_scope": "run", "where": where, "page": 0}
    state.go("rollouts", **state.NO_ROLLOUT, **choices)


def chart_key(key: str) -> str:
    """The key of a chart. Another run is another chart to Streamlit: a selection is of one only."""
    return f"{key}_{state.get('run')}"


def draw_figure(
    figure: go.Figure, key: str, on_pick: Callable[[int], object] | None = None
) -> None:
    """Draws a figure with its notes; a click on a point calls `on_pick` with its customdata."""
    event: Any = st.plotly_chart(
        figure,
        key=chart_key(key),
        theme=None,
        on_select="rerun" if on_pick else "ignore",
        selection_mode="points",
        config=dict(PLOTLY_CONFIG),
    )
    for note in notes_of(figure):
        st.caption(plain(note))
    if on_pick and event.selection.points:
        value = event.selection.points[0].get("customdata")
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, int | float):
            on_pick(int(value))


def card(
    column: str,
    drawn: LightCurve,
    click: str,
    notes: Sequence[str] = (),
    title: str = "",
    *,
    columns: Sequence[str] = (),
    unit: str = "",
) -> Card:
    """A metric's chart with its label, unit and formula. click: what a click on it does. columns: all
    that are drawn, if others are; unit: other words behind the title.
    """
    metric = rollout_metric(column)
    unit = unit or one_line(metric.unit_after_label)
    all_metrics = map(rollout_metric, columns or (column,))
    formulas = [(one.label, one_line(one.formula, 400)) for one in all_metrics if one.formula]
    lines = [f"{one_line(label)}: {formula}" for label, formula in formulas]
    lines += [one_line(metric.source, 200)] if metric.source else []
    return Card(column, title or one_line(metric.label), drawn, unit, [*lines, click], notes)


def curves(cards: Sequence[Card], key: str, **options: Any) -> Click | None:
    """Draws charts with the chosen step marked; what was clicked. options: of `curve_grid`."""
    return curve_grid(cards, step=state.get("step"), key=chart_key(key), **options)


def segments(
    label: str,
    key: str,
    words: Mapping[Any, str],
    offered: Iterable[Any] | None = None,
    **options: Any,
) -> Any:
    """Options side by side, one of them always chosen; the chosen one. words: of every option, as
    Markdown. offered: by default all that have words.
    """
    st.segmented_control(
        label,
        [*(words if offered is None else offered)],
        **state.bound(key),
        required=True,
        format_func=words.__getitem__,
        label_visibility="collapsed",
        **options,
    )
    return state.get(key)


def menu(
    label: str,
    key: str,
    offered: Iterable[Any],
    words: Callable[[Any], str] = str,
    **options: Any,
) -> Any:
    """A menu without a visible label; the chosen option. words: of an option, shown as they are."""
    offered = [*offered]
    st.selectbox(
        label,
        offered,
        **state.bound(key),
        format_func=distinct_options(offered, words, 120),
        label_visibility="collapsed",
        **options,
    )
    return state.get(key)


def metric_label(column: str) -> str:
    """A metric's label, for the options of a menu."""
    return rollout_metric(column).label


def choose_metrics(
    key: str, offered: Sequence[str], *, width: int = 330, what: str = "Curves"
) -> list[str]:
    """A menu of which curves are drawn; those that are chosen, none for the default. what: its name."""
    chosen = state.keep(key, offered)
    label = f"{what}: {len(chosen)} chosen" if chosen else f"{what}: default"
    with st.popover(label, key="menu_curves"):
        st.multiselect(
            what,
            offered,
            **state.bound(key),
            placeholder="default",
            width=width,
            format_func=distinct_options(offered, metric_label),
        )
    return chosen


def smoothing() -> float:
    """A menu in the title row for the smoothing of curves, 0 to 0.99, of all pages; none at first, as it
    hides spikes.
    """
    chosen = float(state.get("smooth"))
    label = f"Smoothing: {chosen:g}" if chosen else "Smoothing: off"
    with st.session_state[_SMOOTHING], st.popover(label, key="menu_smooth", type="tertiary"):
        st.slider(
            "Smoothing",
            0.0,
            0.99,
            step=0.01,
            **state.bound("smooth"),
            width=220,
            help="Exponential moving average: each step keeps this share of the one before. The "
            "recorded values stay visible, faint. All pages share it.",
        )
    return float(state.get("smooth"))


def answer(
    run: Run,
    step: int,
    index: int,
    label: str,
    *,
    width: int,
    note: str = "",
    over: str = "rollout",
) -> None:
    """A button that opens a rollout of a run, a note, and what the rollout answered, in lines of so many
    characters. over: what the colours of the opened rollout are on the scale of.
    """
    with st.container(gap=None):
        key = f"answer_{run.info.name}_{step}_{index}"
        if st.button(plain(label), key=key, type="tertiary", help="Open the rollout"):
            chosen = {"index": index, "token": None, "reader_over": over}
            state.go("rollouts", run=run.info.name, step=step, **chosen)
        if note:
            st.caption(plain(note))
    try:
        opened = cache.rollout(run, step, index, str(state.get("tokenizer")))
    except BoardError as error:
        st.caption(plain(error, 200))
        return
    if opened.response_text:
        text_box(opened.response_text, width=width)
    elif "response" in opened.record.texts:
        st.caption("The response is empty.")
    else:
        st.caption("No text of this response is recorded.")


def answer_to_prompt(run: Run, rollouts: PromptRollouts, place: int, *, width: int) -> None:
    """One of the answers to a prompt, which may be of several steps."""
    step, index = int(rollouts.steps[place]), int(rollouts.indices[place])
    label = f"step {step} · rollout {index} · reward {number(float(rollouts.rewards[place]))}"
    answer(run, step, index, label, width=width)


def best_first(rollouts: PromptRollouts, step: int) -> list[int]:
    """Places of a prompt's rollouts of a step by their reward, those without one last."""
    places = np.flatnonzero(rollouts.steps == step)
    rewards = rollouts.rewards[places]
    order = np.argsort(np.where(np.isfinite(rewards), -rewards, np.inf), kind="stable")
    return places[order].tolist()


def text_box(text: str, *, width: int, most_pixels: int = _TEXT_PIXELS) -> None:
    """A text of a log as it is, in a box that scrolls where the text is long."""
    lines = sum(1 + len(line) // width for line in text.split("\n"))
    height = "content" if _LINE_PIXELS * lines < most_pixels else most_pixels
    st.code(text, language=None, wrap_lines=True, height=height)
