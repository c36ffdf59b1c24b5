"""Single tokens, types of tokens and rollouts of a step, ranked by what they contribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.analysis.spike import Spike
from board.core.metrics.definitions import rollout_metric, token_metric
from board.core.tokens.contributions import Contributions, Grouping, TokenShare, context, whole
from board.query.open_run import Run
from board.views.shared import page_parts, state, tables
from board.views.shared.tables import PERCENT, Column, Target, definition, headings_of
from board.views.shared.text import one_line, plain, visible_token

_TOKENS: Final = 100
_TYPES: Final = 200
_ROLLOUTS: Final = 1000
_CONTEXT_TOKENS: Final = 10
_TABLE_PIXELS: Final = 363
_PREVIEW_CHARACTERS: Final = 90
_GROUPINGS: Final = {"piece": "by token", "kind": "by kind", "role": "by role"}
_ORDERS: Final = {"highest": "highest first", "lowest": "lowest first"}
_CHOICES: Final = (*("run", "step_metric", "step_only", "step_types", "step_order", "cap", "pads"),)


def in_context(contributions: Contributions, token: TokenShare) -> tuple[str, str, str]:
    """What comes before a token, the token and what comes after, as they are shown."""
    pieces = context(contributions.tokens, token.index, token.position, _CONTEXT_TOKENS)
    around = [visible_token(piece) for piece in pieces]
    own = min(token.position, _CONTEXT_TOKENS)
    return "".join(around[:own]), around[own], "".join(around[own + 1 :])


def tokens_table(contributions: Contributions) -> None:
    """Single tokens in their places; a click opens the rollout with that token pinned."""
    grouping, _, name = str(state.get("step_only")).partition(":")
    if grouping and grouping not in _GROUPINGS:
        words = f"step_only = {state.get('step_only')!r} matches no token type"
        state.notice(f"{words}; all tokens are listed.")
        state.forget("step_only")
        grouping = ""
    if grouping:
        contributions = contributions.only(grouping, name)  # type: ignore[arg-type] # checked above
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        title = "#### Tokens :gray[that contribute most · click one to read it]"
        st.markdown(title, width="content")
        if grouping:
            words = "no role" if grouping == "role" and not name else visible_token(name)
            st.space("stretch")
            st.text(f"only the {grouping} {words}: {int(contributions.counted.sum()):,} tokens")
            back = {"on_click": state.put, "kwargs": {"step_only": ""}}
            st.button("All tokens", icon=":material/close:", **back)
    tokens = contributions.top_tokens(_TOKENS)
    if not tokens:
        st.caption("No token of this type has a value at this step.")
        return
    total = whole(contributions) or np.nan
    before, pieces, after = zip(*(in_context(contributions, t) for t in tokens), strict=True)
    columns = {
        "rollout": Column([t.index for t in tokens], "%d", width=70),
        "token": Column([t.position for t in tokens], "%d", width=65),
        "before": Column(before, width=190, alignment="right"),
        "piece": Column(pieces, label="token text", width=105, alignment="center"),
        "after": Column(after, width=190),
        "kind": Column([t.kind for t in tokens], width=105),
        "role": Column([one_line(t.role) for t in tokens]),
        "value": Column([t.value for t in tokens], "%.4g", _with_unit("value", contributions)),
        "share": _shares([t.contribution / total for t in tokens]),
    }
    if not contributions.tokens.roles:
        del columns["role"]
    step = contributions.tokens.step
    places = [(step, token.index, token.position) for token in tokens]
    if (place := _picked(columns, places, "tokens")) is not None:
        open_token(*place, contributions.metric)


def types_table(spike: Spike) -> None:
    """Types of tokens; a click leaves those tokens alone in the list of tokens."""
    contributions = spike.contributions
    offered = [name for name in _GROUPINGS if name != "role" or contributions.tokens.roles]
    state.ensure("step_types", offered, "piece")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Types", width="content")
        page_parts.segments("Types of tokens", "step_types", _GROUPINGS, offered)
    grouping: Grouping = state.get("step_types")
    types = spike.kinds if grouping == "kind" else contributions.by(grouping, _TYPES)
    total = whole(contributions) or np.nan
    count = max(int(contributions.counted.sum()), 1)
    names = [visible_token(t.name) or "not known" for t in types]
    counts, mean = np.array([t.count for t in types]), _with_unit("mean", contributions)
    columns = {
        grouping: Column(names, width=80 if grouping == "piece" else 130),
        **({"kind": Column([t.kind for t in types], width=85)} if grouping == "piece" else {}),
        "share": _shares([t.contribution / total for t in types]),
        "tokens": Column(counts, "localized", width=60, help="Tokens of the type in the step."),
        "of_tokens": Column(counts / count, PERCENT, "of all", 65, "Share of the step's tokens."),
        "mean": Column([t.mean for t in types], "%.4g", mean, 78, "Over the type's tokens."),
    }
    wanted = [f"{grouping}:{one.name}" for one in types]
    only = _picked(columns, wanted, "types")
    if only is not None and only != state.get("step_only"):
        state.put(step_only=only)
        st.rerun()


def rollouts_table(run: Run, column: str, spike: Spike | None) -> None:
    """Rollouts by what they contribute; a click opens one, at its largest token."""
    metric = rollout_metric(column)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Rollouts", width="content")
        is_lowest = page_parts.segments("Order", "step_order", _ORDERS) == "lowest"
    step = int(state.get("step"))
    rows = run.of_step(step)
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    order = np.argsort(values if is_lowest else -values, kind="stable")
    order = order[np.isfinite(values[order])]
    if not len(order):
        st.caption(f"{plain(metric.label)} is not recorded at this step.")
        return
    rows = rows.iloc[order[:_ROLLOUTS]]
    heads, about = headings_of(run), plain(definition(column), 600)
    columns = {
        "index": Column(rows["index"], "%d", heads["index"], 60),
        column: Column(rows[column], "%.4g", heads[column], help=about),
    }
    # Shares of values of both signs, or of a mean of zero, would say nothing.
    total = float(np.nansum(values))
    if total and not (values[order] < 0).any():
        columns["share"] = _shares(rows[column].astype(float) / total)
    if "reward" in rows:
        columns["reward"] = Column(rows["reward"], "%.4g", heads["reward"], 70)
    if "response_tokens" in rows:
        above = heads["response_tokens"]
        columns["response_tokens"] = Column(rows["response_tokens"], "%d", above, 70)
    if "response" in rows:
        previews = [
            None if pd.isna(text) else visible_token(str(text), _PREVIEW_CHARACTERS)
            for text in rows["response"]
        ]
        columns["response"] = Column(previews, width=170)
    places = [
        (step, index, None if spike is None else spike.contributions.largest_of(index))
        for index in map(int, rows["index"])
    ]
    place = _picked(columns, places, "rollouts")
    if len(order) > _ROLLOUTS:
        st.caption(f"The first {_ROLLOUTS:,} of {len(order):,} rollouts.")
    if place is not None:
        open_token(*place, spike.contributions.metric if spike else "")


def _with_unit(name: str, contributions: Contributions) -> str:
    unit = token_metric(contributions.metric).unit
    return f"{name}, {unit}" if unit else name


def _shares(values: Sequence[float] | pd.Series[float]) -> Column:
    return Column(values, PERCENT, width=105, help="Of the step's mean.", is_bar=True)


def _picked(columns: Mapping[str, Column], targets: Sequence[Target], name: str) -> Target | None:
    """A selection is of one table: what other choices lead to is another table to Streamlit. The rows of
    another step are not: those of a run that grows would blink.
    """
    key = repr([name, *map(state.get, _CHOICES)])
    return tables.pick(columns, targets, key=key, most_pixels=_TABLE_PIXELS)


def open_token(step: int, index: int, token: int | None, metric: str) -> None:
    """Opens a rollout of a step at a token, coloured by a metric on the scale of the step."""
    coloured = {"reader_metric": metric, "reader_over": "step"}
    state.go("rollouts", step=step, index=index, token=token, reader_vs="", **coloured)
