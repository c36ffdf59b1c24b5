"""The mismatch over the steps: from the index at once, from the tokens of all steps when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from board.analysis.mismatch import ENGINE_LAG, SCANNED_ROLLOUTS, STALE_LAG, StepMismatch
from board.charts.curves import CurveOptions
from board.charts.light import light
from board.charts.mismatch_charts import (
    StepValue,
    distances,
    likelihoods,
    over_lags,
    parts,
    rule_curves,
)
from board.components.curve_grid import Card, curve_grid
from board.core.tokens.masks import RULES, Side
from board.core.tokens.mismatch_slices import Slice, pooled
from board.query.open_run import Run
from board.views.mismatch.rule_bounds import Bounds, bounds_of, bounds_told
from board.views.shared import cache, page_parts, state
from board.views.shared.background import BackgroundTask
from board.views.shared.text import plain

_WATCH_SECONDS: Final = 2.5
_CLICK: Final = "Click a step to see its mismatch."
_SIDES: Final[tuple[Side, ...]] = ("high", "low")


def over_steps(run: Run) -> None:
    """From the index at once; from the tokens of all steps when asked for."""
    scan = cache.mismatch_scan(run)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Over training")
        st.space("stretch")
        _scan_button(scan)
    if scan.is_running:
        _watch(run)
    else:
        _curves(run, scan)


def _scan_button(scan: BackgroundTask[list[StepMismatch]]) -> None:
    if scan.is_running:
        st.button("Stop", icon=":material/stop:", key="scan_stop", on_click=scan.stop)
    elif not scan.has_ended:
        words = "Read the tokens of all steps" if not scan.done else "Continue"
        st.button(
            words,
            icon=":material/play_arrow:",
            key="scan_start",
            on_click=scan.start,
            help=f"Up to {SCANNED_ROLLOUTS} rollouts of each step. You can keep using the page.",
        )


@st.fragment(run_every=_WATCH_SECONDS)
def _watch(run: Run) -> None:
    """Draws what there is while the scan runs; reruns the page when it has ended."""
    scan = cache.mismatch_scan(run)
    if not scan.is_running:
        st.rerun()
    st.progress(scan.done / max(scan.total, 1), text=f"{scan.done:,} of {scan.total:,} steps")
    _curves(run, scan)


def _curves(run: Run, scan: BackgroundTask[list[StepMismatch]]) -> None:
    bounds = bounds_of(run)
    found = [
        StepValue(
            one.step,
            one.parts,
            [rule.shares(bounds[rule.rule]) for rule in one.rules],
            one.likelihood,
        )
        for one in scan.partial or ()
        if one.parts or one.rules or one.likelihood
    ]
    if not found:
        _index_curve(run)
        return
    dark = page_parts.dark()
    _likelihood_over_steps(found)
    if not any(one.parts or one.rules for one in found):
        return
    kl = {"forward_k3": "KL(sampler‖trainer), k3", "reverse_k3": "KL(trainer‖sampler), k3"}
    _rule_over_steps(found, bounds)
    cards = [
        _card("kl", "KL in both directions", distances(found, kl, "nats", dark=dark), "nats"),
        _card("parts", "Engine and staleness, KL k3", parts(found, dark=dark), "nats"),
        _card("chi2", "χ² of the weights", distances(found, {"chi2": "χ²"}, "", dark=dark)),
        _card("ess", "Effective sample share", distances(found, {"ess": "ESS"}, "", dark=dark)),
    ]
    _draw(cards, "over")
    _by_lag(scan.partial or [])
    if scan.error is not None:
        st.error(plain(scan.error, 300))


def _likelihood_over_steps(found: Sequence[StepValue]) -> None:
    """Mean and largest, by tool: what a run that trains on tool outputs learns to foresee."""
    if not any(one.likelihood for one in found):
        return
    told = (("mean", "Mean NLL"), ("largest", "Largest NLL"))
    cards = [
        _card(
            f"nll_{field}",
            f"{title} of sft_mask tokens",
            likelihoods(found, field, dark=page_parts.dark()),
            "nats, by role",
        )
        for field, title in told
    ]
    _draw(cards, "over_nll")


def _rule_over_steps(found: Sequence[StepValue], bounds: Bounds) -> None:
    known = {one.rule for step in found for one in step.rules}
    offered = [name for name in RULES if name in known]
    if not offered:
        return
    if state.get("rule") not in offered:
        state.put(rule=offered[0])
    st.segmented_control(
        "Rule",
        offered,
        key="rule",
        required=True,
        format_func=lambda name: RULES[name].label,
        label_visibility="collapsed",
        persist_state="session",
    )
    rule = str(state.get("rule"))
    told = bounds_told(RULES[rule], bounds[rule])
    st.caption(plain(f"Bounds {told}. {RULES[rule].formula}. {RULES[rule].source}", 400))
    sides: list[Side] = [side for side in _SIDES if getattr(RULES[rule], side) is not None]
    _draw([_rule_beyond(found, rule, side) for side in sides], f"rule_{rule}")


def _rule_beyond(found: Sequence[StepValue], rule: str, bound: Side) -> Card:
    word = "Above the upper bound" if bound == "high" else "Below the lower bound"
    sign = RULES[rule].signs(bound)
    stops = f"stops only tokens with {sign}" if sign else ""
    return _card(bound, word, rule_curves(found, rule, bound, dark=page_parts.dark()), stops)


def _by_lag(found: Sequence[StepMismatch]) -> None:
    """How far they are apart by how many versions the sampling weights lag, over all steps read."""
    names = {"lag": "whole", ENGINE_LAG: "engine only", STALE_LAG: "staleness only"}
    by_part = {
        title: pooled(part for step in found for part in step.slices.get(name, ()))
        for name, title in names.items()
    }
    by_part = {title: parts for title, parts in by_part.items() if parts}
    if "whole" not in by_part:
        st.caption(
            "Not recorded in this run: policy_version, which gives the staleness of the sampler."
        )
        return
    st.markdown(
        "**By policy lag** :gray[step minus the policy_version that sampled, over all steps read]"
    )
    lags = [part.name for part in by_part["whole"]]
    if len(lags) == 1:
        words = (
            f"Every token read was sampled by weights {lags[0]} versions old: no curve over lags."
        )
        st.caption(words)
        _lag_table(by_part)
        return
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.markdown("**KL(sampler‖trainer), k3** :gray[over the lag, nats]")
        figure = over_lags(by_part, "k3", dark=page_parts.dark())
        st.plotly_chart(figure, key=f"lags_{state.get('run')}", theme=None)
    with right:
        _lag_table(by_part)


def _lag_table(by_part: Mapping[str, Sequence[Slice]]) -> None:
    """Tokens and means at each lag. by_part: "whole" among them."""
    k3 = {title: {part.name: part.k3 for part in parts} for title, parts in by_part.items()}
    rows = [
        {"lag": float(one.name), "tokens": one.tokens, "mean |d|": one.d_abs}
        | {f"k3, {title}": own.get(one.name) for title, own in k3.items()}
        for one in sorted(by_part["whole"], key=lambda part: float(part.name))
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        row_height=36,
        height=min(36 * (len(rows) + 1) + 3, 320),
        placeholder="–",
        column_config={
            "lag": st.column_config.NumberColumn("lag", format="%g", help="Versions."),
            "tokens": st.column_config.NumberColumn("tokens", format="localized"),
            **{
                name: st.column_config.NumberColumn(name, format="%.3g", help="Nats.")
                for name in ("mean |d|", *(f"k3, {title}" for title in by_part))
            },
        },
    )


def _index_curve(run: Run) -> None:
    if "mismatch_kl_mean" not in run.columns:
        return
    look = CurveOptions(band="quantiles", smoothing=0.0)
    told = {"mismatch_kl_mean": "mean of each rollout", "mismatch_kl_max": "largest token of each"}
    cards = [
        page_parts.card(
            name,
            cache.light_curve(run, (name,), look, dark=page_parts.dark()),
            _CLICK,
            title=f"KL(sampler‖trainer), k3: {words}",
        )
        for name, words in told.items()
        if name in run.metrics
    ]
    _draw(cards, "index")


def _card(key: str, title: str, figure: go.Figure, unit: str = "") -> Card:
    drawn = light(figure)
    return Card(key, title, drawn.chart, unit, [_CLICK], drawn.notes)


def _draw(cards: Sequence[Card], key: str) -> None:
    picked = curve_grid(cards, step=state.get("step"), key=page_parts.chart_key(key))
    if picked:
        state.go("mismatch", step=picked.step, index=None, token=None)
