"""Mismatch: the engine that sampled against the trainer that learns; where they part, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd
import streamlit as st

from board.analysis.mismatch import (
    StepMismatch,
)
from board.charts.layout import notes_of
from board.charts.mismatch_charts import (
    MEASURES,
    slice_bars,
)
from board.core.metrics.shares import percent
from board.core.tokens.mismatch import Apart, Decomposition, Likelihood
from board.views.frame import sidebar
from board.views.mismatch.over_steps import over_steps
from board.views.mismatch.rule_bounds import show_rules
from board.views.shared import cache, page_parts, recording_hints, shortcuts, state
from board.views.shared.background import show_progress
from board.views.shared.text import number, plain

_SLICES: Final = {
    "position": "position",
    "probability": "probability",
    "kind": "token type",
    "piece": "token",
    "turn": "turn",
    "role": "role",
    "lag": "policy lag",
}
# What stands upright has an order of its own.
_UPRIGHT: Final = frozenset(("position", "probability", "turn", "lag"))
_NEEDS: Final = {
    "turn": "segments or chat markers",
    "role": "segments or chat markers",
    "lag": "policy_version",
    "kind": "response tokens",
    "piece": "response tokens",
}
_FIELDS: Final = {
    "forward_k1": ("KL(sampler‖trainer), k1", "-d, nats"),
    "forward_k3": ("KL(sampler‖trainer), k3", "r - 1 - d, nats: what prime-rl logs as mismatch_kl"),
    "reverse_k1": ("KL(trainer‖sampler), k1", "r d, nats: importance-weighted, the sampler drew"),
    "reverse_k3": ("KL(trainer‖sampler), k3", "r d - r + 1, nats: importance-weighted"),
    "multiplicative": ("mean exp|d|", "NeMo-RL token_mult_prob_error"),
    "flipped_k3": (
        "NeMo-RL policy_kl_error",
        "exp(-d) - 1 + d, nats: NeMo-RL policy_kl_error",
    ),
    "chi2": (
        "χ²",
        "mean r² - 1: verl rollout_corr/chi2_token. It can be negative, because the mean of r in a "
        "sample need not be 1; with r divided by its mean it equals 1/ESS - 1, which is never negative",
    ),
    "ess": (
        "ESS",
        "(Σr)² / (n Σr²), effective sample size as a share of tokens; verl truncates r first",
    ),
    "d_largest": ("largest |d|", "nats"),
}
_PARTS: Final = {
    "whole": "logprobs against sampling_logprobs: what prime-rl compares.",
    "engine": "old_logprobs against sampling_logprobs, the same weights in two engines: what verl and "
    "NeMo-RL compare.",
    "staleness": "logprobs against old_logprobs: the effect of updates since sampling.",
}
_CARDS: Final = ("forward_k3", "forward_k1", "multiplicative", "chi2", "ess")
_WHAT_D_IS: Final = (
    "d = logprobs - sampling_logprobs of a loss token, r = exp(d); tokens come from the sampler."
)


def _cards(found: Decomposition) -> None:
    with st.grid(len(_CARDS), min_column_width=170, gap="small"):
        for field in _CARDS:
            label, formula = _FIELDS[field]
            unit = " :gray[nats]" if "KL" in label else ""
            st.metric(
                f"{plain(label)}{unit}",
                _shown(found.total, field),
                help=plain(f"{formula}. {_WHAT_D_IS}", 400),
                border=True,
            )


def _parts_table(found: Decomposition) -> None:
    """The estimators of the whole mismatch and of its two parts, side by side."""
    columns = {"whole": found.total, "engine": found.engine, "staleness": found.staleness}
    rows = [
        {"measure": f"{label}, nats" if "nats" in formula and "nats" not in label else label}
        | {name: _shown(apart, field) for name, apart in columns.items() if apart is not None}
        for field, (label, formula) in _FIELDS.items()
    ]
    tokens = {name: f"{apart.tokens:,}" for name, apart in columns.items() if apart is not None}
    st.dataframe(
        pd.DataFrame([*rows, {"measure": "tokens"} | tokens]),
        hide_index=True,
        row_height=33,
        height=33 * (len(rows) + 2) + 3,
        column_config={
            name: st.column_config.TextColumn(name, help=explained, alignment="right")
            for name, explained in _PARTS.items()
        },
    )
    st.caption(plain(_parts_words(found), 300))


def _shown(apart: Apart, field: str) -> str:
    if not apart.tokens:
        return "–"
    return number(float(getattr(apart, field)), "share" if field == "ess" else "")


def _parts_words(found: Decomposition) -> str:
    if found.engine is None:
        return "Not recorded at this step: old_logprobs, which separate engine from staleness."
    if found.engine_share != found.engine_share:
        return "No token with all three log-probabilities differs."
    return (
        f"{percent(found.engine_share)} of the squared log-ratios come from the engine, "
        f"{percent(found.staleness_share)} from staleness and {percent(found.cross_share)} from "
        "their product."
    )


def _has_numbers(found: Decomposition) -> bool:
    """Whether any token has a number of both policies; trainers that diverged log NaN alone."""
    parts = (found.total, found.engine, found.staleness)
    return any(apart is not None and apart.tokens for apart in parts)


def _measures_words() -> str:
    formulas = "; ".join(f"{label}: {formula}" for label, formula in _FIELDS.values())
    return f"{_WHAT_D_IS} {formulas}."


def _slice_by(name: str) -> None:
    state.put(slice=name)


def _where(found: StepMismatch) -> None:
    """D by sort of token."""
    with st.container(border=True, height="stretch"):
        st.markdown("**Where they diverge**", help=plain(_WHAT_D_IS, 300))
        with st.container(horizontal=True, gap="small"):
            st.selectbox(
                "By",
                list(_SLICES),
                key="slice",
                width=150,
                format_func=lambda name: f"by {_SLICES[name]}",
                label_visibility="collapsed",
                persist_state="session",
            )
            shortcuts.through("breakdown", [*_SLICES], state.get("slice"), _slice_by)
            st.selectbox(
                "Measure",
                list(MEASURES),
                key="measure",
                width=230,
                format_func=lambda name: MEASURES[name][0],
                label_visibility="collapsed",
                persist_state="session",
            )
        chosen, measure = str(state.get("slice")), str(state.get("measure"))
        slices = found.slices.get(chosen)
        if not slices:
            st.caption(plain(f"Not recorded at this step: {_NEEDS.get(chosen, 'values')}."))
            return
        figure = slice_bars(
            slices,
            measure,
            dark=page_parts.dark(),
            level=chosen not in _UPRIGHT,
            tokens=chosen == "piece",
        )
        key = f"slice_{chosen}_{measure}_{found.step}_{state.get('run')}"
        st.plotly_chart(figure, key=key, theme=None)
        for note in notes_of(figure):
            st.caption(plain(note))


def _likelihood(found: Sequence[Likelihood]) -> None:
    st.markdown(
        "#### Tokens trained with cross-entropy", help="Negative log-likelihood, sft_mask 1."
    )
    frame = pd.DataFrame(
        [
            {"of": o.name, "tokens": o.tokens, "mean NLL": o.mean, "largest": o.largest}
            for o in found
        ]
    )
    st.dataframe(frame, hide_index=True, row_height=36)


def _render() -> None:
    run = sidebar.narrowed()
    page_parts.header(run)
    if not page_parts.has_step(run):
        return
    step = int(state.get("step"))
    task = cache.step_mismatch(run, step)
    found = show_progress(task, "Reading the tokens of the step", "mismatch")
    if found is None:
        return
    if found.parts is None and not found.likelihood:
        st.info(
            "Not recorded at this step: logprobs and sampling_logprobs of the same tokens. "
            + recording_hints.how_to_record("Mismatch"),
            icon=":material/compare_arrows:",
        )
    parts = found.parts if found.parts is not None and _has_numbers(found.parts) else None
    if parts is None and found.parts is not None:
        st.info(
            "No loss token of this step has a finite value in both logprobs and sampling_logprobs: "
            "they are NaN, null or infinite.",
            icon=":material/compare_arrows:",
        )
    if found.read < found.total:
        st.caption(f"{found.total - found.read:,} rollouts of the step could not be read.")
    if parts is not None:
        _cards(parts)
        left, right = st.columns([1, 1.1], gap="small")
        with left, st.container(border=True, height="stretch"):
            st.markdown("**How far they diverge**", help=plain(_measures_words(), 1200))
            _parts_table(parts)
        with right:
            _where(found)
    if parts is not None or (found.parts is None and found.rules):
        show_rules(run, found)
    if found.likelihood:
        _likelihood(found.likelihood)
    whole = found.parts is not None or found.rules or found.likelihood
    if whole or "mismatch_kl_mean" in run.columns:
        over_steps(run)


_render()
