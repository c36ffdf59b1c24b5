"""Compare: what runs did on shared prompts, their curves over each other, and what differs in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import streamlit as st

from board.charts.curve_data import CurveOptions
from board.components.curve_grid import Card, Click, curve_bar
from board.core.metrics.trainer import PREFIX
from board.errors import BoardError
from board.export.compared_page import compared_page
from board.export.file_names import file_of
from board.index.discovery.run_info import RunInfo
from board.query.compare.answer import run_names
from board.query.compare.matching import Match
from board.query.compare.partner import MOST_LOOKED_AT, Shared, nearest, shared_of
from board.query.open_run import Run
from board.views.compare import ends, paired, seeds
from board.views.compare.compared import Compared, compared_of, metrics_of, shared_parts
from board.views.frame import sidebar
from board.views.shared import cache, opened_runs, page_export, page_parts, state, trainer
from board.views.shared.text import counted, distinct_options, one_line, plain

_USUAL: Final = (
    *("k3_mean", "response_tokens", "entropy_mean"),
    *("is_truncated", "mismatch_kl_mean"),
)
_MOST_PARTS: Final = 3
_ACROSS: Final = 3
_MOST_NAMED: Final = 2
_LONGEST_NAME: Final = 40
# More takes longer to read than to ask for.
_AT_ONCE_BYTES: Final = 256 << 20
_PARTNER: Final = "_compare_partner"


def _choose_runs(run: Run) -> tuple[Run, ...]:
    """The current run and those it is compared with, of the chosen split, without those that lack it."""
    infos = {info.name: info for info in sidebar.neighbours() if info.name != run.info.name}
    chosen = state.keep("compare_runs", infos)
    split = str(state.get("split"))
    usual, shares = ([], "") if chosen else _most_shared(run, split)
    said = f" {one_line(usual[0])} shares {shares}." if usual else ""
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compared")
    row.multiselect(
        "Compare with",
        [*infos],
        **state.bound("compare_runs"),
        placeholder=one_line(usual[0]) if usual else "runs of this folder",
        help="By default the run that shares most with this one: prompts, then settings but for seeds "
        f"and names. Looked at are the {MOST_LOOKED_AT} nearest by folder, format and name that can be "
        f"read at once.{plain(said, 400)}",
        format_func=distinct_options(infos, limit=_LONGEST_NAME),
    )
    names = list(state.get("compare_runs")) or usual
    runs, lacking = [run], list[str]()
    with st.spinner(f"Opening {counted(len(names), 'run')} …"):
        for name in names:
            of_split = cache.of_split(opened_runs.opened(infos[name], run.options), split)
            if of_split is None:
                lacking.append(name)
            else:
                runs.append(of_split)
    with row:
        if lacking:
            st.caption(plain(f"No rollout of split {split} is in {', '.join(lacking)}.", 300))
        _shift_fields(runs)
    return tuple(runs)


def _most_shared(run: Run, split: str) -> tuple[list[str], str]:
    """What a run is compared with before anything is chosen, and in words what it shares; the same until
    there are other runs to choose from.
    """
    infos = sidebar.neighbours()
    key = (run.info.path, run.info.part, split, {info.name for info in infos})
    known: dict[str, Any] = st.session_state.setdefault(_PARTNER, {})
    if known.get("key") != key:
        with st.spinner("Looking for the run that shares most with this one …"):
            known.update(key=key, partner=_look_for_partner(run, split, infos))
    return known["partner"]


def _look_for_partner(run: Run, split: str, infos: Sequence[RunInfo]) -> tuple[list[str], str]:
    best: tuple[Shared, str] | None = None
    for info in nearest(run.info, infos, _AT_ONCE_BYTES):
        try:
            other = cache.of_split(opened_runs.opened(info, run.options), split)
        except BoardError:  # Runs says why it can't be read
            continue
        shared = None if other is None else shared_of(run, other)
        if shared is not None and (best is None or shared.rank > best[0].rank):
            best = shared, info.name
    return ([], "") if best is None else ([best[1]], best[0].text)


def _narrow_to_environments(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs with the chosen environments alone, without those that have none of them."""
    chosen: list[str] = state.get("env")
    envs = [tuple(env for env in chosen if env in cache.environments_of(run)) for run in runs]
    lacking = [run.info.name for run, own in zip(runs, envs, strict=True) if chosen and not own]
    if lacking:
        st.caption(plain(f"None of these environments is in {', '.join(lacking)}.", 300))
    return tuple(
        cache.of_environments(run, own)
        for run, own in zip(runs, envs, strict=True)
        if run.info.name not in lacking
    )


def _shift_fields(runs: Sequence[Run]) -> None:
    """Fields for the number of steps each other run is moved by, for runs that begin at another step."""
    if len(runs) < 2:
        return
    before: Mapping[str, int] = state.get("compare_shifts")
    with st.popover("Shift steps", icon=":material/arrow_range:"):
        shifts = dict[str, int]()
        for run, name in zip(runs[1:], run_names(runs)[1:], strict=True):
            st.markdown(plain(name))
            shifts[run.info.name] = st.number_input(
                "Steps added",
                value=int(before.get(run.info.name, 0)),
                step=1,
                key=f"shift_{state.pulls()}_{run.info.name}",
            )
    state.put(compare_shifts={name: steps for name, steps in shifts.items() if steps})


def _curves(compared: Compared, offered: list[str]) -> list[str]:
    """Draws the curves of the chosen metrics; returns these metrics."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        chosen = page_parts.choose_metrics("compare_metrics", offered, width=420)
        smoothing = page_parts.smoothing()
        sides = zip(compared.runs, compared.shifts, strict=True)
        steps = [run.steps["step"] + shift for run, shift in sides]
        first, last = min(one.min() for one in steps), max(one.max() for one in steps)
        curve_bar(int(first), int(last), key=page_parts.chart_key("compare_bar"))
    usual = ("reward", *shared_parts(compared.runs)[:_MOST_PARTS], *_USUAL)
    metrics = chosen or [name for name in usual if name in offered] or offered[:2]
    look = CurveOptions(band="mean", smoothing=smoothing)
    cards = [_card(compared, metric, look) for metric in metrics]
    if clicked := page_parts.curves(cards, "compare", across=_ACROSS, one_legend=True):
        _open_step(compared, clicked)
    return metrics


def _card(compared: Compared, metric: str, look: CurveOptions) -> Card:
    runs = compared.runs
    trainers = compared.trainers if metric.startswith(PREFIX) else ()
    drawn = cache.compared_curve(
        runs,
        compared.names_with_shifts,
        compared.shifts,
        metric,
        look,
        trainers,
        dark=page_parts.dark(),
    )
    sides = zip(runs, compared.names, strict=True)
    lacking = [name for run, name in sides if metric not in metrics_of(run)]
    named = f"{len(lacking)} of these runs" if len(lacking) > _MOST_NAMED else ", ".join(lacking)
    notes = [f"Not recorded in {one_line(named, 300)}."] if lacking else []
    return page_parts.card(
        metric, drawn, "Click a curve to see what contributes most to that step.", notes
    )


def _open_step(compared: Compared, clicked: Click) -> None:
    """Opens the step of the run whose curve was clicked, as that run counts its steps."""
    sides = zip(compared.runs, compared.shifts, strict=True)
    drawn = [(run, shift) for run, shift in sides if clicked.chart in metrics_of(run)]
    run, shift = drawn[min(clicked.line, len(drawn) - 1)]
    place = {"run": run.info.name, "step": clicked.step - shift, "index": None, "token": None}
    column = clicked.chart
    if column.startswith(PREFIX):
        column = trainer.explaining_metric(run, clicked.step - shift)
    metric = {"step_metric": column, "step_only": "", "step_order": "highest"}
    state.go("step", step_part="contributions", **place, **metric)


def _render() -> None:
    run = sidebar.current()
    page_parts.header(run)
    runs = _choose_runs(run)
    if len(runs) == 1:
        state.keep("compare_metrics", run.metrics)
        words = (
            "The other runs are large, so none is read unless you ask. Choose one above to compare with."
            if len(sidebar.neighbours()) > 1
            else "There is no other run in this folder. Put a second run next to this one, or choose a "
            "log folder that holds several."
        )
        st.info(words, icon=":material/difference:")
        return
    offered = list(dict.fromkeys(name for one in runs for name in metrics_of(one)))
    # Those of rollouts first, whichever run has them.
    offered.sort(key=lambda name: name.startswith(PREFIX))
    if not offered:
        st.info("Not recorded in these runs: any metric.")
        return
    every = compared_of(runs)
    compared = every.narrowed(_narrow_to_environments(runs))
    pair = paired.show(every, compared)
    if compared.runs:
        metrics = _curves(compared, offered)
        drawn = [name for name in metrics if not name.startswith(PREFIX)]
        matched = cast("Match", state.get("compare_match"))
        names = compared.names[1:]
        others = names[0] if len(names) == 1 else counted(len(names), "run")
        page_export.offer(
            file_of(run, f"against_{others}"),
            partial(compared_page, compared.runs, drawn, compared.shifts, matched),
        )
        if len(compared.runs) > 2:
            seeds.show(compared.runs, offered)
        ends.show(compared, [*dict.fromkeys((*metrics, *offered))])
    ends.show_settings(every)
    if pair is not None:
        paired.show_same_prompt(pair)


_render()
