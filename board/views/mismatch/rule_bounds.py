"""Trust-region rules with open bounds: what each would stop at a step, and fields for its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd
import streamlit as st

from board.analysis.mismatch import StepMismatch, own_numbers
from board.core.findings.rule_counts import RuleShares, numbers_of
from board.core.tokens.masks import RULES, MaskRule, Threshold, thresholds_of
from board.query.open_run import Run
from board.views.shared import state, table_headings
from board.views.shared.text import plain

Bounds = dict[str, dict[str, float]]

_SHARES: Final = {
    "hit": "Share of all loss tokens that the rule masks or clips.",
    "below": "Share of all loss tokens stopped below the lower bound.",
    "above": "Share of all loss tokens stopped above the upper bound.",
    "A > 0 below": "Share of tokens with a positive advantage stopped below the lower bound.",
    "A > 0 above": "Share of tokens with a positive advantage stopped above the upper bound.",
    "A < 0 below": "Share of tokens with a negative advantage stopped below the lower bound.",
    "A < 0 above": "Share of tokens with a negative advantage stopped above the upper bound.",
}


def bounds_of(run: Run) -> Bounds:
    """The numbers of every rule: those chosen, else the run's own, else the papers'."""
    own, chosen = own_numbers(run), state.get("bounds")
    return {
        name: {
            one.name: chosen.get(name, own.get(name, {})).get(one.name, one.default)
            for one in thresholds_of(rule)
        }
        for name, rule in RULES.items()
    }


def show_rules(run: Run, found: StepMismatch) -> None:
    """What every rule stops at a step, and the fields of their bounds."""
    bounds = bounds_of(run)
    with st.container(border=True, height="stretch"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**What trust-region rules would mask or clip**", width="content")
            st.space("stretch")
            _bounds_fields(run)
        if not found.rules:
            st.caption(
                "Not recorded at this step: the log-probabilities that the rules compare, or advantages."
            )
            return
        shares = [one.shares(bounds[one.rule]) for one in found.rules]
        st.dataframe(
            table_headings.written(
                table_headings.without_empty(_rules_frame(run, shares, bounds)), _SHARES
            ),
            hide_index=True,
            row_height=36,
            placeholder="–",
            column_config={
                name: st.column_config.NumberColumn(
                    name, format=table_headings.PERCENT, help=explained
                )
                for name, explained in _SHARES.items()
            },
        )
        st.caption(
            "Shares of loss tokens; the A > 0 and A < 0 columns are shares of the tokens with that "
            "sign. A dash means none. Bounds come from the papers unless the run's settings or you "
            "change them; the sources are listed under Bounds."
        )
        standing_in = [
            RULES[one.rule].label for one in found.rules if one.metric == RULES[one.rule].stand_in
        ]
        if standing_in:
            st.caption(
                plain(
                    f"old_logprobs are not recorded at this step: {'; '.join(standing_in)} use "
                    "logprobs instead.",
                    300,
                )
            )
        lacking = [RULES[name].label for name in RULES if name not in {r.rule for r in shares}]
        if lacking:
            st.caption(plain(f"Not recorded for: {'; '.join(lacking)}.", 300))


def _bounds_fields(run: Run) -> None:
    """A field for every threshold; the URL holds those of rules that were changed."""
    chosen: Bounds = state.get("bounds")
    own = own_numbers(run)
    with st.popover("Bounds", icon=":material/tune:"):
        wanted: Bounds = {}
        for name, rule in RULES.items():
            usual = {
                one.name: own.get(name, {}).get(one.name, one.default)
                for one in thresholds_of(rule)
            }
            st.markdown(f"**{plain(rule.label)}**")
            st.caption(plain(f"{rule.formula}. {_default_told(rule, own.get(name))}", 500))
            numbers = {
                one.name: _bound_field(
                    rule, one, chosen.get(name, usual)[one.name], usual[one.name]
                )
                for one in thresholds_of(rule)
            }
            if numbers != usual:
                wanted[name] = numbers
        if chosen:
            st.button("Reset to defaults", on_click=state.forget, args=("bounds",))
    if wanted != chosen:
        state.put(bounds=wanted)
        st.rerun()


def _default_told(rule: MaskRule, own: dict[str, float] | None) -> str:
    if own is None:
        return f"Default: {rule.source}"
    told = ", ".join(f"{name} {number:g}" for name, number in own.items())
    return f"Default: the run's settings, {told}. {rule.source}"


def _bound_field(rule: MaskRule, one: Threshold, value: float, usual: float) -> float:
    """A number that was counted: the nearest step of the threshold, or the run's own."""
    typed = st.number_input(
        one.name,
        min_value=min(one.lowest, usual),
        max_value=max(one.highest, usual),
        value=float(value),
        step=one.step,
        format="%g",
        key=f"bound_{rule.name}_{one.name}_{state.pulls()}",
    )
    numbers = numbers_of(one, {one.name: usual})
    return float(numbers[abs(numbers - float(typed)).argmin()])


def _rules_frame(run: Run, shares: Sequence[RuleShares], bounds: Bounds) -> pd.DataFrame:
    own, chosen = own_numbers(run), state.get("bounds")
    return pd.DataFrame(
        [
            {
                "rule": RULES[one.rule].label,
                "bounds": bounds_told(RULES[one.rule], bounds[one.rule]),
                "set by": "you"
                if one.rule in chosen
                else "the run"
                if one.rule in own
                else "the paper",
                "hit": one.hit,
                "below": one.low,
                "above": one.high,
                "A > 0 below": one.positive.low,
                "A > 0 above": one.positive.high,
                "A < 0 below": one.negative.low,
                "A < 0 above": one.negative.high,
            }
            for one in shares
        ]
    )


def bounds_told(rule: MaskRule, numbers: dict[str, float]) -> str:
    """The bounds on what the rule compares, as far as it has them: 0.8 to 1.28."""
    low = "" if rule.low is None else f"{rule.low.bound(numbers[rule.low.name]):g}"
    high = "" if rule.high is None else f"{rule.high.bound(numbers[rule.high.name]):g}"
    return f"{low} to {high}" if low and high else f"above {high}" if high else f"below {low}"
