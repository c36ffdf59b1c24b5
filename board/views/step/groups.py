"""The groups of one step: rollouts of one prompt side by side, and whether advantages fit."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.group_charts import (
    MAX_CELLS,
    OUTCOME_WORDS,
    Cells,
    group_grid,
    recorded_against_expected,
)
from board.charts.layout import notes_of
from board.components.curve_grid import Card, curve_grid
from board.core.groups.advantages import CONVENTIONS
from board.core.groups.statistics import Outcome, StepGroups
from board.core.metrics.definitions import REWARD_PART
from board.core.metrics.shares import percent
from board.query.groups import RunGroups, StepFit, StepRollouts, step_grid
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.shared import cache, page_parts, recording_hints, shortcuts, state
from board.views.shared.text import number, one_line, plain
from board.views.step import group_answers

_CHOSEN: Final = "_group_chosen"
_CURVES: Final = (
    (
        "zero",
        "Zero-std groups",
        "Share of groups of 2 or more scores whose rewards are all equal: they give no policy gradient "
        "(DAPO, arXiv 2503.14476; TRL frac_reward_zero_std).",
    ),
    (
        "batch",
        "Effective batch",
        "Scored rollouts in groups whose rewards differ, against all rollouts in groups.",
    ),
    (
        "pass",
        "pass@k",
        "Chance that one of k tries is right: 1 - C(n - c, k) / C(n, k), unbiased, mean over groups of k "
        "or more judged rollouts (Chen et al. 2021, arXiv 2107.03374).",
    ),
)


def _cards(found: RunGroups, fit: StepFit | None, step: int) -> None:
    by_step = found.by_step
    at = np.flatnonzero(by_step.steps == step)
    if not len(at):
        st.caption("No rollout of this step has a group id.")
        return
    i = int(at[0])
    sizes = found.groups.size[found.groups.steps == step]
    of_size = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    told = [
        ("Groups", f"{len(sizes):,}", f"of {of_size} rollouts", "Rollouts of one group_id."),
        ("Solve rate", *_solved(found, i), _right_words(found)),
        (
            "Zero-std groups",
            number(by_step.zero_std[i], "share"),
            _equal_by_outcome(by_step, i),
            _CURVES[0][2],
        ),
        (
            "Effective batch",
            f"{by_step.effective[i]:,}",
            f"of {by_step.rollouts[i]:,} rollouts",
            _CURVES[1][2],
        ),
    ]
    if fit is not None:
        wrong = int(fit.differs.sum())
        words = "all match the rewards" if not wrong else f"of {len(fit.differs):,}: see below"
        told.append(("Advantages that do not match", f"{wrong:,}", words, _fit_help(fit)))
    with st.grid(max(len(told), 4), min_column_width=170, gap="small"):
        for label, value, words, explained in told:
            with st.container(border=True, height="stretch"):
                st.metric(label, value, help=plain(explained, 600))
                st.caption(plain(words))


def _percent(share: float) -> str:
    return percent(share) if share == share else "–"


def _solved(found: RunGroups, i: int) -> tuple[str, str]:
    """The solve rate of a step, and by what; where nothing says what is right, why."""
    rate = float(found.by_step.solve_rate[i])
    if found.right_by is not None:
        return number(rate, "share"), f"by {found.right_by.removeprefix(REWARD_PART)}"
    groups = found.groups
    if np.isfinite(rate) or not groups.scored[groups.steps == found.by_step.steps[i]].any():
        return number(rate, "share"), "by the highest reward"
    if groups.judged.any():
        return "not judged", "no reward here is the run's highest or lowest"
    return "not judged", "all rewards of the run are equal"


def _equal_by_outcome(by_step: StepGroups, i: int) -> str:
    """Which groups give no gradient; right and wrong where they are told of any rollout."""
    shares = [(by_step.all_right[i], "all right"), (by_step.all_wrong[i], "all wrong")]
    if not np.isfinite(by_step.solve_rate[i]):
        shares = []
    if by_step.other[i] > 0:
        shares.append((by_step.other[i], "equal otherwise"))
    return ", ".join(f"{_percent(share)} {words}" for share, words in shares)


def _right_words(found: RunGroups) -> str:
    if found.right_by:
        return (
            f"Right is the highest value of {found.right_by}; where it is 0 or less throughout, nothing "
            "is right. Mean over groups."
        )
    return (
        "No part of the reward says what is right: the highest reward of the run counts as right, the "
        "lowest as wrong, and what lies between as not judged. Mean over groups."
    )


def _cells(run: Run, found: RunGroups) -> Cells | None:
    """The step's groups, in the order in which they come in the log; None without any."""
    step, fill = int(state.get("step")), str(state.get("fill"))
    laid, names = step_grid(run, step, fill if fill in run.columns else "reward")
    if not names:
        return None
    values = laid.values if fill in run.columns else np.full(laid.values.shape, np.nan)
    of_index = found.of(step).groups
    words = [_outcome(found, group) for group in of_index[laid.rows[:, 0]].tolist()]
    indices = run.of_step(step)["index"].to_numpy(np.int64)
    return Cells(names, words, np.where(laid.rows < 0, -1, indices[laid.rows]), values)


def _outcome(found: RunGroups, group: int) -> str:
    """3/8 where right and wrong are told and mixed, else the outcome's word."""
    groups = found.groups
    outcome, judged = Outcome(int(groups.outcomes[group])), int(groups.judged[group])
    if outcome is Outcome.MIXED and judged:
        return f"{groups.right[group]:.0f}/{judged}"
    return OUTCOME_WORDS[outcome]


def _grid(cells: Cells, chosen: str, *, has_advantages: bool) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Groups × rollouts** :gray[click a square]")
            st.space("stretch")
            fills = ["reward", "advantage"] if has_advantages else ["reward"]
            state.ensure("fill", fills, "reward")
            st.segmented_control(
                "Coloured by",
                fills,
                key="fill",
                required=True,
                label_visibility="collapsed",
                persist_state="session",
            )
        cells = _page_of(cells)
        fill = str(state.get("fill"))
        figure = group_grid(
            cells, fill, diverging=fill == "advantage", dark=page_parts.dark(), chosen=chosen
        )
        page_parts.clickable(
            figure, key="grid", field="customdata", on_pick=group_answers.open_rollout
        )
        for note in notes_of(figure):
            st.caption(plain(note))


def _page_of(cells: Cells) -> Cells:
    """The rows that fit; which part of them is asked for where that is not all."""
    count, widest = cells.index.shape
    each = max(MAX_CELLS // max(widest, 1), 1)
    if count <= each:
        return cells
    first = min(int(state.get("gfrom")), count - 1) // each * each
    offered = list(range(0, count, each))
    state.put(gfrom=first)
    st.selectbox(
        "Groups shown",
        offered,
        key="gfrom",
        format_func=lambda start: f"groups {start + 1} to {min(start + each, count)} of {count}",
        width=260,
        label_visibility="collapsed",
        persist_state="session",
    )
    part = slice(first, first + each)
    return Cells(cells.names[part], cells.words[part], cells.index[part], cells.values[part])


def _open_step(step: int) -> None:
    state.go("step", part="groups", step=step, index=None, token=None, gid="", gfrom=0)


def _choose_group(cells: Cells, rows: pd.DataFrame) -> str:
    offered = list(cells.names)
    first = next((n for n, w in zip(cells.names, cells.words, strict=True) if "/" in w), offered[0])
    words = dict(zip(cells.names, cells.words, strict=True))
    # A step has groups of its own: what was chosen at the one before is no wrong link.
    if state.get("gid") == st.session_state.get(_CHOSEN) and state.get("gid") not in offered:
        state.put(gid="")
    state.ensure("gid", ["", *offered], "")
    chosen = st.session_state[_CHOSEN] = str(state.ensure("gid", offered, first))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.selectbox(
            "Group",
            offered,
            key="gid",
            format_func=lambda name: one_line(f"{name} · {words[name]}"),
            width=320,
            label_visibility="collapsed",
            persist_state="session",
        )
        shortcuts.through("group", offered, chosen, lambda name: state.put(gid=name))
        if shortcuts.opens("the best rollout of the group"):
            group_answers.open_rollout(group_answers.members(rows, chosen)["index"].iloc[0])
    return chosen


def _curves(run: Run) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Over training")
        st.space("stretch")
        smoothing = page_parts.smoothing()
    cards: list[Card] = []
    for chart, title, explained in _CURVES:
        drawn = cache.group_curve(run, chart, smoothing, dark=page_parts.dark())
        if not drawn.chart["lines"]:  # no answer is judged: the solve rate says so
            continue
        help_lines = [explained, "Click a step to see its groups."]
        cards.append(Card(chart, title, drawn.chart, help=help_lines, notes=drawn.notes))
    key = page_parts.chart_key("groups")
    picked = curve_grid(cards, step=state.get("step"), key=key, across=len(cards))
    if picked:
        _open_step(picked.step)


def _fit(run: Run, step: int) -> StepFit | None:
    """Advantages against rewards; told by the whole step, of which the run may hold a part."""
    whole = sidebar.current()
    fit = cache.advantage_fit(whole, step)
    every, held = cache.groups_of(whole), cache.groups_of(run)
    if fit is None or run is whole or every is None or held is None:
        return fit
    kept = np.isin(every.of(step).indices, held.of(step).indices)
    return StepFit(fit.told, fit.expected[kept], fit.differs[kept])


def _fit_help(fit: StepFit) -> str:
    known = CONVENTIONS[fit.told.closest]
    return f"Recomputed from rewards by {known.label}: {known.formula}. {known.source}."


def _advantages(found: RunGroups, fit: StepFit | None, step: int) -> None:
    labels = "; ".join(f"{one.label}: {one.formula}" for one in CONVENTIONS.values())
    st.markdown(
        "#### Advantages, recorded and recomputed",
        help=plain(f"Compared with {labels}. The one that fits most steps is shown.", 900),
    )
    if fit is None:
        st.caption("Not recorded at this step: advantage.")
        return
    known = CONVENTIONS[fit.told.closest]
    share = fit.told.shares.get(known.name, float("nan"))
    if np.isnan(share):
        st.caption(
            "No group has two scored rollouts, so rewards give no advantage to compare with."
        )
        return
    if fit.told.convention is None:
        st.warning(
            plain(
                f"The advantages follow none of the known conventions; the closest, {known.label}, fits "
                f"{_percent(share)} of the steps. The trainer may change them afterwards.",
                400,
            ),
            icon=":material/rule:",
        )
    own = found.of(step)
    left, right = st.columns([1, 1.4], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.markdown(f"**{plain(known.label)}**", help=plain(_fit_help(fit), 600))
        st.caption(plain(f"{known.formula}; fits {_percent(share)} of the steps checked"))
        figure = recorded_against_expected(
            own.advantages, fit.expected, fit.differs, own.indices, dark=page_parts.dark()
        )
        page_parts.clickable(
            figure, key="advantages", field="customdata", on_pick=group_answers.open_rollout
        )
    with right:
        _differences(own, fit)


def _differences(own: StepRollouts, fit: StepFit) -> None:
    frame = pd.DataFrame(
        {
            "rollout": own.indices,
            "group": own.names,
            "reward": own.rewards,
            "recorded": own.advantages,
            "recomputed": fit.expected,
            "difference": own.advantages - fit.expected,
        }
    )
    wrong = frame[fit.differs]
    if not np.isfinite(fit.expected).any():
        st.info(
            "No group of this step has two scored rollouts: nothing is recomputed.",
            icon=":material/info:",
        )
    elif not len(wrong):
        st.success("Every recorded advantage matches the rewards.", icon=":material/check_circle:")
    else:
        st.warning(
            f"{len(wrong):,} of {len(frame):,} advantages do not match the rewards.",
            icon=":material/rule:",
        )
    shown = (wrong if len(wrong) else frame).head(500)
    st.dataframe(
        shown,
        hide_index=True,
        height=min(36 * (len(shown) + 1) + 3, 260),
        row_height=36,
        placeholder="not recorded",
        column_config={
            name: st.column_config.NumberColumn(name, format="%.4g")
            for name in ("reward", "recorded", "recomputed", "difference")
        },
    )


def show(run: Run) -> None:
    """Counts, the grid of groups and rollouts, one group side by side, curves and advantages."""
    found = cache.groups_of(run)
    if found is None:
        missing = page_parts.not_recorded(run.columns, ("group_id", "reward"))
        st.info(
            f"{missing} {recording_hints.how_to_record('Groups')}",
            icon=":material/grid_off:",
        )
        return
    step = int(state.get("step"))
    fit = _fit(run, step)
    _cards(found, fit, step)
    rows = run.of_step(step)
    cells = _cells(run, found)
    if cells is not None:
        _grid_and_group(run, rows, cells)
    _curves(run)
    if cells is not None:
        _advantages(found, fit, step)


def _grid_and_group(run: Run, rows: pd.DataFrame, cells: Cells) -> None:
    left, right = st.columns([1, 1.7], gap="small")
    with right, st.container(border=True, height="stretch"):
        chosen = _choose_group(cells, rows)
        group_answers.side_by_side(run, rows, chosen)
    with left:
        _grid(cells, chosen, has_advantages="advantage" in run.columns)
