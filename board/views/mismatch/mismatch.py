"""Mismatch: the engine that sampled against the trainer that learns; where they part, and why."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Final

import pandas as pd
import streamlit as st

from board.analysis.mismatch import StepMismatch
from board.charts.mismatch_charts import MEASURES, slice_bars
from board.core.metrics.shares import percent
from board.core.tokens.mismatch import Apart, Decomposition
from board.export.file_names import file_of
from board.export.run_pages import mismatch_page
from board.query.open_run import Run
from board.views.mismatch.over_steps import over_steps
from board.views.mismatch.rule_bounds import show_rules
from board.views.shared import cache, page_export, page_parts, shortcuts, state, tables
from board.views.shared.background import show_progress
from board.views.shared.tables import Column
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
# Drawn in their own order, as upright bars.
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
    "flipped_k3": ("NeMo-RL policy_kl_error", "exp(-d) - 1 + d, nats: NeMo-RL policy_kl_error"),
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


def _read_step(run: Run, step: int) -> StepMismatch | None:
    """The mismatch of a step, with words for what it lacks; None where the reading was stopped."""
    task = cache.step_mismatch(run, step)
    mismatch = show_progress(task, "Reading the tokens of the step", "mismatch")
    if mismatch is None:
        return None
    words = ""
    if mismatch.parts is None and not mismatch.likelihood:
        words = "Not recorded at this step: logprobs and sampling_logprobs of the same tokens. "
        words += page_parts.how_to_record("Mismatch", run)
    elif mismatch.parts is not None and not _has_numbers(mismatch.parts):
        words = (
            "No loss token of this step has a finite value in both logprobs and sampling_logprobs: "
            "they are NaN, null or infinite."
        )
    if words:
        st.info(words, icon=":material/compare_arrows:")
    if mismatch.read < mismatch.total:
        st.caption(f"{mismatch.total - mismatch.read:,} rollouts of the step could not be read.")
    return mismatch


def _has_numbers(parts: Decomposition) -> bool:
    """Whether any token has a number of both policies; trainers that diverged log NaN alone."""
    return any(one is not None and one.tokens for one in _columns(parts).values())


def _columns(parts: Decomposition) -> dict[str, Apart | None]:
    return {"whole": parts.total, "engine": parts.engine, "staleness": parts.staleness}


def _show_cards(total: Apart) -> None:
    cards: list[tuple[str, str, str, str]] = []
    for field in _CARDS:
        label, formula = _FIELDS[field]
        unit = "nats" if "KL" in label else ""
        cards.append((label, _formatted(total, field), unit, f"{formula}. {_WHAT_D_IS}"))
    tables.cards(cards)


def _formatted(apart: Apart, field: str) -> str:
    if not apart.tokens:
        return "–"
    return number(float(getattr(apart, field)), "share" if field == "ess" else "")


def _show_parts(parts: Decomposition) -> None:
    """The estimators of the whole mismatch and of its two parts, side by side."""
    formulas = "; ".join(f"{label}: {formula}" for label, formula in _FIELDS.values())
    st.markdown("**How far they diverge**", help=plain(f"{_WHAT_D_IS} {formulas}.", 1200))
    labels = [
        f"{label}, nats" if "nats" in formula else label for label, formula in _FIELDS.values()
    ]
    columns = {"measure": Column([*labels, "tokens"])}
    for name, apart in _columns(parts).items():
        if apart is not None:
            cells = [*(_formatted(apart, field) for field in _FIELDS), f"{apart.tokens:,}"]
            columns[name] = Column(cells, help=_PARTS[name], alignment="right")
    tables.draw(columns)
    if parts.engine is None:
        words = "Not recorded at this step: old_logprobs, which separate engine from staleness."
    elif parts.engine_share != parts.engine_share:
        words = "No token with all three log-probabilities differs."
    else:
        words = (
            f"{percent(parts.engine_share)} of the squared log-ratios come from the engine, "
            f"{percent(parts.staleness_share)} from staleness and {percent(parts.cross_share)} from "
            "their product."
        )
    st.caption(plain(words, 300))


def _show_slices(mismatch: StepMismatch) -> None:
    st.markdown("**Where they diverge**", help=plain(_WHAT_D_IS, 300))
    with st.container(horizontal=True, gap="small"):
        chosen = page_parts.menu(
            "By", "mismatch_slice", _SLICES, lambda name: f"by {_SLICES[name]}", width=150
        )
        shortcuts.through(
            "breakdown", [*_SLICES], chosen, lambda name: state.put(mismatch_slice=name)
        )
        measure = page_parts.menu(
            "Measure", "mismatch_measure", MEASURES, lambda name: MEASURES[name][0], width=230
        )
    slices = mismatch.slices.get(chosen)
    if not slices:
        st.caption(plain(f"Not recorded at this step: {_NEEDS.get(chosen, 'values')}."))
        return
    look = {"level": chosen not in _UPRIGHT, "tokens": chosen == "piece"}
    figure = slice_bars(slices, measure, dark=page_parts.dark(), **look)
    page_parts.draw_figure(figure, f"slice_{chosen}_{measure}")


def show(run: Run, step: int) -> None:
    """The part of the page Step: the mismatch at the step, and its course over the run."""
    if not page_parts.lacking("Mismatch", run):
        name = file_of(run, "mismatch", step=step)
        page_export.offer(name, partial(mismatch_page, run, step), of_step=True)
    mismatch = _read_step(run, step)
    if mismatch is None:
        return
    parts = mismatch.parts
    if parts is not None and _has_numbers(parts):
        _show_cards(parts.total)
        left, right = st.columns([1, 1.1], gap="small")
        with left, st.container(border=True, height="stretch"):
            _show_parts(parts)
        with right, st.container(border=True, height="stretch"):
            _show_slices(mismatch)
        show_rules(run, mismatch)
    elif parts is None and mismatch.rules:
        show_rules(run, mismatch)
    if mismatch.likelihood:
        words = "#### Tokens trained with cross-entropy"
        st.markdown(words, help="Negative log-likelihood, sft_mask 1.")
        fields = {"name": "of", "tokens": "tokens", "mean": "mean NLL", "largest": "largest"}
        rows = pd.DataFrame(map(asdict, mismatch.likelihood))
        tables.draw_frame(rows[[*fields]].rename(columns=fields))
    is_recorded = parts is not None or mismatch.rules or mismatch.likelihood
    if is_recorded or "mismatch_kl_mean" in run.columns:
        over_steps(run)
