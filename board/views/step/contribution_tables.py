"""Single tokens, types of tokens and rollouts of a step, ranked by what they contribute."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.core.metrics.definitions import Metric, rollout_metric, token_metric
from board.core.metrics.shares import in_percent
from board.core.tokens.contributions import (
    Contributions,
    Grouping,
    TokenShare,
    context,
    whole,
)
from board.query.open_run import Run
from board.views.shared import page_parts, state, tables
from board.views.shared.cache import Spike
from board.views.shared.tables import PERCENT, explained, heading
from board.views.shared.text import one_line, plain, visible_token

_TOKENS: Final = 100
_TYPES: Final = 200
_ROLLOUTS: Final = 1000
_CONTEXT_TOKENS: Final = 10
_TABLE_PIXELS: Final = 363
_PREVIEW_CHARACTERS: Final = 90
_GROUPINGS: Final = {"piece": "by token", "kind": "by kind", "role": "by role"}
_ORDERS: Final = {"highest": "highest first", "lowest": "lowest first"}
_CHOICES: Final = (
    "run",
    "step",
    "step_metric",
    "step_only",
    "step_types",
    "step_order",
    "cap",
    "pads",
)


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
        st.markdown(
            "#### Tokens :gray[that contribute most · click one to read it]", width="content"
        )
        if grouping:
            words = "no role" if grouping == "role" and not name else visible_token(name)
            st.space("stretch")
            st.text(f"only the {grouping} {words}: {int(contributions.counted.sum()):,} tokens")
            st.button(
                "All tokens", icon=":material/close:", on_click=state.put, kwargs={"step_only": ""}
            )
    tokens = contributions.top_tokens(_TOKENS)
    if not tokens:
        st.caption("No token of this type has a value at this step.")
        return
    total = whole(contributions) or np.nan
    before, pieces, after = zip(*(in_context(contributions, t) for t in tokens), strict=True)
    frame = pd.DataFrame(
        {
            "rollout": [t.index for t in tokens],
            "token": [t.position for t in tokens],
            "before": before,
            "piece": pieces,
            "after": after,
            "kind": [t.kind for t in tokens],
            "role": [one_line(t.role) for t in tokens],
            "value": [t.value for t in tokens],
            "share": [in_percent(t.contribution / total) for t in tokens],
        }
    )
    if not contributions.tokens.roles:
        frame = frame.drop(columns="role")
    columns = {
        "before": st.column_config.TextColumn(alignment="right", width=190),
        "piece": st.column_config.TextColumn("token text", alignment="center", width=105),
        "after": st.column_config.TextColumn(width=190),
        "rollout": st.column_config.NumberColumn(format="%d", width=70),
        "token": st.column_config.NumberColumn(format="%d", width=65),
        "kind": st.column_config.TextColumn(width=105),
        "value": _value_column("value", contributions),
        "share": _share_column(frame["share"]),
    }
    row = _clicked_row(frame, "tokens", columns)
    if row is not None:
        open_token(tokens[row].index, tokens[row].position, contributions.metric)


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
    frame = pd.DataFrame(
        {
            grouping: [visible_token(t.name) or "not known" for t in types],
            **({"kind": [t.kind for t in types]} if grouping == "piece" else {}),
            "share": [in_percent(t.contribution / total) for t in types],
            "tokens": [t.count for t in types],
            "of_tokens": [in_percent(t.count / count) for t in types],
            "mean": [t.mean for t in types],
        }
    )
    columns = {
        "kind": st.column_config.TextColumn(width=85),
        grouping: st.column_config.TextColumn(width=80 if grouping == "piece" else 130),
        "tokens": st.column_config.NumberColumn(
            format="localized", width=60, help="Tokens of the type in the step."
        ),
        "of_tokens": st.column_config.NumberColumn(
            "of all", format=PERCENT, width=65, help="Share of the step's tokens."
        ),
        "mean": _value_column("mean", contributions, width=78, help="Over the type's tokens."),
        "share": _share_column(frame["share"]),
    }
    row = _clicked_row(frame, f"types_{grouping}", columns)
    if row is not None:
        wanted = f"{grouping}:{types[row].name}"
        if wanted != state.get("step_only"):
            state.put(step_only=wanted)
            st.rerun()


def rollouts_table(run: Run, column: str, spike: Spike | None) -> None:
    """Rollouts by what they contribute; a click opens one, at its largest token."""
    metric = rollout_metric(column)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Rollouts", width="content")
        is_lowest = page_parts.segments("Order", "step_order", _ORDERS) == "lowest"
    rows = run.of_step(int(state.get("step")))
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    order = np.argsort(values if is_lowest else -values, kind="stable")
    order = order[np.isfinite(values[order])]
    if not len(order):
        st.caption(f"{plain(metric.label)} is not recorded at this step.")
        return
    rows = rows.iloc[order[:_ROLLOUTS]]
    names = ["index", column, "reward", "response_tokens", "response"]
    frame = rows[[name for name in dict.fromkeys(names) if name in rows]].copy()
    if "response" in frame:
        frame["response"] = [
            None if pd.isna(text) else visible_token(str(text), _PREVIEW_CHARACTERS)
            for text in frame["response"]
        ]
    # Shares of values of both signs, or of a mean of zero, would say nothing.
    total = float(np.nansum(values))
    if total and not (values[order] < 0).any():
        shares = frame[column].astype(float) / total
        frame.insert(2, "share", shares.map(in_percent, na_action="ignore"))
    row = _clicked_row(frame, f"rollouts_{column}", _rollout_columns(frame, metric))
    if len(order) > _ROLLOUTS:
        st.caption(f"The first {_ROLLOUTS:,} of {len(order):,} rollouts.")
    if row is not None:
        index = int(rows["index"].iloc[row])
        token = None if spike is None else _largest_token(spike.contributions, index)
        open_token(index, token, spike.contributions.metric if spike else "")


def _rollout_columns(frame: pd.DataFrame, metric: Metric) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "index": st.column_config.NumberColumn("rollout", format="%d", width=60),
        "response_tokens": st.column_config.NumberColumn("tokens", format="%d", width=70),
        "reward": st.column_config.NumberColumn(format="%.4g", width=70),
        "response": st.column_config.TextColumn(width=170),
    }
    if metric.name not in columns:
        columns[metric.name] = st.column_config.NumberColumn(
            heading(metric.name), format="%.4g", help=explained(metric.name)
        )
    if "share" in frame:
        columns["share"] = _share_column(frame["share"])
    return columns


def _largest_token(contributions: Contributions, index: int) -> int | None:
    """Position of the token that contributes most in a rollout."""
    places = np.flatnonzero(contributions.tokens.indices == index)
    if not len(places):
        return None
    start, end = contributions.tokens.starts[places[0] : places[0] + 2].tolist()
    sizes = np.abs(contributions.parts[start:end])
    sizes = np.where(contributions.counted[start:end], sizes, -1.0)
    return int(np.argmax(sizes)) if len(sizes) and sizes.max() >= 0 else None


def _value_column(name: str, contributions: Contributions, **options: Any) -> Any:
    unit = token_metric(contributions.metric).unit
    label = f"{name}, {unit}" if unit else name
    return st.column_config.NumberColumn(label, format="%.4g", **options)


def _share_column(values: pd.Series[Any]) -> Any:
    """A bar where all are shares of one whole; a number where signs differ."""
    if (values < 0).any() or not values.notna().any():
        return st.column_config.NumberColumn("share", format=PERCENT)
    return st.column_config.ProgressColumn(
        "share",
        help="Of the step's mean.",
        min_value=0,
        max_value=float(max(values.max(), 1e-9)),
        format=PERCENT,
        width=105,
    )


def _clicked_row(frame: pd.DataFrame, name: str, columns: dict[str, Any]) -> int | None:
    """A selection is of one table: what other choices lead to is another table to Streamlit."""
    key = repr([name, len(frame), *map(state.get, _CHOICES)])
    return tables.draw(frame, columns, key=key, most_pixels=_TABLE_PIXELS)


def open_token(index: int, token: int | None, metric: str) -> None:
    """Opens a rollout of the step at a token, coloured by a metric."""
    state.go("rollouts", index=index, token=token, reader_metric=metric, reader_vs="")
