"""Single tokens, types of tokens and rollouts of a step, ranked by what they contribute."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.core.metrics.definitions import Metric, rollout_metric, token_metric
from board.core.metrics.shares import in_percent
from board.core.tokens.contributions import Contributions, Grouping, TokenShare, context
from board.core.tokens.spike import only, whole
from board.query.open_run import Run
from board.views.shared import state, table_headings
from board.views.shared.cache import Spike
from board.views.shared.text import one_line, piece_shown, plain

_TOKENS: Final = 100
_TYPES: Final = 200
_ROLLOUTS: Final = 1000
_AROUND: Final = 10
_TABLE_HEIGHT: Final = 334
_GROUPINGS: Final = {"piece": "by token", "kind": "by kind", "role": "by role"}
_CUT: Final = 90


def in_context(found: Contributions, token: TokenShare) -> tuple[str, str, str]:
    """What stands before a token, the token and what comes after, as they are shown."""
    around = [piece_shown(p) for p in context(found.tokens, token.index, token.position, _AROUND)]
    own = min(token.position, _AROUND)
    return "".join(around[:own]), around[own], "".join(around[own + 1 :])


def _open(index: int, token: int | None, metric: str) -> None:
    state.go("rollouts", index=index, token=token, metric=metric, vs="")


def tokens_table(found: Contributions) -> None:
    """Single tokens in their places; a click opens the rollout with that token pinned."""
    chosen = str(state.get("only"))
    if chosen:
        grouping, _, name = chosen.partition(":")
        if grouping not in _GROUPINGS:
            state.notice(f"only = {chosen!r} matches no token type; all tokens are listed.")
            state.forget("only")
        else:
            found = only(found, grouping, name)  # type: ignore[arg-type] # checked above
    _tokens_heading(found)
    tokens = found.top_tokens(_TOKENS)
    if not tokens:
        st.caption("No token of this type has a value at this step.")
        return
    total = whole(found) or np.nan
    contexts = [in_context(found, token) for token in tokens]
    frame = pd.DataFrame(
        {
            "rollout": [t.index for t in tokens],
            "token": [t.position for t in tokens],
            "before": [before for before, _, _ in contexts],
            "piece": [piece for _, piece, _ in contexts],
            "after": [after for _, _, after in contexts],
            "kind": [t.kind for t in tokens],
            **({"role": [one_line(t.role) for t in tokens]} if found.tokens.roles else {}),
            "value": [t.value for t in tokens],
            "share": [in_percent(t.contribution / total) for t in tokens],
        }
    )
    unit = token_metric(found.metric).unit
    row = _table(
        frame,
        "tokens",
        {
            "before": st.column_config.TextColumn(alignment="right", width=190),
            "piece": st.column_config.TextColumn("token text", alignment="center", width=105),
            "after": st.column_config.TextColumn(width=190),
            "rollout": st.column_config.NumberColumn(format="%d", width=70),
            "token": st.column_config.NumberColumn(format="%d", width=65),
            "kind": st.column_config.TextColumn(width=105),
            "value": st.column_config.NumberColumn(_with_unit("value", unit), format="%.4g"),
            "share": _share_column(frame["share"]),
        },
    )
    if row is not None:
        _open(tokens[row].index, tokens[row].position, found.metric)


def _tokens_heading(found: Contributions) -> None:
    chosen = str(state.get("only"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(
            "#### Tokens :gray[that contribute most · click one to read it]", width="content"
        )
        if chosen:
            grouping, _, name = chosen.partition(":")
            shown = "no role" if grouping == "role" and not name else piece_shown(name)
            st.space("stretch")
            st.text(f"only the {grouping} {shown}: {int(found.counted.sum()):,} tokens")
            st.button(
                "All tokens", icon=":material/close:", on_click=state.put, kwargs={"only": ""}
            )


def types_table(spike: Spike) -> None:
    """Types of tokens; a click leaves those tokens alone in the list of tokens."""
    found = spike.found
    offered = [name for name in _GROUPINGS if name != "role" or found.tokens.roles]
    state.ensure("types", offered, "piece")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Types", width="content")
        st.segmented_control(
            "Types of tokens",
            offered,
            key="types",
            required=True,
            format_func=lambda name: _GROUPINGS[name],
            label_visibility="collapsed",
            persist_state="session",
        )
    grouping: Grouping = state.get("types")
    types = spike.kinds if grouping == "kind" else found.by(grouping, _TYPES)
    total, count = whole(found) or np.nan, max(int(found.counted.sum()), 1)
    frame = pd.DataFrame(
        {
            grouping: [piece_shown(t.name) or "not known" for t in types],
            **({"kind": [t.kind for t in types]} if grouping == "piece" else {}),
            "share": [in_percent(t.contribution / total) for t in types],
            "tokens": [t.count for t in types],
            "of_tokens": [in_percent(t.count / count) for t in types],
            "mean": [t.mean for t in types],
        }
    )
    unit = token_metric(found.metric).unit
    row = _table(
        frame,
        f"types_{grouping}",
        {
            grouping: st.column_config.TextColumn(width=80 if grouping == "piece" else 130),
            "kind": st.column_config.TextColumn(width=85),
            "tokens": st.column_config.NumberColumn(
                format="localized", width=60, help="Tokens of the type in the step."
            ),
            "of_tokens": st.column_config.NumberColumn(
                "of all",
                format=table_headings.PERCENT,
                width=65,
                help="Share of the step's tokens.",
            ),
            "mean": st.column_config.NumberColumn(
                _with_unit("mean", unit), format="%.4g", width=78, help="Over the type's tokens."
            ),
            "share": _share_column(frame["share"]),
        },
    )
    if row is not None:
        wanted = f"{grouping}:{types[row].name}"
        if wanted != state.get("only"):
            state.put(only=wanted)
            st.rerun()


def rollouts_table(run: Run, column: str, spike: Spike | None) -> None:
    """Rollouts by what they contribute; a click opens one, at its largest token."""
    metric = rollout_metric(column)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("#### Rollouts", width="content")
        st.segmented_control(
            "Order",
            ["highest", "lowest"],
            key="order",
            required=True,
            format_func=lambda name: f"{name} first",
            label_visibility="collapsed",
            persist_state="session",
        )
    rows = run.of_step(int(state.get("step")))
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    order = np.argsort(values if state.get("order") == "lowest" else -values, kind="stable")
    order = order[np.isfinite(values[order])]
    if not len(order):
        st.caption(f"{plain(metric.label)} is not recorded at this step.")
        return
    # Shares of values of both signs, or of a mean of zero, would say nothing.
    total = float(np.nansum(values))
    signed = bool((values[order] < 0).any())
    cut = len(order) - _ROLLOUTS
    view = rows.iloc[order[:_ROLLOUTS]]
    frame = _rollouts_frame(view, column, metric)
    if total and not signed:
        shares = frame[column].astype(float) / total
        frame.insert(2, "share", shares.map(in_percent, na_action="ignore"))
    row = _table(frame, f"rollouts_{column}", _rollout_columns(frame, metric))
    if cut > 0:
        st.caption(f"The first {_ROLLOUTS:,} of {len(order):,} rollouts.")
    if row is not None:
        index = int(view["index"].iloc[row])
        token = None if spike is None else _largest_token(spike.found, index)
        _open(index, token, spike.found.metric if spike else "")


def _rollouts_frame(view: pd.DataFrame, column: str, metric: Metric) -> pd.DataFrame:
    chosen = ["index", column]
    also = ("reward", "response_tokens", "response")
    chosen += [name for name in also if name in view and name != column]
    frame = view[chosen].copy()
    if metric.unit == "share":
        frame[column] = frame[column].astype(float)
    if "response" in frame:
        texts = frame["response"].astype(object)
        frame["response"] = [None if pd.isna(t) else piece_shown(str(t), _CUT) for t in texts]
    return frame


def _rollout_columns(frame: pd.DataFrame, metric: Metric) -> dict[str, Any]:
    label, told = table_headings.heading(metric.name), table_headings.explained(metric.name)
    found: dict[str, Any] = {
        "index": st.column_config.NumberColumn("rollout", format="%d", width=60),
        metric.name: st.column_config.NumberColumn(label, format="%.4g", help=told),
        "response_tokens": st.column_config.NumberColumn("tokens", format="%d", width=70),
        "reward": st.column_config.NumberColumn(format="%.4g", width=70),
        "response": st.column_config.TextColumn(width=170),
    }
    if metric.name == "response_tokens":
        found["response_tokens"] = st.column_config.NumberColumn("tokens", format="%d")
    if metric.name == "reward":
        found["reward"] = st.column_config.NumberColumn(format="%.4g")
    if "share" in frame:
        found["share"] = _share_column(frame["share"])
    return {name: config for name, config in found.items() if name in frame}


def _largest_token(found: Contributions, index: int) -> int | None:
    """Position of the token that contributes most in a rollout."""
    places = np.flatnonzero(found.tokens.indices == index)
    if not len(places):
        return None
    start, end = found.tokens.starts[places[0] : places[0] + 2].tolist()
    sizes = np.where(found.counted[start:end], np.abs(found.parts[start:end]), -1.0)
    return int(np.argmax(sizes)) if len(sizes) and sizes.max() >= 0 else None


def _with_unit(name: str, unit: str) -> str:
    return f"{name}, {unit}" if unit else name


def _share_column(values: pd.Series[Any]) -> Any:
    """A bar where all are shares of one whole; a number where signs differ."""
    if (values < 0).any() or not values.notna().any():
        return st.column_config.NumberColumn("share", format=table_headings.PERCENT)
    return st.column_config.ProgressColumn(
        "share",
        help="Of the step's mean.",
        min_value=0,
        max_value=float(max(values.max(), 1e-9)),
        format=table_headings.PERCENT,
        width=105,
    )


def _table(frame: pd.DataFrame, key: str, columns: dict[str, Any]) -> int | None:
    """Draws a table of which a row can be clicked; the row that was, by its position."""
    held = [
        state.get(name) for name in ("run", "step", "of", "only", "types", "order", "cap", "pads")
    ]
    identity = hashlib.blake2b(repr((held, len(frame))).encode(), digest_size=8).hexdigest()
    event: Any = st.dataframe(
        frame,
        key=f"{key}_{identity}",
        height=min(35 * (len(frame) + 1) + 3, _TABLE_HEIGHT),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        placeholder="–",
        column_config=columns,
    )
    cells = event.selection.cells
    return int(cells[0][0]) if cells else None
