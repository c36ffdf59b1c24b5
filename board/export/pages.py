"""The pages that are about rollouts: one, two side by side, those of a list, of a group, of a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from board.analysis.rollout import open_rollout
from board.analysis.spike import spike_of
from board.core.metrics.definitions import TOKEN_METRICS, base_name, reward_parts, rollout_metric
from board.core.metrics.shares import counted, interval, number
from board.core.tokens.contributions import TOKEN_SOURCES
from board.core.tokens.vocabulary import Vocabulary
from board.errors import ChoiceError, did_you_mean
from board.export.comparison_part import Side, comparison_markup
from board.export.contribution_part import add_contributions
from board.export.curve_svg import StepCurve, step_curve
from board.export.page_text import Redaction
from board.export.rollout_part import Address, rollout_markup
from board.export.sheet import MOST_BYTES, Room, Sheet, StaticPage, source_of
from board.query.columns import numbers
from board.query.groups import group_names
from board.query.open_run import Run
from board.query.rollouts import Sorting, at_step, frame

_RESERVE_BYTES: Final = 150_000
"""For what stands above the rollouts of a page: a curve, contributions, and tables of _MOST_ROWS."""
_MOST_ROWS: Final = 200
_NAMED: Final = 8
_LISTED: Final = (
    *("step", "index", "reward", "advantage", "response_tokens", "response_chars"),
    *("finish_reason", "group_id", "env", "response"),
)
_HEADS: Final = {"index": "rollout", "response_tokens": "tokens", "response_chars": "characters"}
_TEXTS: Final = ("finish_reason", "group_id", "env", "response")


@dataclass(frozen=True, slots=True)
class PageOptions:
    """metric: the token metric of the colours; None: the first that a rollout has. redact: a regular
    expression whose matches are removed. vocabulary: decodes ids where the run has none of its own.
    """

    metric: str | None = None
    redact: str | None = None
    most_bytes: int = MOST_BYTES
    vocabulary: Vocabulary | None = None

    def sheet(self) -> Sheet:
        """An empty page. Raises ChoiceError."""
        return Sheet(Redaction.of(self.redact), self.most_bytes)


def add_rollouts(
    sheet: Sheet, run: Run, addresses: Sequence[Address], options: PageOptions
) -> list[Address]:
    """Puts rollouts at the end of the page, in this order, as many as there is room for; returns these.

    The page says how many are left out. Only the first one is cut, where it is too large alone. Called
    before what stands above them is written, which may link to them. Raises BoardError where one can't be
    read, and where none has the metric of the colours.
    """
    on_page: list[Address] = []
    offered: dict[str, None] = {}
    reserve = min(_RESERVE_BYTES, sheet.room // 3)
    run.read_rows([(address.step, address.index) for address in addresses])
    for place, address in enumerate(addresses):
        opened = open_rollout(run, address.step, address.index, options.vocabulary)
        before, room = sheet.redaction.count, Room(sheet.room - reserve)
        markup = rollout_markup(sheet, run, opened, address, room, options.metric)
        if room.cut and place:
            sheet.redaction.count = before
            count = f"{len(addresses) - place:,} of {len(addresses):,} rollouts"
            sheet.left_out.append(f"{count}, {sheet.why_cut}")
            break
        words = address.words.lower()
        sheet.left_out += [f"{cut} of {words}, {sheet.why_cut}" for cut in room.cut]
        sheet.add_last(markup)
        on_page.append(address)
        offered |= dict.fromkeys(opened.metrics)
    _must_have(options.metric, offered)
    return on_page


def _must_have(metric: str | None, offered: Iterable[str]) -> None:
    names = [*offered]
    if metric is not None and metric not in names and (names or metric not in TOKEN_METRICS):
        words = did_you_mean(metric, names) if names else "they record no token metric"
        raise ChoiceError(f"none of these rollouts has the token metric {metric!r}; {words}")


def rollout_page(run: Run, address: Address, options: PageOptions) -> StaticPage:
    """One rollout, below the curve of the reward."""
    sheet = options.sheet()
    add_rollouts(sheet, run, [address], options)
    title = f"{address.words} of {run.info.name}"
    sheet.heading(sheet.line(title))
    add_curves(sheet, run, [main_column(run)], address.step)
    return sheet.page(title, source_of(sheet, run))


def comparison_page(left: Side, right: Side, options: PageOptions) -> StaticPage:
    """Two rollouts side by side. Raises ChoiceError where neither has the metric of the colours."""
    sheet = options.sheet()
    _must_have(options.metric, {**left.opened.metrics, **right.opened.metrics})
    other = right.address.words.lower()
    if right.run.info.name != left.run.info.name:
        other = f"{other} of {right.run.info.name}"
    title = f"{left.address.words} of {left.run.info.name} against {other}"
    sheet.heading(sheet.line(title))
    room = Room(sheet.room)
    sheet.add(comparison_markup(sheet, left, right, room, options.metric or left.address.metric))
    sheet.left_out += [f"{cut}, {sheet.why_cut}" for cut in room.cut]
    runs = [left.run] if right.run is left.run else [left.run, right.run]
    return sheet.page(title, " ".join(source_of(sheet, run) for run in runs))


def listed_page(
    run: Run, rows: pd.DataFrame, total: int, what: str, options: PageOptions
) -> StaticPage:
    """Rollouts of a list. rows: with step and index, in their order; total: of how many they are the
    first. what: words for the list.
    """
    sheet = options.sheet()
    own = add_rollouts(sheet, run, addresses_of(rows), options)
    title = f"{what} of {run.info.name}"
    first = (
        f"the first {len(rows):,} of {total:,}" if len(rows) < total else counted(total, "rollout")
    )
    sheet.heading(sheet.line(title), [first])
    if len(rows) < total:
        sheet.left_out.insert(
            0, f"{total - len(rows):,} of {total:,} rollouts, beyond the limit of {len(rows):,}"
        )
    add_rows(sheet, rows, own)
    return sheet.page(title, source_of(sheet, run))


def step_page(run: Run, step: int, most: int, options: PageOptions, column: str = "") -> StaticPage:
    """A step: where it lies on the curve of a column (default: the reward), what contributes to it, where
    it is of tokens, its means, its groups, and `most` of its rollouts, those with the lowest and the
    highest rewards. Raises NotFoundError where the run has no such step.
    """
    run.row(step, 0, ("step",))
    sheet, rows = options.sheet(), run.of_step(step)
    extremes = extreme_rows(rows, most)
    own = add_rollouts(sheet, run, addresses_of(extremes), options)
    title = f"Step {step} of {run.info.name}"
    chosen = counted(len(extremes), "rollout")
    if len(extremes) < len(rows):
        by = "lowest and highest rewards" if "reward" in rows else "first ones"
        chosen = f"{len(extremes)} of {len(rows):,} rollouts: the {by}"
    sheet.heading(sheet.line(title), [chosen])
    add_curves(sheet, run, [column or main_column(run)], step)
    if column in TOKEN_SOURCES:
        add_contributions(sheet, spike_of(run, step, column, options.vocabulary), column)
    add_means(sheet, run, step)
    _add_groups(sheet, rows)
    sheet.add("<h3>Rollouts</h3>")
    add_rows(sheet, extremes, own)
    return sheet.page(title, source_of(sheet, run))


def group_page(run: Run, name: str, step: int | None, options: PageOptions) -> StaticPage:
    """All rollouts of a group, best first; the arguments are those of `group_rows`."""
    rows = group_rows(run, name, step)
    own = int(rows["step"].iloc[0])
    return listed_page(run, rows, len(rows), f"Group {name}, step {own}", options)


def group_rows(run: Run, name: str, step: int | None) -> pd.DataFrame:
    """The rollouts of a group, best first. step: where groups of several steps have this name.

    Raises ChoiceError for a group that the run has not, or has at several steps.
    """
    table = run.table(
        f"SELECT DISTINCT step FROM {run.view} WHERE {run.condition} "
        f"AND CAST({run.column('group_id')} AS VARCHAR) = $group ORDER BY step",
        {"group": name},
    )
    steps = [int(own) for own in table["step"].to_numpy() if step in (None, own)]
    if not steps:
        where = "" if step is None else f" at step {step}"
        raise ChoiceError(
            f"{run.info.name} has no group {name!r}{where}; `rollout-board rollouts RUN --columns "
            "step,index,group_id` lists them"
        )
    if len(steps) > 1:
        known = ", ".join(map(str, steps[:_NAMED])) + (", ..." if len(steps) > _NAMED else "")
        raise ChoiceError(f"group {name!r} is at {len(steps)} steps ({known}); give --step")
    rows = run.of_step(steps[0])
    rows = rows[rows["group_id"].astype(str) == name]
    if "reward" in rows:
        rows = rows.sort_values("reward", ascending=False, kind="stable", na_position="last")
    return rows


def addresses_of(rows: pd.DataFrame) -> list[Address]:
    """The rollouts of a table with step and index."""
    pairs = zip(rows["step"].tolist(), rows["index"].tolist(), strict=True)
    return [Address(int(step), int(index)) for step, index in pairs]


def first_rows(run: Run, limit: int | None, sorting: Sorting | None = None) -> pd.DataFrame:
    """The first rollouts of a run, which may be narrowed, as `listed_page` takes them."""
    columns = [name for name in _LISTED if name in (run.whole or run).columns]
    return frame(run, columns, sorting or Sorting(), limit=limit)


def extreme_rows(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """Rollouts with the lowest and the highest rewards, lowest first; without rewards the first ones."""
    if len(rows) <= most:
        return rows
    if "reward" not in rows or rows["reward"].isna().all():
        return rows.head(most)
    scored = rows[rows["reward"].notna()].sort_values("reward", kind="stable")
    if len(scored) <= most:
        return scored
    low = most // 2
    return pd.concat([scored.head(low), scored.tail(most - low)])


def main_column(run: Run) -> str:
    """The reward, else the first part of it, else the first metric; empty for a run without one."""
    return next(iter((*_recorded_reward(run), *run.metrics)), "")


def _recorded_reward(run: Run) -> list[str]:
    return [name for name in ("reward", *reward_parts(run.metrics)) if name in run.metrics]


def add_curves(sheet: Sheet, run: Run, columns: Iterable[str], marked: int | None) -> None:
    """The curves of those columns that are recorded, in a run of several steps."""
    if len(run.counts) < 2:
        return
    for column in columns:
        curve = step_curve(run, column)
        if curve is not None:
            sheet.curve([curve], marked)


def add_rows(sheet: Sheet, rows: pd.DataFrame, own: Sequence[Address]) -> None:
    """A table of the first rollouts; those that are on the page are links."""
    columns = [name for name in _LISTED if name in rows and rows[name].notna().any()]
    columns = [name for name in columns if name != "index"]
    on_page = {(one.step, one.index): one.anchor for one in own}
    cells: list[list[str]] = []
    for _, row in rows.head(_MOST_ROWS).iterrows():
        at = int(row["step"]), int(row["index"])
        name = f"{at[0]}:{at[1]}"
        link = f"<a href=#{on_page[at]}>{name}</a>" if at in on_page else name
        cells.append([link, *(_cell(sheet, column, row[column]) for column in columns[1:])])
    heads = ["step:rollout", *(_HEADS.get(name, name.replace("_", " ")) for name in columns[1:])]
    numeric = [name not in _TEXTS for name in columns]
    sheet.table(heads, cells, numeric, len(rows))


def _cell(sheet: Sheet, column: str, value: object) -> str:
    if pd.isna(value):  # pyright: ignore[reportArgumentType, reportCallIssue]
        return "–"
    if column in _TEXTS:
        return sheet.line(value, 120)
    return number(float(str(value)), rollout_metric(column).unit)


def add_means(sheet: Sheet, run: Run, step: int) -> None:
    """The mean of each metric at a step with its 95 % interval and number of rollouts."""
    at = at_step(run, step)
    curves = ((name, step_curve(at, name)) for name in at.metrics)
    rows = [_mean_row(sheet, at, name, curve) for name, curve in curves if curve is not None]
    heads = ("metric", "mean", "95 % interval", "rollouts")
    sheet.add(f"<h3>Means of step {step}</h3>")
    sheet.table(heads, rows, (False, True, True, True))


def _mean_row(sheet: Sheet, at: Run, name: str, curve: StepCurve) -> list[str]:
    """at: the run at the one step that the curve is of."""
    mean, low, high = (float(array[0]) for array in (curve.mean, curve.low, curve.high))
    unit = curve.metric.unit
    bounds = interval(low, high, unit) if np.isfinite(low + high) else "–"
    count = at.steps[f"{base_name(name)}_n"].iloc[0]
    label = sheet.line(curve.metric.label_with_unit)
    return [label, number(mean, unit), bounds, f"{int(count):,}"]


def _add_groups(sheet: Sheet, rows: pd.DataFrame) -> None:
    """The groups of a step, those with the lowest mean reward first."""
    if not {"group_id", "reward"} <= {*rows.columns}:
        return
    names = group_names(rows)
    table = pd.DataFrame({"group": names, "reward": numbers(rows, "reward")})
    by_group = table[names.to_numpy() != ""].groupby("group", sort=False)["reward"]
    stats = by_group.agg(["size", "count", "mean", "min", "max"]).sort_values("mean", kind="stable")
    if stats.empty:
        return
    cells = [
        [sheet.line(group, 80), f"{int(row['size']):,}", f"{int(row['count']):,}"]
        + [number(float(row[name])) for name in ("mean", "min", "max")]
        for group, row in stats.head(_MOST_ROWS).iterrows()
    ]
    sheet.add("<h3>Groups, lowest mean reward first</h3>")
    heads = ("group", "rollouts", "with a reward", "mean reward", "lowest", "highest")
    sheet.table(heads, cells, (False, *[True] * 5), len(stats))
