"""A log of one step, as evaluations are: how rewards are distributed, and every task."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.step_charts import distribution
from board.core.expression_tree import text_literal
from board.core.metrics.definitions import REWARD_PART, reward_parts
from board.core.metrics.shares import percent
from board.core.metrics.skewed_means import LEAST_UNBOUNDED
from board.query.open_run import Run
from board.query.prompts import length_column, written_key
from board.query.tasks import Tasks
from board.views.overview import environment_table
from board.views.shared import cache, page_parts, state, tables
from board.views.shared.tables import Column
from board.views.shared.text import counted, number, one_line, plain, where_they_differ

_MOST_PARTS: Final = 4
_MOST_TASKS: Final = 1000
_ACROSS, _MOST_ACROSS = 3, 4
"""Charts beside each other where there are many, and where all are beside each other."""
_MOST_PIXELS: Final = 460
_INTERVAL: Final = (
    "95 % interval of the mean reward: Agresti and Coull's where all are 0 or 1, of four or more; else "
    f"Student's t and its like without skewness, of {LEAST_UNBOUNDED} or more."
)


def show(run: Run) -> None:
    """Distributions of the reward, its parts and lengths, a row per environment, a row per task."""
    step = int(state.get("step"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Distributions", width="content")
        st.space("stretch")
        chosen = page_parts.choose_metrics("overview_metrics", run.metrics, what="Metrics")
        if st.button("Open the rollouts", icon=":material/list:"):
            state.go("rollouts", step=step, **state.NO_ROLLOUT, rollouts_scope="step")
    _distributions(run, step, chosen)
    if "env" in run.columns and len(cache.environments_of(run)) > 1:
        environment_table.show(run)
    _show_tasks(run, step)


def _distributions(run: Run, step: int, chosen: list[str]) -> None:
    length = length_column(run)
    usual = ["reward", *reward_parts(run.metrics)[:_MOST_PARTS], *([length] if length else [])]
    names = chosen or [name for name in usual if name in run.metrics]
    reference = [name for name in ("ref_reward",) if name in run.columns]
    columns = [*dict.fromkeys([*names, *reference])]
    rows = run.frame(columns, (step, step))
    if not chosen:
        names = [name for name in names if not _repeats_reward(rows, name)]
    if not names:
        st.caption("Not recorded in this run: rewards and lengths.")
        return
    across = st.columns(len(names) if len(names) <= _MOST_ACROSS else _ACROSS)
    titles = tables.headings_of(run)
    for place, name in enumerate(names):
        with across[place % len(across)], st.container(border=True):
            title = f"**{plain(titles[name], 60)}** :gray[{plain(_mean(rows, name))}]"
            st.markdown(title, help=plain(tables.definition(name), 600))
            figure = distribution(rows, name, dark=page_parts.dark(), is_small=True)
            if figure is None:
                st.caption("No value is recorded.")
            else:
                page_parts.draw_figure(figure, f"distribution_{name}")


def _mean(rows: pd.DataFrame, name: str) -> str:
    values = rows[name].to_numpy(np.float64, na_value=np.nan)
    known = values[np.isfinite(values)]
    return f"mean {number(float(known.mean()))}, n = {len(known):,}" if len(known) else ""


def _repeats_reward(rows: pd.DataFrame, name: str) -> bool:
    """Whether a part is the reward over again, as where it is the only one."""
    if not name.startswith(REWARD_PART) or "reward" not in rows:
        return False
    part, reward = (
        rows[column].to_numpy(np.float64, na_value=np.nan) for column in (name, "reward")
    )
    return np.array_equal(part, reward, equal_nan=True)


def _show_tasks(run: Run, step: int) -> None:
    tasks = cache.tasks_of(run)
    if tasks is None:
        st.caption("Not recorded in this run: group_id or prompt, by which tasks are told apart.")
        return
    if tasks.table.empty:
        return
    count = len(tasks.table)
    of = "group" if tasks.by_group else "prompt"
    st.markdown(f"#### Tasks :gray[{count:,}, by {of}, the lowest reward first]")
    st.caption(_rates(tasks))
    clicked = tables.pick(
        _columns(tasks),
        tasks.table["task"].tolist(),
        key=f"tasks_{run.info.name}",
        most_pixels=_MOST_PIXELS,
    )
    notes = ["Click a row to see its rollouts."]
    if count > _MOST_TASKS:
        notes.append(f"The first {_MOST_TASKS:,} of {count:,} are listed.")
    if tasks.without:
        notes.append(f"{counted(tasks.without, 'rollout')} without a {of} in none of them.")
    st.caption(" ".join(notes))
    if clicked is not None:
        _open(tasks, clicked, step)


def _open(tasks: Tasks, task: object, step: int) -> None:
    """The rollouts of a task; of a prompt its page, which has all answers."""
    if not tasks.by_group:
        state.go("prompts", prompt=written_key(int(str(task))))
    where = f"group_id == {text_literal(str(task))}"
    view = {"rollouts_view": "list", "rollouts_scope": "step", "where": where, "page": 0}
    state.go("rollouts", step=step, **state.NO_ROLLOUT, **view)


def _rates(tasks: Tasks) -> str:
    """The mean over tasks, and pass@k where tasks were tried several times."""
    means = tasks.table["mean"].to_numpy(np.float64, na_value=np.nan)
    known = means[np.isfinite(means)]
    words = [f"Mean over {counted(len(known), 'task')} {known.mean():.4g}"] if len(known) else []
    for k, (rate, n) in tasks.pass_rates().items():
        few = f" ({counted(n, 'task')})" if n < len(tasks.table) else ""
        words.append(f"pass@{k} {percent(rate)}{few}")
    return plain(" · ".join(words), 400)


def _columns(tasks: Tasks) -> dict[str, Column]:
    table = tasks.table.head(_MOST_TASKS)
    names = [_name(task, by_group=tasks.by_group) for task in table["task"]]
    has_prompts = table["prompt"].notna().all()
    prompts = where_they_differ(table["prompt"].tolist()) if has_prompts else None
    envs = [None if pd.isna(env) else one_line(str(env), 60) for env in table["env"]]
    right = [
        None if not graded else f"{int(n)}/{int(graded)}"
        for n, graded in zip(table["right"].fillna(0), table["graded"], strict=True)
    ]
    columns = {
        "task": Column(names, width=150, label="group" if tasks.by_group else "prompt key"),
        "prompt": Column(prompts, width=330),
        "env": Column(envs if len({*envs}) > 1 else [None] * len(envs), width=110),
        "scored": Column(table["scored"], "localized", "n", 50, "Rollouts with a reward."),
        "mean": Column(table["mean"], "%.4g", "mean reward", 90),
        "low": Column(table["low"], "%.3g", "95 % from", 76, _INTERVAL),
        "high": Column(table["high"], "%.3g", "to", 60, _INTERVAL),
        "right": Column(right, "", "right", 60, "Of the rollouts that were graded.", "right"),
    }
    if tasks.length:
        columns["length"] = Column(
            table["length"], "%.4g", tables.heading(tasks.length), tables.width(tasks.length)
        )
    return columns


def _name(task: object, *, by_group: bool) -> str:
    return one_line(str(task), 80) if by_group else written_key(int(str(task)))
