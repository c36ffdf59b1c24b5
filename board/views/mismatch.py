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
    likelihoods,
    parts,
    rule_curves,
    slice_bars,
)
from board.core.masks import RULES, MaskRule, Threshold, thresholds_of
from board.core.mismatch import Apart, Decomposition, Likelihood, Slice
from board.core.rule_counts import RuleShares, numbers_of
from board.store.mismatch import (
    ENGINE_LAG,
    SCANNED_ROLLOUTS,
    STALE_LAG,
    StepMismatch,
    own_numbers,
)
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


Bounds = dict[str, dict[str, float]]


def _bounds(run: Run) -> Bounds:
    """The numbers of every rule: those chosen, else the run's own, else the papers'."""
    own, chosen = own_numbers(run), _state.get("bounds")
    return {
        name: {
            one.name: chosen.get(name, own.get(name, {})).get(one.name, one.default)
            for one in thresholds_of(rule)
        }
        for name, rule in RULES.items()
    }


def _rules(run: Run, found: StepMismatch, bounds: Bounds) -> None:
    with st.container(border=True, height="stretch"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**What trust-region rules would stop**", width="content")
            st.space("stretch")
            _bounds_fields(run)
        if not found.rules:
            st.caption("Not recorded at this step: what the rules compare, or advantages.")
            return
        shares = [one.shares(bounds[one.rule]) for one in found.rules]
        st.dataframe(
            _rules_frame(run, shares, bounds),
            hide_index=True,
            row_height=36,
            placeholder="–",
            column_config={
                name: st.column_config.NumberColumn(name, format="percent")
                for name in ("hit", "low", "high", "A > 0", "A < 0")
            },
        )
        st.caption(
            "Shares of loss tokens; low and high are beyond the lower and the upper bound, A > 0 and "
            "A < 0 of tokens with such an advantage. Bounds are the papers' unless the run's settings or "
            "you set them; the sources stand beside the fields under Bounds."
        )
        lacking = [RULES[name].label for name in RULES if name not in {r.rule for r in shares}]
        if lacking:
            st.caption(plain(f"Not recorded for: {'; '.join(lacking)}.", 300))


def _bounds_fields(run: Run) -> None:
    """A field for every threshold; the URL holds those of rules that were changed."""
    chosen: Bounds = _state.get("bounds")
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
            st.button("Defaults again", on_click=_state.forget, args=("bounds",))
    if wanted != chosen:
        _state.put(bounds=wanted)
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
        key=f"bound_{rule.name}_{one.name}_{_state.pulls()}",
    )
    numbers = numbers_of(one, {one.name: usual})
    return float(numbers[abs(numbers - float(typed)).argmin()])


def _rules_frame(run: Run, shares: Sequence[RuleShares], bounds: Bounds) -> pd.DataFrame:
    own, chosen = own_numbers(run), _state.get("bounds")
    return pd.DataFrame(
        [
            {
                "rule": RULES[one.rule].label,
                "bounds": _bounds_told(RULES[one.rule], bounds[one.rule]),
                "of": "you"
                if one.rule in chosen
                else "the run"
                if one.rule in own
                else "the paper",
                "hit": one.hit,
                "low": one.low,
                "high": one.high,
                "A > 0": one.positive,
                "A < 0": one.negative,
            }
            for one in shares
        ]
    )


def _bounds_told(rule: MaskRule, numbers: dict[str, float]) -> str:
    """The bounds on what the rule compares, as far as it has them: 0.8 to 1.28."""
    low = "" if rule.low is None else f"{rule.low.bound(numbers[rule.low.name]):g}"
    high = "" if rule.high is None else f"{rule.high.bound(numbers[rule.high.name]):g}"
    return f"{low} to {high}" if low and high else f"above {high}" if high else f"below {low}"


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
    bounds = _bounds(run)
    found = [
        StepValue(
            one.step,
            one.parts,
            [rule.shares(bounds[rule.rule]) for rule in one.rules],
            one.likelihood,
        )
        for one in scan.found
        if one.parts or one.rules or one.likelihood
    ]
    if not found:
        _index_curve(run)
        return
    dark = _page.dark()
    _likelihood_over_steps(found)
    if not any(one.parts or one.rules for one in found):
        return
    kl = {"forward_k3": "KL(sampler‖trainer), k3", "reverse_k3": "KL(trainer‖sampler), k3"}
    _rule_over_steps(found, bounds)
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
    _by_lag(scan.found)
    if scan.error is not None:
        st.error(plain(scan.error, 300))


def _likelihood_over_steps(found: Sequence[StepValue]) -> None:
    """Mean and largest, by tool: what a run that trains on tool outputs learns to foresee."""
    if not any(one.likelihood for one in found):
        return
    told = (("mean", "Mean NLL"), ("largest", "Largest NLL"))
    for column, (field, title) in zip(st.columns(2, gap="small"), told, strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"**{title} of sft_mask tokens** :gray[nats, by who speaks]")
            _draw(likelihoods(found, field, dark=_page.dark()), f"over_nll_{field}", opens=True)


def _rule_over_steps(found: Sequence[StepValue], bounds: Bounds) -> None:
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
        told = _bounds_told(RULES[rule], bounds[rule])
        st.caption(plain(f"Bounds {told}. {RULES[rule].formula}. {RULES[rule].source}", 400))
        _draw(rule_curves(found, rule, dark=_page.dark()), f"rule_{rule}", opens=True)


def _by_lag(found: Sequence[StepMismatch]) -> None:
    """How far they are apart by how many versions the sampling weights lag, over all steps read."""
    names = {
        "lag": "KL(sampler‖trainer), k3",
        ENGINE_LAG: "engine alone, k3",
        STALE_LAG: "staleness alone, k3",
    }
    parts = {
        title: _means([part for step in found for part in step.slices.get(name, ())])
        for name, title in names.items()
    }
    if not parts[names["lag"]]:
        st.caption(
            "Not recorded in this run: policy_version, which tells how stale the sampler was."
        )
        return
    rows = [
        {"lag": lag, "tokens": tokens, "mean |d|": size}
        | {title: parts[title][lag][2] for title in parts if lag in parts[title]}
        for lag, (tokens, size, _) in sorted(parts[names["lag"]].items())
    ]
    st.markdown("**By policy lag** :gray[step less the policy_version that sampled]")
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        row_height=36,
        placeholder="not recorded",
        column_config={
            "lag": st.column_config.NumberColumn("lag, versions", format="%g"),
            "tokens": st.column_config.NumberColumn("tokens", format="localized"),
            **{
                name: st.column_config.NumberColumn(f"{name}, nats", format="%.3g")
                for name in ("mean |d|", *parts)
            },
        },
    )


def _means(slices: Sequence[Slice]) -> dict[float, tuple[int, float, float]]:
    """By lag: tokens, mean |d| and mean k3 over the tokens of all slices."""
    sums: dict[float, tuple[int, float, float]] = {}
    for one in slices:
        tokens, size, k3 = sums.get(float(one.name), (0, 0.0, 0.0))
        added = (tokens + one.tokens, size + one.d_abs * one.tokens, k3 + one.k3 * one.tokens)
        sums[float(one.name)] = added
    return {lag: (tokens, size / tokens, k3 / tokens) for lag, (tokens, size, k3) in sums.items()}


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
    bounds = _bounds(run)
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
    if found.parts is not None or found.rules:
        left, right = st.columns([1.1, 1], gap="small")
        with left:
            _where(found)
        with right:
            _rules(run, found, bounds)
    if found.likelihood:
        _likelihood(found.likelihood)
    whole = found.parts is not None or found.rules or found.likelihood
    if whole or "mismatch_kl_mean" in run.columns:
        _over_steps(run)


_render()
