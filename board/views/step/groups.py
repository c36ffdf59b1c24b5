"""The groups of one step: rollouts of one prompt side by side, and whether advantages fit."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts import group_charts
from board.charts.group_charts import Cells
from board.components.curve_grid import Card
from board.core.groups.solve_rates import zero_std_at_sizes
from board.core.groups.statistics import CONVENTIONS, Outcome
from board.core.metrics.definitions import REWARD_PART
from board.core.metrics.shares import percent
from board.errors import BoardError
from board.query.group_sizes import group_sizes
from board.query.groups import RunGroups, StepFit, StepRollouts, group_names, step_grid
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.shared import cache, page_parts, shortcuts, state, tables
from board.views.shared.page_parts import answer, text_box
from board.views.shared.run_options import SET_RIGHT
from board.views.shared.tables import Column
from board.views.shared.text import number, plain

_CHOSEN: Final = "_group_chosen"
_ACROSS: Final = 4
_MOST_ANSWERS: Final = 16
_MOST_DIFFERENCES: Final = 500
_SIZES: Final = (2, 4, 8, 16, 32, 64)
_SIZES_STEPS: Final = 10
_FILLS: Final = {"reward": "reward", "advantage": "advantage"}
_CURVES: Final = {
    "zero": (
        "Zero-std groups",
        "Share of groups of 2 or more scores whose rewards are all equal. Their advantages are 0: only "
        "other terms of the loss, such as KL, have a gradient (DAPO, arXiv 2503.14476; TRL "
        "frac_reward_zero_std).",
    ),
    "batch": (
        "Effective batch",
        "Scored rollouts in groups whose rewards differ, against all rollouts in groups.",
    ),
    "pass": (
        "pass@k",
        "Chance that one of k tries is right: 1 - C(n - c, k) / C(n, k), unbiased, mean over groups of k "
        "or more judged rollouts (Chen et al. 2021, arXiv 2107.03374). The 95 % interval of that mean is "
        "Agresti and Coull's for so many groups; it is drawn for k = 1.",
    ),
}


def _show_cards(groups: RunGroups, fit: StepFit | None, step: int) -> None:
    by_step = groups.by_step
    places = np.flatnonzero(by_step.steps == step)
    if not len(places):
        st.caption("No rollout of this step has a group id.")
        return
    i = int(places[0])
    sizes = groups.groups.size[groups.groups.steps == step]
    size = f"{sizes.min()}" if sizes.min() == sizes.max() else f"{sizes.min()} to {sizes.max()}"
    rollouts = f"of {by_step.rollouts[i]:,} rollouts"
    zero_std = number(by_step.zero_std[i], "share")
    what_is_right = plain(f"{groups.judged.text}. {SET_RIGHT}. Mean over groups.", 500)
    cards = [
        ("Groups", f"{len(sizes):,}", f"of {size} rollouts", "Rollouts of one group_id."),
        ("Solve rate", *_solve_rate(groups, i), what_is_right),
        ("Zero-std groups", zero_std, _equal_outcomes(groups, i), _CURVES["zero"][1]),
        ("Effective batch", f"{by_step.effective[i]:,}", rollouts, _CURVES["batch"][1]),
    ]
    sizes_of_run = group_sizes(groups.run)
    count, few, usual = sizes_of_run.by_step.get(step, (0, 0, 0)) if sizes_of_run else (0, 0, 0)
    if few:
        help_text = (
            "Groups with fewer rollouts than is usual at this step: some were filtered, dropped, or are "
            "not logged. Advantages within them rest on fewer rewards."
        )
        words = f"of {count:,} have less than {usual} rollouts"
        cards.append(("Incomplete groups", f"{few:,}", words, help_text))
    if fit is not None:
        wrong, count = int(fit.differs.sum()), len(fit.differs)
        words = f"of {count:,}: see below" if wrong else "all match the rewards"
        cards.append(("Advantages that do not match", f"{wrong:,}", words, _fit_help(fit)))
    tables.cards(cards)


def _solve_rate(groups: RunGroups, i: int) -> tuple[str, str]:
    """The solve rate of a step, and by what; where nothing says what is right, why."""
    rate, of_run = float(groups.by_step.solve_rate[i]), groups.groups
    is_step = of_run.steps == groups.by_step.steps[i]
    scored, graded = int(of_run.scored[is_step].sum()), int(of_run.graded[is_step].sum())
    if np.isfinite(rate) or not scored:
        by = f"by {groups.judged.rule.column.removeprefix(REWARD_PART)}"
        left = scored - graded
        return number(rate, "share"), f"{by}, {left:,} not judged" if left > 0 else by
    if of_run.graded.any():
        return "not judged", "the rewards here lie between right and wrong"
    means = of_run.mean[of_run.scored > 0]
    are_equal = np.ptp(means) == 0 and not (of_run.outcomes == Outcome.MIXED).any()
    return "not judged", f"all rewards of the run are {'equal' if are_equal else 'of many values'}"


def _equal_outcomes(groups: RunGroups, i: int) -> str:
    """Which groups have equal rewards; right and wrong where any rollout is judged."""
    by_step = groups.by_step
    shares = []
    if np.isfinite(by_step.solve_rate[i]):
        shares = [(by_step.all_right[i], "all right"), (by_step.all_wrong[i], "all wrong")]
    if by_step.other[i] > 0:
        shares.append((by_step.other[i], "equal otherwise"))
    return ", ".join(f"{percent(share)} {words}" for share, words in shares)


def _fit_help(fit: StepFit) -> str:
    known = CONVENTIONS[fit.of_run.closest]
    return f"Recomputed from rewards by {known.label}: {known.formula}. {known.source}."


def _read_cells(run: Run, groups: RunGroups, step: int) -> Cells | None:
    """The step's groups, in the order in which they come in the log; None without any."""
    fill = str(state.get("groups_values"))
    grid, names = step_grid(run, step, fill if fill in run.columns else "reward")
    if not names:
        return None
    values = grid.values if fill in run.columns else np.full(grid.values.shape, np.nan)
    of_rollouts = groups.of(step).groups
    words = [_outcome(groups, group) for group in of_rollouts[grid.rows[:, 0]].tolist()]
    indices = run.of_step(step)["index"].to_numpy(np.int64)
    return Cells(names, words, np.where(grid.rows < 0, -1, indices[grid.rows]), values)


def _outcome(groups: RunGroups, group: int) -> str:
    """3/8 where rollouts are judged and mixed, else the outcome's word."""
    of_run = groups.groups
    outcome, count = Outcome(int(of_run.outcomes[group])), int(of_run.graded[group])
    if outcome is Outcome.MIXED and count:
        return f"{of_run.right[group]:.0f}/{count}"
    return group_charts.OUTCOME_WORDS[outcome]


def _show_grid(cells: Cells, chosen: str, *, has_advantages: bool) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Groups × rollouts** :gray[click a square]")
            st.space("stretch")
            fills = [*_FILLS] if has_advantages else ["reward"]
            state.ensure("groups_values", fills, "reward")
            fill = page_parts.segments("Coloured by", "groups_values", _FILLS, fills)
        cells = _choose_rows(cells)
        look = {"diverging": fill == "advantage", "dark": page_parts.dark()}
        figure = group_charts.group_grid(cells, fill, chosen=chosen, **look)
        page_parts.draw_figure(figure, "grid", _open_rollout)


def _choose_rows(cells: Cells) -> Cells:
    """The rows that fit; which of them is asked for where that is not all."""
    count, widest = cells.index.shape
    size = max(group_charts.MAX_CELLS // max(widest, 1), 1)
    if count <= size:
        return cells
    first = min(int(state.get("groups_first")), count - 1) // size * size
    if first != state.get("groups_first"):
        state.put(groups_first=first)
    page_parts.menu(
        "Groups shown",
        "groups_first",
        range(0, count, size),
        lambda start: f"groups {start + 1} to {min(start + size, count)} of {count}",
        width=260,
    )
    part = slice(first, first + size)
    return Cells(cells.names[part], cells.words[part], cells.index[part], cells.values[part])


def _choose_group(cells: Cells, rows: pd.DataFrame) -> pd.DataFrame:
    """The rollouts of the chosen group, the best reward first."""
    words = dict(zip(cells.names, cells.words, strict=True))
    first = next((name for name, outcome in words.items() if "/" in outcome), cells.names[0])
    # A step has groups of its own: what was chosen at the one before does not make the link wrong.
    before = state.get("groups_id")
    if before == st.session_state.get(_CHOSEN) and before not in words:
        state.put(groups_id="")
    state.ensure("groups_id", ["", *words], "")
    chosen = st.session_state[_CHOSEN] = str(state.ensure("groups_id", words, first))
    members = rows[group_names(rows) == chosen]
    if "reward" in members:
        members = members.sort_values("reward", ascending=False, kind="stable")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        page_parts.menu(
            "Group", "groups_id", words, lambda name: f"{name} · {words[name]}", width=320
        )
        shortcuts.through("group", [*words], chosen, lambda name: state.put(groups_id=name))
        if shortcuts.opens("the best rollout of the group"):
            _open_rollout(members["index"].iloc[0])
    return members


def _show_group(run: Run, step: int, members: pd.DataFrame) -> None:
    """What a group was asked, and its answers side by side."""
    if "prompt" in members and isinstance(members["prompt"].iloc[0], str):
        with suppress(BoardError):
            opened = cache.rollout(run, step, int(members["index"].iloc[0]), state.get("tokenizer"))
            if prompt := opened.record.texts.get("prompt"):
                text_box(prompt, width=110, most_pixels=150)
    with st.grid(_ACROSS, min_column_width=130, gap="small"):
        for _, row in members.head(_MOST_ANSWERS).iterrows():
            scored = [n for n in ("reward", "advantage") if n in row and pd.notna(row[n])]
            scores = [f"{name} {number(float(row[name]))}" for name in scored]
            index, note = int(row["index"]), " · ".join(scores) or "not scored"
            with st.container():
                answer(run, step, index, f"rollout {index}", width=22, note=note, over="step")
    if len(members) > _MOST_ANSWERS:
        st.caption(f"The best {_MOST_ANSWERS} of {len(members):,} are shown.")


def _open_rollout(index: int) -> None:
    state.go("rollouts", index=int(index), token=None, reader_over="step")


def _show_curves(run: Run) -> None:
    st.markdown("#### Over training")
    smoothing = page_parts.smoothing()
    cards: list[Card] = []
    for chart, (title, explained) in _CURVES.items():
        drawn = cache.group_curve(run, chart, smoothing, dark=page_parts.dark())
        if drawn["lines"]:  # without any, no answer is judged: the solve rate says so
            help_lines = [explained, "Click a step to see its groups."]
            cards.append(Card(chart, title, drawn, help=help_lines))
    if clicked := page_parts.curves(cards, "groups", across=len(cards)):
        at = {"step": clicked.step, **state.NO_ROLLOUT}
        state.go("step", step_part="groups", **at, groups_id="", groups_first=0)


def _show_solve_rates(run: Run, groups: RunGroups, step: int) -> None:
    """How solve rates are distributed, and what other group sizes would give."""
    figure = group_charts.solve_rates(groups.groups, dark=page_parts.dark())
    if figure is None:
        return
    left, right = st.columns([1.2, 1], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.markdown(
            "**Solve rates of groups**",
            help="The share of groups by how many of their judged rollouts are right. Of many steps, "
            "neighbours are put together.",
        )
        page_parts.draw_figure(figure, "solve_rates")
    with right, st.container(border=True, height="stretch"):
        _show_group_sizes(run, groups, step)


def _show_group_sizes(run: Run, groups: RunGroups, step: int) -> None:
    """How many zero-std groups other group sizes would give, by the last steps."""
    steps = [one for one in run.counts if one <= step][-_SIZES_STEPS:]
    of_run, own = groups.groups, np.isin(groups.groups.steps, steps)
    shares = zero_std_at_sizes(of_run.graded[own], of_run.right[own], _SIZES)
    if not shares:
        return
    st.markdown(
        "**Zero-std groups at other group sizes**",
        help="Expected by how many of each group's rollouts are right. Sizes up to the smallest group "
        "are exact on average (C(c, k) / C(n, k)); larger ones assume that the prompts' chances are Beta "
        "distributed, with the mean and variance of these groups (beta-binomial, Skellam 1948).",
    )
    which = f"steps {steps[0]} to {steps[-1]}" if len(steps) > 1 else f"step {step}"
    count = int((np.isfinite(of_run.right[own]) & (of_run.graded[own] > 1)).sum())
    st.caption(f"Expected from {count:,} groups of {which}, by correctness.")
    tables.draw(
        {
            "size": Column([one.size for one in shares], "%d", "rollouts per group"),
            "zero-std groups": Column([one.total for one in shares], tables.PERCENT),
            "all right": Column([one.all_right for one in shares], tables.PERCENT),
            "all wrong": Column([one.all_wrong for one in shares], tables.PERCENT),
            "how": Column(
                ["beta-binomial" if one.is_extrapolated else "from these groups" for one in shares]
            ),
        }
    )


def _fit_of(run: Run, step: int) -> StepFit | None:
    """Advantages against rewards; recomputed over the whole step, of which the run may hold a part."""
    whole = sidebar.current()
    fit = cache.advantage_fit(whole, step)
    all_groups, own_groups = cache.groups_of(whole), cache.groups_of(run)
    if fit is None or run is whole or all_groups is None or own_groups is None:
        return fit
    own = np.isin(all_groups.of(step).indices, own_groups.of(step).indices)
    return StepFit(fit.of_run, fit.expected[own], fit.differs[own])


def _show_advantages(rollouts: StepRollouts, fit: StepFit | None) -> None:
    labels = "; ".join(f"{one.label}: {one.formula}" for one in CONVENTIONS.values())
    explained = plain(f"Compared with {labels}. The one that fits most steps is shown.", 900)
    st.markdown("#### Advantages, recorded and recomputed", help=explained)
    if fit is None:
        st.caption("Not recorded at this step: advantage.")
        return
    known = CONVENTIONS[fit.of_run.closest]
    share = fit.of_run.shares.get(known.name)
    if share is None or np.isnan(share):
        words = "No group has two scored rollouts, so rewards give no advantage to compare with."
        st.caption(words)
        return
    if fit.of_run.convention is None:
        words = (
            f"The advantages follow none of the known conventions; the closest, {known.label}, fits "
            f"{percent(share)} of the steps. The trainer may change them afterwards."
        )
        st.warning(plain(words, 400), icon=":material/rule:")
    left, right = st.columns([1, 1.4], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.markdown(f"**{plain(known.label)}**", help=plain(_fit_help(fit), 600))
        st.caption(plain(f"{known.formula}; fits {percent(share)} of the steps checked"))
        columns = rollouts.advantages, fit.expected, fit.differs, rollouts.indices
        figure = group_charts.recorded_against_expected(*columns, dark=page_parts.dark())
        page_parts.draw_figure(figure, "advantages", _open_rollout)
    with right:
        _show_differences(rollouts, fit)


def _show_differences(rollouts: StepRollouts, fit: StepFit) -> None:
    count, wrong = len(fit.differs), int(fit.differs.sum())
    if not np.isfinite(fit.expected).any():
        words = "No group of this step has two scored rollouts: nothing is recomputed."
        st.info(words, icon=":material/info:")
    elif not wrong:
        st.success("Every recorded advantage matches the rewards.", icon=":material/check_circle:")
    else:
        words = f"{wrong:,} of {count:,} advantages do not match the rewards."
        st.warning(words, icon=":material/rule:")
    rows = np.flatnonzero(fit.differs if wrong else np.ones(count, bool))[:_MOST_DIFFERENCES]
    recorded, recomputed = rollouts.advantages[rows], fit.expected[rows]
    tables.draw(
        {
            "rollout": Column(rollouts.indices[rows], "%d"),
            "group": Column([rollouts.names[row] for row in rows]),
            "reward": Column(rollouts.rewards[rows], "%.4g"),
            "recorded": Column(recorded, "%.4g"),
            "recomputed": Column(recomputed, "%.4g"),
            "difference": Column(recorded - recomputed, "%.4g"),
        },
        most_pixels=260,
        placeholder="not recorded",
    )


def _offer_prompts_as_groups(run: Run) -> None:
    """A button by which equal prompts are groups, where each comes equally often."""
    count = cache.rollouts_per_prompt(run)
    if count is None:
        return
    st.caption(f"Every prompt has {count} rollouts per step.")
    words, icon = "Treat equal prompts of a step as groups", ":material/group_work:"
    st.button(words, icon=icon, on_click=state.put, kwargs={"grouping": True})


def show(run: Run, step: int) -> None:
    """Counts, the grid of groups and rollouts, one group side by side, curves and advantages."""
    groups = cache.groups_of(run)
    if groups is None:
        page_parts.say_lacking("Groups", run, "grid_off")
        _offer_prompts_as_groups(run)
        return
    fit = _fit_of(run, step)
    _show_cards(groups, fit, step)
    cells = _read_cells(run, groups, step)
    if cells is None:
        _show_curves(run)
        return
    left, right = st.columns([1, 1.7], gap="small")
    with right, st.container(border=True, height="stretch"):
        members = _choose_group(cells, run.of_step(step))
        _show_group(run, step, members)
    with left:
        _show_grid(cells, str(state.get("groups_id")), has_advantages="advantage" in run.columns)
    _show_curves(run)
    _show_solve_rates(run, groups, step)
    _show_advantages(groups.of(step), fit)
