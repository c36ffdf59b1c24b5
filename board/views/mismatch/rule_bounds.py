"""Trust-region rules with open bounds: what each would stop at a step, and fields for its numbers."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import streamlit as st

from board.analysis.mismatch import StepMismatch, own_numbers
from board.core.tokens.masks import RULES, MaskRule, Threshold
from board.core.tokens.rule_counts import numbers_of
from board.query.open_run import Run
from board.views.shared import state, tables
from board.views.shared.tables import PERCENT, Column
from board.views.shared.text import plain

Bounds = dict[str, dict[str, float]]

# Column -> the field of RuleShares, and what it says.
_SHARES: Final = {
    "hit": ("hit", "Share of all loss tokens that the rule masks or clips."),
    "below": ("low", "Share of all loss tokens stopped below the lower bound."),
    "above": ("high", "Share of all loss tokens stopped above the upper bound."),
    **{
        f"A {sign} 0 {where}": (
            f"{name}.{end}",
            f"Share of tokens with a {name} advantage stopped {where} the {bound} bound.",
        )
        for sign, name in ((">", "positive"), ("<", "negative"))
        for where, end, bound in (("below", "low", "lower"), ("above", "high", "upper"))
    },
}


def _usual_bounds(run: Run) -> Bounds:
    """The numbers of every rule: the run's own, else the papers'."""
    own = own_numbers(run)
    return {
        name: {
            one.name: own.get(name, {}).get(one.name, one.default)
            for one in rule.thresholds.values()
        }
        for name, rule in RULES.items()
    }


def bounds_of(run: Run) -> Bounds:
    """The numbers of every rule: those chosen, else the run's own, else the papers'."""
    chosen: Bounds = state.get("mismatch_bounds")
    return {name: usual | chosen.get(name, {}) for name, usual in _usual_bounds(run).items()}


def bounds_words(rule: MaskRule, numbers: dict[str, float]) -> str:
    """The bounds on what the rule compares, as far as it has them: 0.8 to 1.28."""
    low = "" if rule.low is None else f"{rule.low.bound(numbers[rule.low.name]):g}"
    high = "" if rule.high is None else f"{rule.high.bound(numbers[rule.high.name]):g}"
    return f"{low} to {high}" if low and high else f"above {high}" if high else f"below {low}"


def show_rules(run: Run, mismatch: StepMismatch) -> None:
    """What every rule stops at a step, and the fields of their bounds."""
    with st.container(border=True, height="stretch"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**What trust-region rules would mask or clip**", width="content")
            st.space("stretch")
            _show_fields(run)
        if not mismatch.rules:
            words = "the log-probabilities that the rules compare, or advantages"
            st.caption(f"Not recorded at this step: {words}.")
            return
        tables.draw(_columns(run, mismatch))
        st.caption(
            "Shares of loss tokens; the A > 0 and A < 0 columns are shares of the tokens with that "
            "sign. A dash means none. Bounds come from the papers unless the run's settings or you "
            "change them; the sources are listed under Bounds."
        )
        counted = {one.rule: one.metric for one in mismatch.rules}
        rules = [RULES[name] for name in counted]
        replaced = [rule.label for rule in rules if counted[rule.name] == rule.stand_in]
        if replaced:
            words = f"{'; '.join(replaced)} use logprobs instead."
            st.caption(plain(f"old_logprobs are not recorded at this step: {words}", 300))
        lacking = [rule.label for name, rule in RULES.items() if name not in counted]
        if lacking:
            st.caption(plain(f"Not recorded for: {'; '.join(lacking)}.", 300))


def _columns(run: Run, mismatch: StepMismatch) -> dict[str, Column]:
    bounds, own, chosen = bounds_of(run), own_numbers(run), state.get("mismatch_bounds")
    names = [counts.rule for counts in mismatch.rules]
    shares = [counts.shares(bounds[counts.rule]) for counts in mismatch.rules]
    set_by = ["you" if n in chosen else "the run" if n in own else "the paper" for n in names]
    return {
        "rule": Column([RULES[name].label for name in names]),
        "bounds": Column([bounds_words(RULES[name], bounds[name]) for name in names]),
        "set by": Column(set_by),
        **{
            name: Column([attrgetter(field)(one) for one in shares], PERCENT, help=explained)
            for name, (field, explained) in _SHARES.items()
        },
    }


def _show_fields(run: Run) -> None:
    """A field for every threshold; the URL holds those of rules that were changed."""
    chosen: Bounds = state.get("mismatch_bounds")
    own, bounds = own_numbers(run), bounds_of(run)
    with st.popover("Bounds", icon=":material/tune:"):
        wanted: Bounds = {}
        for name, usual in _usual_bounds(run).items():
            rule = RULES[name]
            source = f"Default: {rule.source}"
            if name in own:
                settings = ", ".join(f"{one} {value:g}" for one, value in own[name].items())
                source = f"Default: the run's settings, {settings}. {rule.source}"
            st.markdown(f"**{plain(rule.label)}**")
            st.caption(plain(f"{rule.formula}. {source}", 500))
            numbers = {
                one.name: _ask_bound(rule, one, bounds[name][one.name], usual[one.name])
                for one in rule.thresholds.values()
            }
            if numbers != usual:
                wanted[name] = numbers
        if chosen:
            st.button("Reset to defaults", on_click=state.forget, args=("mismatch_bounds",))
    if wanted != chosen:
        state.put(mismatch_bounds=wanted)
        st.rerun()


def _ask_bound(rule: MaskRule, one: Threshold, value: float, usual: float) -> float:
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
