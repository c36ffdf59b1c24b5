"""Mismatch: the engine that sampled against the trainer that learns; where they part, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from board.charts.curves import CurveOptions
from board.charts.layout import notes_of
from board.charts.mismatch_charts import (
    MEASURES,
    StepValue,
    distances,
    parts,
    rule_curves,
    slice_bars,
)
from board.core.masks import RULES
from board.core.mismatch import Apart, Decomposition, Likelihood, RuleShares
from board.store.mismatch import SCANNED_ROLLOUTS, StepMismatch, clip_numbers
from board.store.run import Run
from board.store.stepwise import Stepwise
from board.views import _cached, _cached_looks, _page, _sidebar, _state
from board.views._text import number, plain

_WATCH_SECONDS: Final = 2.5
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
    "chi2": ("χ²", "mean r² - 1: verl rollout_corr/chi2_token"),
    "ess": ("ESS", "(Σr)² / (n Σr²), share of tokens that stay effective"),
    "d_largest": ("largest |d|", "nats"),
}
_CARDS: Final = ("forward_k3", "forward_k1", "multiplicative", "chi2", "ess")
_WHAT_D_IS: Final = (
    "d = logprobs - sampling_logprobs of a loss token, r = exp(d); the sampler drew the tokens."
)


def _cards(found: Decomposition) -> None:
    with st.grid(len(_CARDS), min_column_width=170, gap="small"):
        for field in _CARDS:
            label, formula = _FIELDS[field]
            value = float(getattr(found.total, field))
            shown = number(value, "share" if field == "ess" else "")
            st.metric(plain(label), shown, help=plain(f"{formula}. {_WHAT_D_IS}", 400), border=True)


def _parts_table(found: Decomposition) -> None:
    """The estimators of the whole mismatch and of its two parts."""
    rows: list[tuple[str, Apart | None]] = [
        ("whole: sampler → trainer", found.total),
        ("engine: sampler → trainer before updates", found.engine),
        ("staleness: before updates → trainer now", found.staleness),
    ]
    frame = pd.DataFrame(
        [
            {"part": name, **{f: getattr(apart, f) for f in _FIELDS}, "tokens": apart.tokens}
            for name, apart in rows
            if apart is not None
        ]
    )
    config: dict[str, Any] = {
        field: st.column_config.NumberColumn(label, help=formula, format="%.3g")
        for field, (label, formula) in _FIELDS.items()
    }
    config["ess"] = st.column_config.NumberColumn("ESS", help=_FIELDS["ess"][1], format="percent")
    st.dataframe(frame, hide_index=True, row_height=36, column_config=config, placeholder="–")
    if found.engine is None:
        st.caption("Not recorded at this step: old_logprobs, which tell engine from staleness.")
    elif found.engine_share == found.engine_share:
        st.caption(
            f"Of the squared log-ratios {found.engine_share:.0%} are the engine's, "
            f"{found.staleness_share:.0%} staleness and {found.cross_share:.0%} their product."
        )


def _where(found: StepMismatch) -> None:
    """D by sort of token."""
    with st.container(border=True, height="stretch"):
        st.markdown("**Where they part**", help=plain(_WHAT_D_IS, 300))
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
            st.selectbox(
                "Measure",
                list(MEASURES),
                key="measure",
                width=230,
                format_func=lambda name: MEASURES[name][0],
                label_visibility="collapsed",
                persist_state="session",
            )
        chosen, measure = str(_state.get("slice")), str(_state.get("measure"))
        slices = found.slices.get(chosen)
        if not slices:
            st.caption(plain(f"Not recorded at this step: {_NEEDS.get(chosen, 'values')}."))
            return
        figure = slice_bars(
            slices,
            measure,
            dark=_page.dark(),
            level=chosen not in _UPRIGHT,
            tokens=chosen == "piece",
        )
        _draw(figure, f"slice_{chosen}_{measure}_{found.step}")


def _rules(run: Run, found: StepMismatch) -> None:
    with st.container(border=True, height="stretch"):
        st.markdown("**What trust-region rules would stop**")
        if not found.shares:
            st.caption("Not recorded at this step: what the rules compare, or advantages.")
            return
        st.dataframe(
            _rules_frame(found.shares),
            hide_index=True,
            row_height=36,
            placeholder="–",
            column_config={
                name: st.column_config.NumberColumn(name, format="percent")
                for name in ("hit", "low", "high", "A > 0", "A < 0")
            },
        )
        own = clip_numbers(run).get("ratio_clip")
        clip = f"the run's ({_numbers_told(own)})" if own else "PPO's 0.2"
        st.caption(
            plain(
                f"Shares of loss tokens. Bounds: of the ratio clip {clip}; of the others their papers'. "
                "Other bounds can be tried on a rollout's tokens.",
                400,
            )
        )
        lacking = [
            RULES[name].label for name in RULES if name not in {r.rule for r in found.shares}
        ]
        if lacking:
            st.caption(plain(f"Not recorded for: {'; '.join(lacking)}.", 300))


def _numbers_told(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in numbers.items())


def _rules_frame(rules: Sequence[RuleShares]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "rule": RULES[one.rule].label,
                "hit": one.hit,
                "low": one.low,
                "high": one.high,
                "A > 0": one.positive,
                "A < 0": one.negative,
            }
            for one in rules
        ]
    )


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


def _draw(figure: go.Figure, key: str, *, opens: bool = False) -> None:
    if opens:
        _page.clickable(figure, key=key, field="x", on_pick=_open_step)
    else:
        st.plotly_chart(figure, key=f"{key}_{_state.get('run')}", theme=None)
    for note in notes_of(figure):
        st.caption(plain(note))


def _open_step(step: int) -> None:
    _state.go("mismatch", step=step, index=0, token=None)


def _over_steps(run: Run) -> None:
    """From the index at once; from the tokens of all steps when asked for."""
    scan = _cached_looks.mismatch_scan(run)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Over the steps")
        st.space("stretch")
        _scan_button(scan)
    if scan.is_running:
        _watch(run)
    else:
        _curves(run, scan)


def _scan_button(scan: Stepwise[StepMismatch]) -> None:
    if scan.is_running:
        st.button("Stop", icon=":material/stop:", key="scan_stop", on_click=scan.stop)
    elif not scan.has_ended:
        words = "Read the tokens of all steps" if not scan.done else "Go on"
        st.button(
            words,
            icon=":material/play_arrow:",
            key="scan_start",
            on_click=scan.start,
            help=f"Up to {SCANNED_ROLLOUTS} rollouts of each step. The page stays usable meanwhile.",
        )


@st.fragment(run_every=_WATCH_SECONDS)
def _watch(run: Run) -> None:
    """Draws what there is while the scan runs; reruns the page when it has ended."""
    scan = _cached_looks.mismatch_scan(run)
    if not scan.is_running:
        st.rerun()
    st.progress(scan.done / max(scan.total, 1), text=f"{scan.done:,} of {scan.total:,} steps")
    _curves(run, scan)


def _curves(run: Run, scan: Stepwise[StepMismatch]) -> None:
    found = [
        StepValue(one.step, one.parts, one.shares) for one in scan.found if one.parts or one.shares
    ]
    if not found:
        _index_curve(run)
        return
    dark = _page.dark()
    kl = {"forward_k3": "KL(sampler‖trainer), k3", "reverse_k3": "KL(trainer‖sampler), k3"}
    _rule_over_steps(found)
    charts = [
        ("KL in both directions", distances(found, kl, "nats", dark=dark)),
        ("Engine and staleness, KL k3", parts(found, dark=dark)),
        ("χ² of the weights", distances(found, {"chi2": "χ²"}, "", dark=dark)),
        ("Effective sample share", distances(found, {"ess": "ESS"}, "", dark=dark)),
    ]
    for left in range(0, len(charts), 2):
        for column, (title, figure) in zip(
            st.columns(2, gap="small"), charts[left : left + 2], strict=True
        ):
            with column, st.container(border=True, height="stretch"):
                st.markdown(f"**{plain(title)}**")
                _draw(figure, f"over_{title}", opens=True)
    _by_lag(found, scan)
    if scan.error is not None:
        st.error(plain(scan.error, 300))


def _rule_over_steps(found: Sequence[StepValue]) -> None:
    known = {one.rule for step in found for one in step.rules}
    offered = [name for name in RULES if name in known]
    if not offered:
        return
    if _state.get("rule") not in offered:
        _state.put(rule=offered[0])
    with st.container(border=True):
        st.segmented_control(
            "Rule",
            offered,
            key="rule",
            required=True,
            format_func=lambda name: RULES[name].label,
            label_visibility="collapsed",
            persist_state="session",
        )
        rule = str(_state.get("rule"))
        st.caption(plain(f"{RULES[rule].formula}. {RULES[rule].source}", 400))
        _draw(rule_curves(found, rule, dark=_page.dark()), f"rule_{rule}", opens=True)


def _by_lag(found: Sequence[StepValue], scan: Stepwise[StepMismatch]) -> None:
    """How far they are apart by how many versions the sampling weights lag, over all steps read."""
    rows = [
        {
            "lag": float(one.name),
            "tokens": one.tokens,
            "sum": one.d_abs * one.tokens,
            "k3": one.k3 * one.tokens,
        }
        for step in scan.found
        for one in step.slices.get("lag", ())
    ]
    if not rows:
        st.caption(
            "Not recorded in this run: policy_version, which tells how stale the sampler was."
        )
        return
    total = pd.DataFrame(rows).groupby("lag", as_index=False).sum()
    total["mean |d|"] = total["sum"] / total["tokens"]
    total["KL(sampler‖trainer), k3"] = total["k3"] / total["tokens"]
    st.markdown("**By policy lag** :gray[step less the policy_version that sampled]")
    st.dataframe(
        total.drop(columns=["sum", "k3"]),
        hide_index=True,
        row_height=36,
        column_config={
            name: st.column_config.NumberColumn(name, format="%.3g")
            for name in ("mean |d|", "KL(sampler‖trainer), k3")
        },
    )


def _index_curve(run: Run) -> None:
    if "mismatch_kl_mean" not in run.columns:
        return
    look = CurveOptions(band="quantiles", smoothing=0.0)
    columns = st.columns(2, gap="small")
    for column, name in zip(columns, ("mismatch_kl_mean", "mismatch_kl_max"), strict=True):
        if name not in run.metrics:
            continue
        with column, st.container(border=True, height="stretch"):
            words = (
                "mean of each rollout" if name.endswith("mean") else "largest token of each rollout"
            )
            st.markdown(f"**{plain('KL(sampler‖trainer), k3')}** :gray[{words}]")
            figure = _cached.curve_figure(run, (name,), look, dark=_page.dark())
            _draw(figure, f"index_{name}", opens=True)


def _render() -> None:
    run = _sidebar.narrowed()
    _page.header(run)
    if not _page.has_step(run):
        return
    step = int(_state.get("step"))
    found = _cached_looks.step_mismatch(run, step)
    if found.parts is None and not found.likelihood:
        st.info(
            "Not recorded at this step: logprobs and sampling_logprobs of the same tokens, of which "
            "the mismatch is made.",
            icon=":material/compare_arrows:",
        )
    if found.read < found.total:
        st.caption(f"{found.total - found.read:,} rollouts of the step could not be read.")
    if found.parts is not None:
        _cards(found.parts)
        _parts_table(found.parts)
    if found.parts is not None or found.shares:
        left, right = st.columns([1.1, 1], gap="small")
        with left:
            _where(found)
        with right:
            _rules(run, found)
    if found.likelihood:
        _likelihood(found.likelihood)
    if found.parts is not None or found.shares or "mismatch_kl_mean" in run.columns:
        _over_steps(run)


_render()
