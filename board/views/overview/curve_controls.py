"""The row above the curves of the Overview: by environment or not, and how curves are drawn."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.charts.curves import CurveOptions
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.shared import page_parts, state
from board.views.shared.text import plain

KL: Final = {"k1": "k1_mean", "k2": "k2_mean", "k3": "k3_mean"}
_BANDS: Final = {
    "std": "± std of rollouts, within the data",
    "quantiles": "5–95 % and 25–75 % of rollouts",
    "minmax": "smallest to largest rollout",
    "none": "no band",
}
_SWITCH: Final = {"": "All", "env": "By environment"}


def switch(run: Run) -> bool:
    """All rollouts in one curve, or a curve for each environment; true for the latter."""
    st.segmented_control(
        "Curves",
        list(_SWITCH),
        key="by",
        required=True,
        format_func=lambda name: _SWITCH[name],
        label_visibility="collapsed",
        disabled="env" not in run.columns and not state.get("by"),
        persist_state="session",
    )
    return state.get("by") == "env"


def options(run: Run) -> CurveOptions:
    """Menus of how the curves of all rollouts are drawn, and what is chosen in them."""
    _choose_band()
    smoothing = page_parts.smoothing()
    _choose_scale()
    if "k3_mean" in run.columns:
        _choose_estimator()
    _choose_evaluations()
    return CurveOptions(
        band=state.get("band"),
        std_scale=float(state.get("scale")),
        smoothing=smoothing,
        shift_to_zero=bool(state.get("shift")),
        log=bool(state.get("log")),
    )


def _choose_band() -> None:
    scale = float(state.get("scale"))
    short = {"std": f"± {scale:g} std", "quantiles": "5–95 %", "minmax": "min–max", "none": "off"}
    with st.popover(f"Band: {short[state.get('band')]}", key="menu_band"):
        st.radio(
            "Band",
            list(_BANDS),
            key="band",
            format_func=lambda name: _BANDS[name],
            help="How much the rollouts of a step vary: not the error of their mean. ± std ends at "
            "the smallest and the largest rollout.",
            persist_state="session",
        )
        st.number_input(
            "Standard deviations",
            0.1,
            3.0,
            step=0.1,
            key="scale",
            disabled=state.get("band") != "std",
            persist_state="session",
        )


def _choose_scale() -> None:
    chosen = "Log scale" if state.get("log") else "Linear"
    with st.popover(f"{chosen}, from zero" if state.get("shift") else chosen, key="menu_scale"):
        st.toggle(
            "Log scale",
            key="log",
            help="Values of 0 or less can't be drawn on it; the chart says how many there are.",
            persist_state="session",
        )
        st.toggle(
            "Start at zero",
            key="shift",
            help="Subtracts the first recorded mean from every curve.",
            persist_state="session",
        )


def _choose_estimator() -> None:
    with st.popover(f"KL: {state.get('kl')}", key="menu_kl"):
        st.segmented_control(
            "KL estimator",
            list(KL),
            key="kl",
            required=True,
            help="KL(policy‖reference). k1 = d, k2 = d²/2, k3 = exp(-d) - 1 + d, with "
            "d = logprobs - ref_logprobs (Schulman 2020).",
            persist_state="session",
        )


def _choose_evaluations() -> None:
    if others := sidebar.evaluations():
        names = plain(", ".join(one.split or "" for one in others), 40)
        st.toggle(
            f"Show {names}",
            key="evals",
            help="Means of the other splits' rollouts, dotted, next to training's. A click on one "
            "opens its step in its own split.",
            persist_state="session",
        )
