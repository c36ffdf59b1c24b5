"""Spike: what carries a metric at one step, by rollout, by token in its place, and by type of token."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.charts.palette import colour_key
from board.charts.share_charts import Share, shares_chart
from board.core.contributions import Contributions, Grouping, TokenShare, TypeShare, context
from board.core.metrics import Metric, rollout_metric, token_metric
from board.core.spike import TOKEN_SOURCES, Headline, only, whole
from board.store.run import Run
from board.store.steps import base_name
from board.views import _cached_looks, _page, _reading, _sidebar, _state, _tokenizer
from board.views._cached_looks import Spike
from board.views._text import number, one_line, piece_shown, plain

_OF_GROUPS: Final = "zero_std_group_fraction"
_FIRST: Final = ("k3_mean", "mismatch_kl_mean", "entropy_mean", "reward")
_TOKENS: Final = 100
_TYPES: Final = 200
_ROLLOUTS: Final = 1000
_AROUND: Final = 10
_TABLE_HEIGHT: Final = 334
_GROUPINGS: Final = {"piece": "by piece", "kind": "by kind", "role": "by role"}
_CUT: Final = 90


def _choose_metric(run: Run) -> str | None:
    """The column that is looked at; None where the run has none."""
    offered = [*run.metrics, *([_OF_GROUPS] if _OF_GROUPS in run.steps else [])]
    if not offered:
        return None
    usual = next((name for name in _FIRST if name in offered), offered[0])
    _state.ensure("of", offered, usual)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.selectbox(
            "What carries",
            offered,
            key="of",
            format_func=lambda name: one_line(rollout_metric(name).label),
            width=330,
            persist_state="session",
        )
        value = _mean_at(run, _state.get("of"))
        metric = rollout_metric(_state.get("of"))
        unit = "" if metric.unit == "share" else metric.unit
        st.markdown(
            f"at step {_state.get('step')}: **{plain(number(value, metric.unit))}** {plain(unit)}",
            width="content",
            help=plain(f"{metric.formula} Mean over the rollouts of the step.", 600),
        )
        st.space("stretch")
        st.page_link(
            _state.VIEWS / "rollouts.py",
            label=f"All rollouts of step {_state.get('step')}",
            icon=":material/table_rows:",
            query_params=_state.encoded(scope="step", index=0, token=None),
        )
    return str(_state.get("of"))


def _mean_at(run: Run, column: str) -> float | None:
    rows = run.steps[run.steps["step"] == _state.get("step")]
    name = column if column in rows else f"{base_name(column)}_mean"
    return float(rows[name].iloc[0]) if len(rows) and name in rows else None


def _tokens_of(run: Run, column: str) -> Spike | None:
    """What the tokens of the step say; None where there is nothing of them, which is said."""
    metric = rollout_metric(column)
    if column not in TOKEN_SOURCES:
        st.info(
            f"{plain(metric.label)} is recorded per rollout: it is of no token, so rollouts are "
            "ranked and tokens are not.",
            icon=":material/info:",
        )
        return None
    tokenizer = _tokenizer.choose(run) if run.vocabulary is None else ""
    step = int(_state.get("step"))
    label = f"Reading the tokens of {run.counts.get(step, 0):,} rollouts"
    reading = _cached_looks.spike(run, step, column, tokenizer)
    found = _reading.shown(reading, label, "spike")
    if found is None or found.headline is None:
        if not reading.was_stopped:
            st.info(
                f"No token of step {step} has a value of {plain(metric.label)}.",
                icon=":material/info:",
            )
        return None
    if found.found.tokens.left_out:
        st.caption(f"{found.found.tokens.left_out:,} rollouts could not be read and are left out.")
    return found


def _show_headline(spike: Spike, headline: Headline, metric: Metric) -> None:
    left, right = st.columns([1, 1], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.markdown(f"## {_sentence(headline)}")
        st.markdown(_whole_words(spike.found, headline, metric))
        if headline.what == "piece" and headline.type is not None:
            st.code(piece_shown(headline.type.name), language=None)
        if headline.token is not None:
            _show_top_token(spike.found, headline, headline.token)
    with right, st.container(border=True, height="stretch"):
        figure = shares_chart(
            _shares(spike.found, spike.kinds),
            metric.label,
            colour_key(base_name(metric.name)),
            dark=_page.dark(),
        )
        st.plotly_chart(
            figure, theme=None, key=f"kinds_{metric.name}", config={"displayModeBar": False}
        )


def _sentence(headline: Headline) -> str:
    """The glance: what carries how much. A piece's own text stands below, as text."""
    share = f"{headline.share:.0%}"
    if headline.what == "token":
        return f"One token carries {share}"
    kind = "" if headline.type is None else _KIND_WORDS.get(headline.type.kind, headline.type.kind)
    if headline.what == "spread":
        return "No token or type stands out"
    assert headline.type is not None
    if headline.what == "piece" and headline.type.kind not in _MARKERS:
        return f"One piece carries {share}"
    verb = "carry" if kind in _PLURAL else "carries"
    return f"{kind[:1].upper()}{kind[1:]} {verb} {share}"


def _whole_words(found: Contributions, headline: Headline, metric: Metric) -> str:
    """What the share is of, and how many tokens stand behind it."""
    count = int(found.counted.sum())
    of = f"of {plain(metric.label)} at step {found.tokens.step}"
    if headline.what == "token":
        return f"{of} :gray[· 1 of {count:,} tokens, {found.rollouts:,} rollouts]"
    assert headline.type is not None
    if headline.what == "spread":
        kind = _KIND_WORDS.get(headline.type.kind, headline.type.kind)
        parts = f"{headline.share:.0%}, as {headline.of_tokens:.0%} of the tokens"
        return f"{of}: {plain(kind)} {'make' if kind in _PLURAL else 'makes'} {parts}"
    part = f"{headline.type.count:,} of {count:,} tokens ({headline.of_tokens:.1%})"
    return f"{of} :gray[· {part}]"


_MARKERS: Final = frozenset(("end of text", "template", "tool tag", "thinking tag"))
_KIND_WORDS: Final = {
    "word": "words",
    "end of text": "end-of-text",
    "template": "chat template",
    "tool tag": "tool tags",
    "thinking tag": "thinking tags",
}
_PLURAL: Final = frozenset(("digits", "words", "tool tags", "thinking tags"))


def _show_top_token(found: Contributions, headline: Headline, token: TokenShare) -> None:
    before, piece, after = _in_context(found, token)
    unit = token_metric(found.metric).unit
    share = token.contribution / whole(found)
    alone = "" if headline.what == "token" else f", {share:.1%} alone"
    st.text(
        f"{'' if headline.what == 'token' else 'the largest: '}rollout {token.index}, "
        f"token {token.position}, {number(token.value)} {unit}{alone}"
    )
    if headline.what != "piece":
        st.code(f"{before}⟦{piece}⟧{after}", language=None, wrap_lines=True)
    st.page_link(
        _state.VIEWS / "rollout.py",
        label=f"Open token {token.position} of rollout {token.index}",
        icon=":material/gradient:",
        query_params=_state.encoded(
            index=token.index, token=token.position, metric=found.metric, vs=""
        ),
    )


def _shares(found: Contributions, types: Sequence[TypeShare]) -> list[Share]:
    total, count = whole(found), max(int(found.counted.sum()), 1)
    return [Share(t.name, t.contribution / total, t.count / count) for t in types]


def _in_context(found: Contributions, token: TokenShare) -> tuple[str, str, str]:
    around = [piece_shown(p) for p in context(found.tokens, token.index, token.position, _AROUND)]
    own = min(token.position, _AROUND)
    return "".join(around[:own]), around[own], "".join(around[own + 1 :])


def _open(index: int, token: int | None, metric: str) -> None:
    _state.go("rollout", index=index, token=token, metric=metric, vs="")


def _tokens_table(found: Contributions) -> None:
    """Single tokens in their places; a click opens the rollout with that token pinned."""
    chosen = str(_state.get("only"))
    if chosen:
        grouping, _, name = chosen.partition(":")
        if grouping not in _GROUPINGS:
            _state.notice(f"only = {chosen!r} names no type of token; all tokens are listed.")
            _state.forget("only")
        else:
            found = only(found, grouping, name)  # type: ignore[arg-type] # checked above
    _tokens_heading(found)
    tokens = found.top_tokens(_TOKENS)
    if not tokens:
        st.caption("No token of this type has a value at this step.")
        return
    total = whole(found) or np.nan
    contexts = [_in_context(found, token) for token in tokens]
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
            "share": [100 * t.contribution / total for t in tokens],
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
    chosen = str(_state.get("only"))
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
                "All tokens", icon=":material/close:", on_click=_state.put, kwargs={"only": ""}
            )


def _types_table(spike: Spike) -> None:
    """Types of tokens; a click leaves those tokens alone in the list of tokens."""
    found = spike.found
    offered = [name for name in _GROUPINGS if name != "role" or found.tokens.roles]
    _state.ensure("types", offered, "piece")
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
    grouping: Grouping = _state.get("types")
    types = spike.kinds if grouping == "kind" else found.by(grouping, _TYPES)
    total, count = whole(found) or np.nan, max(int(found.counted.sum()), 1)
    frame = pd.DataFrame(
        {
            grouping: [piece_shown(t.name) or "not known" for t in types],
            **({"kind": [t.kind for t in types]} if grouping == "piece" else {}),
            "share": [100 * t.contribution / total for t in types],
            "tokens": [t.count for t in types],
            "of_tokens": [100 * t.count / count for t in types],
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
                "of all", format="%.1f %%", width=65, help="Share of the step's tokens."
            ),
            "mean": st.column_config.NumberColumn(
                _with_unit("mean", unit), format="%.4g", width=78, help="Over the type's tokens."
            ),
            "share": _share_column(frame["share"]),
        },
    )
    if row is not None:
        wanted = f"{grouping}:{types[row].name}"
        if wanted != _state.get("only"):
            _state.put(only=wanted)
            st.rerun()


def _rollouts_table(run: Run, column: str, spike: Spike | None) -> None:
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
    rows = run.of_step(int(_state.get("step")))
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    order = np.argsort(values if _state.get("order") == "lowest" else -values, kind="stable")
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
        frame.insert(2, "share", 100 * frame[column].astype(float) / total)
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
    label = _with_unit(metric.name, "" if metric.unit == "share" else metric.unit)
    found: dict[str, Any] = {
        "index": st.column_config.NumberColumn("rollout", format="%d", width=65),
        metric.name: st.column_config.NumberColumn(label, format="%.4g"),
        "response_tokens": st.column_config.NumberColumn("tokens", format="%d", width=70),
        "reward": st.column_config.NumberColumn(format="%.4g", width=70),
        "response": st.column_config.TextColumn(width=330),
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
        return st.column_config.NumberColumn("share", format="%.1f %%")
    return st.column_config.ProgressColumn(
        "share",
        help="Of the step's mean.",
        min_value=0,
        max_value=float(max(values.max(), 1e-9)),
        format="%.1f %%",
        width=105,
    )


def _table(frame: pd.DataFrame, key: str, columns: dict[str, Any]) -> int | None:
    """Draws a table of which a row can be clicked; the row that was, by its position."""
    held = [
        _state.get(name) for name in ("run", "step", "of", "only", "types", "order", "cap", "pads")
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


def _render() -> None:
    run = _sidebar.narrowed()
    _page.header(run)
    if not _page.has_step(run):
        return
    column = _choose_metric(run)
    if column is None:
        st.info("This run records no number of a step, so there is nothing to take apart.")
        return
    if column == _OF_GROUPS:
        st.info(
            "This curve counts groups whose rewards are all equal: it is of no single rollout.",
            icon=":material/info:",
        )
        return
    spike = _tokens_of(run, column)
    if spike is None or spike.headline is None:
        _rollouts_table(run, column, None)
        return
    _show_headline(spike, spike.headline, rollout_metric(column))
    _tokens_table(spike.found)
    left, right = st.columns([1, 1], gap="small")
    with left:
        _types_table(spike)
    with right:
        _rollouts_table(run, column, spike)


_render()
