"""The mismatch over the steps: from the index at once, from the tokens of all steps when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from board.analysis.mismatch import ENGINE_LAG, SCANNED_ROLLOUTS, STALE_LAG, StepMismatch
from board.charts.curve_data import CurveOptions
from board.charts.curves import CurveChart, light
from board.charts.mismatch_charts import fields_over_steps, likelihoods, over_lags
from board.components.curve_grid import Card
from board.core.tokens.masks import RULES, Side
from board.core.tokens.mismatch import Slice, pooled
from board.query.open_run import Run
from board.views.mismatch.rule_bounds import Bounds, bounds_of, bounds_words
from board.views.shared import cache, page_parts, state, tables
from board.views.shared.background import BackgroundTask, scan_buttons, watch_scans
from board.views.shared.tables import Column
from board.views.shared.text import plain

_CLICK: Final = "Click a step to see its mismatch."
_DIRECTIONS: Final = {
    "total.forward_k3": "KL(sampler‖trainer), k3",
    "total.reverse_k3": "KL(trainer‖sampler), k3",
}
_PARTS: Final = {
    "total.forward_k3": "total",
    "engine.forward_k3": "engine only",
    "staleness.forward_k3": "staleness only",
}
_DISTANCES: Final = (
    ("kl", "KL in both directions", _DIRECTIONS, "nats"),
    ("parts", "Engine and staleness, KL k3", _PARTS, "nats"),
    ("chi2", "χ² of the weights", {"total.chi2": "χ²"}, ""),
    ("ess", "Effective sample share", {"total.ess": "ESS"}, ""),
)
"""Key, title, fields of a `Decomposition` with their labels, and unit of a chart."""
_SIDES: Final[dict[Side, str]] = {"high": "Above the upper bound", "low": "Below the lower bound"}


def over_steps(run: Run) -> None:
    """From the index at once; from the tokens of all steps when asked for."""
    scan = cache.mismatch_scan(run)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Over training")
        st.space("stretch")
        words = f"Up to {SCANNED_ROLLOUTS} rollouts of each step. You can keep using the page."
        scan_buttons([scan], "Read the tokens of all steps", key="scan", help=words)
    watch_scans([scan], lambda: _show_curves(run, scan))


def _show_curves(run: Run, scan: BackgroundTask[list[StepMismatch]]) -> None:
    if scan.error is not None:
        st.error(plain(scan.error, 300))
    bounds = bounds_of(run)
    values = [one for one in scan.partial or () if one.parts or one.rules or one.likelihood]
    if not values:
        _show_index_curves(run)
        return
    dark = page_parts.dark()
    if any(one.likelihood for one in values):
        by_role = {one.step: one.likelihood for one in values}
        cards: list[Card] = []
        for field, title in (("mean", "Mean NLL"), ("largest", "Largest NLL")):
            chart, title = likelihoods(by_role, field, dark=dark), f"{title} of sft_mask tokens"
            cards.append(_card(f"nll_{field}", title, chart, "nats, by role"))
        _draw(cards, "over_nll")
    if not any(one.parts or one.rules for one in values):
        return
    _show_rule(values, bounds)
    steps = {one.step: one.parts for one in values}
    cards = [
        _card(key, title, fields_over_steps(steps, fields, unit, dark=dark), unit)
        for key, title, fields, unit in _DISTANCES
    ]
    _draw(cards, "over")
    _show_lags(scan.partial or [])


def _show_index_curves(run: Run) -> None:
    look = CurveOptions(band="quantiles", smoothing=0.0)
    words = {"mismatch_kl_mean": "mean of each rollout", "mismatch_kl_max": "largest token of each"}
    cards: list[Card] = []
    for name in [name for name in words if name in run.metrics]:
        drawn = cache.light_curve(run, (name,), look, dark=page_parts.dark())
        title = f"KL(sampler‖trainer), k3: {words[name]}"
        cards.append(page_parts.card(name, drawn, _CLICK, title=title))
    if cards:
        _draw(cards, "index")


def _show_rule(values: Sequence[StepMismatch], bounds: Bounds) -> None:
    """How much a chosen rule stops at each step, beyond its two bounds."""
    recorded = {one.rule for value in values for one in value.rules}
    offered = [name for name in RULES if name in recorded]
    if not offered:
        return
    if state.get("mismatch_rule") not in offered:
        state.put(mismatch_rule=offered[0])
    labels = {name: RULES[name].label for name in offered}
    name = page_parts.segments("Rule", "mismatch_rule", labels)
    rule = RULES[name]
    words = f"Bounds {bounds_words(rule, bounds[name])}. {rule.formula}. {rule.source}"
    st.caption(plain(words, 400))
    shares = {
        one.step: next((own.shares(bounds[name]) for own in one.rules if own.rule == name), None)
        for one in values
    }
    cards: list[Card] = []
    for side, title in _SIDES.items():
        if getattr(rule, side) is not None:
            sign = rule.signs(side)
            fields = {
                side: "of all loss tokens",
                f"positive.{side}": "of those with A > 0",
                f"negative.{side}": "of those with A < 0",
            }
            chart = fields_over_steps(shares, fields, "share", dark=page_parts.dark())
            unit = f"stops only tokens with {sign}" if sign else ""
            cards.append(_card(side, title, chart, unit))
    _draw(cards, f"rule_{name}")


def _show_lags(steps: Sequence[StepMismatch]) -> None:
    """How far they are apart by how many versions the sampling weights lag, over all steps read."""
    names = {"lag": "whole", ENGINE_LAG: "engine only", STALE_LAG: "staleness only"}
    by_part = {
        title: pooled(part for step in steps for part in step.slices.get(name, ()))
        for name, title in names.items()
    }
    by_part = {title: parts for title, parts in by_part.items() if parts}
    if "whole" not in by_part:
        words = (
            "Not recorded in this run: policy_version, which gives the staleness of the sampler."
        )
        st.caption(words)
        return
    explained = "step minus the policy_version that sampled, over all steps read"
    st.markdown(f"**By policy lag** :gray[{explained}]")
    lags = [part.name for part in by_part["whole"]]
    if len(lags) == 1:
        words = f"Every token read was sampled by weights {lags[0]} versions old"
        st.caption(f"{words}: no curve over lags.")
        _show_lag_table(by_part)
        return
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.markdown("**KL(sampler‖trainer), k3** :gray[over the lag, nats]")
        page_parts.draw_figure(over_lags(by_part, dark=page_parts.dark()), "lags")
    with right:
        _show_lag_table(by_part)


def _show_lag_table(by_part: Mapping[str, Sequence[Slice]]) -> None:
    """Tokens and means at each lag. by_part: "whole" among them."""
    whole = sorted(by_part["whole"], key=lambda part: float(part.name))
    columns = {
        "lag": Column([float(one.name) for one in whole], "%g", help="Versions."),
        "tokens": Column([one.tokens for one in whole], "localized"),
        "mean |d|": Column([one.d_abs for one in whole], "%.3g", help="Nats."),
    }
    for title, own in by_part.items():
        k3 = {one.name: one.k3 for one in own}
        columns[f"k3, {title}"] = Column([k3.get(one.name) for one in whole], "%.3g", help="Nats.")
    tables.draw(columns, most_pixels=320)


def _card(key: str, title: str, chart: CurveChart, unit: str = "") -> Card:
    return Card(key, title, light(chart), unit, [_CLICK])


def _draw(cards: Sequence[Card], key: str) -> None:
    if clicked := page_parts.curves(cards, key):
        state.go("step", step_part="mismatch", step=clicked.step, **state.NO_ROLLOUT)
