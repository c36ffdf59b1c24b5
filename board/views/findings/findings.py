"""Findings: what looks wrong in the run, the worst first, each with its place one click away."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.analysis.findings import Diagnosis
from board.analysis.own_thresholds import OwnThresholds
from board.charts.finding_charts import findings_chart
from board.charts.layout import PLOTLY_CONFIG
from board.core.findings.coverage import Coverage, coverage
from board.core.findings.finding import SEVERITIES, Finding, in_words
from board.query.open_run import Run
from board.views.findings import log_health, step_links
from board.views.frame import sidebar
from board.views.shared import cache, finding_counts, page_parts, shortcuts, state
from board.views.shared.background import show_progress
from board.views.shared.text import counted, harmless_cell, piece_shown, plain

_SHOWN: Final = 20
_ALL: Final = "_all_findings"
_EVIDENCE: Final = 4


def _bar(run: Run, diagnosis: Diagnosis) -> None:
    """How many of each severity there are, a click on which shows those alone; and downloads."""
    counts = {n: sum(f.severity == n for f in diagnosis.findings) for n in SEVERITIES}
    state.keep("severity", SEVERITIES)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.pills(
            "Severity",
            list(SEVERITIES),
            key="severity",
            selection_mode="multi",
            format_func=lambda name: (
                f"{finding_counts.ICONS[name]} {finding_counts.counted(counts[name], name)}"
            ),
            label_visibility="collapsed",
            persist_state="session",
        )
        st.space("stretch")
        _downloads(run, diagnosis)


def _downloads(run: Run, diagnosis: Diagnosis) -> None:
    text = json.dumps(_document(run, diagnosis), indent=2, ensure_ascii=False)
    for name, data, mime in (
        ("JSON", text.encode(), "application/json"),
        ("CSV", _csv(diagnosis.findings), "text/csv"),
    ):
        st.download_button(
            name,
            data=data,
            file_name=f"findings.{name.lower()}",
            mime=mime,
            icon=":material/download:",
            on_click="ignore",
            key=f"findings_{name}",
        )
    with st.popover("Copy", icon=":material/content_copy:"):
        st.caption("The button at the upper right of the text copies it.")
        st.code(_as_text(diagnosis.findings), language=None, height=320)


def _document(run: Run, diagnosis: Diagnosis) -> dict[str, Any]:
    """As `rollout-board findings --json` prints it; a number that is not finite is null."""
    return _finite(
        {
            "run": run.info.name,
            "steps": diagnosis.steps,
            "steps_read": diagnosis.steps_read,
            "rollouts_read": diagnosis.rollouts_read,
            **{n: sum(f.severity == n for f in diagnosis.findings) for n in SEVERITIES},
            "findings": [asdict(finding) for finding in diagnosis.findings],
        }
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(found: Sequence[Finding]) -> bytes:
    rows = [
        {
            **{n: getattr(f, n) for n in ("severity", "rule", "title", "text", "step")},
            **{n: getattr(f, n) for n in ("first_step", "last_step", "value", "threshold", "unit")},
            "evidence": "; ".join(_place(e.index, e.position) for e in f.evidence),
            "source": f.source,
        }
        for f in found
    ]
    return pd.DataFrame(rows).map(harmless_cell).to_csv(index=False).encode()


def _as_text(found: Sequence[Finding]) -> str:
    parts = [f"{f.severity} · {_steps(f)} · {f.title}\n  {f.text}\n  {_measured(f)}" for f in found]
    return "\n\n".join(parts)


def _place(index: int, position: int | None) -> str:
    return f"rollout {index}" if position is None else f"rollout {index} token {position}"


def _steps(finding: Finding) -> str:
    if finding.first_step is None:
        return "the whole run"
    if finding.first_step == finding.last_step:
        return f"step {finding.first_step}"
    return f"steps {finding.first_step} to {finding.last_step}"


def _measured(finding: Finding) -> str:
    """Value against threshold, the rule, and where both are from."""
    parts = [f"rule {finding.rule}", f"source: {finding.source}"]
    if finding.value is not None and finding.threshold is not None:
        bound = in_words(finding.threshold, finding.unit)
        parts.insert(0, f"{in_words(finding.value, finding.unit)} · threshold {bound}")
    return " · ".join(parts)


def _card(run: Run, finding: Finding) -> None:
    page, choices = step_links.of_target(run, finding.target)
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(
                finding.severity,
                icon=finding_counts.ICONS[finding.severity],
                color=finding_counts.COLOURS[finding.severity],  # type: ignore[arg-type] # names of its own
            )
            st.markdown(
                f"**{plain(finding.title, 120)}** :gray[· {_steps(finding)}]", width="content"
            )
            st.space("stretch")
            st.page_link(
                state.page_file(page),
                label=step_links.label(page, choices),
                icon=":material/arrow_forward:",
                query_params=state.encoded(**choices),
            )
        st.text(finding.text)
        st.caption(plain(_measured(finding), 400))
        _evidence(run, finding)


def _evidence(run: Run, finding: Finding) -> None:
    """Rollouts and tokens to look at; what a model wrote stands beside, as text."""
    if not finding.evidence:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for evidence in finding.evidence[:_EVIDENCE]:
            at = "" if evidence.step == finding.step else f"step {evidence.step}, "
            st.page_link(
                state.page_file("rollouts"),
                label=f"{at}{_place(evidence.index, evidence.position)}",
                icon=":material/gradient:",
                query_params=state.encoded(**step_links.of_evidence(finding, evidence, run)),
            )
            if evidence.piece:
                quoted = evidence.position is not None
                shown = piece_shown(evidence.piece, 40)
                st.text(f"“{shown}”" if quoted else f"({shown})", width="content")


def _thresholds(limits: OwnThresholds) -> None:
    if limits.error:
        st.error(plain(limits.error, 400), icon=":material/error:")
        st.caption("The default thresholds are used instead.")
    elif limits.path is not None:
        st.caption(plain(f"Thresholds from {limits.path}; defaults for the rest."))


def _wanted(found: Sequence[Finding]) -> list[Finding]:
    chosen = state.get("severity")
    return [f for f in found if not chosen or f.severity in chosen]


def _one_after_another(run: Run, wanted: Sequence[Finding]) -> None:
    """One finding of the list at a time, for the keys: its name, and what opens its place."""
    if not wanted:
        return
    at = min(int(state.get("nth")), len(wanted) - 1)
    finding = wanted[at]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        shortcuts.through("finding", range(len(wanted)), at, lambda nth: state.put(nth=nth))
        if shortcuts.opens("its place"):
            page, choices = step_links.of_target(run, finding.target)
            state.go(page, **choices)
        st.markdown(
            f"**{at + 1} of {len(wanted)}** {plain(finding.title, 120)} :gray[· {_steps(finding)}]",
            width="content",
        )


def _list(run: Run, wanted: Sequence[Finding]) -> None:
    everything = st.session_state.get(_ALL, False)
    for finding in wanted if everything else wanted[:_SHOWN]:
        _card(run, finding)
    if len(wanted) > _SHOWN and not everything:
        st.button(
            f"{len(wanted) - _SHOWN} more",
            icon=":material/expand_more:",
            on_click=lambda: st.session_state.update({_ALL: True}),
        )


def _chart(run: Run, found: Sequence[Finding]) -> None:
    steps = run.steps["step"]
    figure = findings_chart(found, int(steps.min()), int(steps.max()), dark=page_parts.dark())
    if figure is not None:
        with st.container(border=True):
            st.plotly_chart(figure, theme=None, key="findings_chart", config=dict(PLOTLY_CONFIG))


def _nothing(run: Run, rules: Sequence[Coverage]) -> None:
    checked = sum(rule.state == "checked" for rule in rules)
    st.success(
        f"Nothing stood out: {counted(checked, 'rule')} checked {counted(len(run.steps), 'step')}.",
        icon=":material/check_circle:",
    )
    st.caption("This does not prove that nothing is wrong: the rules know a few signs of trouble.")


def _rules(rules: Sequence[Coverage], diagnosis: Diagnosis, limits: OwnThresholds) -> None:
    """Which rules checked the run, and why the others could not."""
    checked = sum(rule.state == "checked" for rule in rules)
    told = [f"{checked} of {len(rules)} rules checked {counted(diagnosis.steps, 'step')}."]
    if diagnosis.rollouts_read:
        told.append(
            f"{counted(diagnosis.rollouts_read, 'rollout')} of "
            f"{counted(diagnosis.steps_read, 'step')} were read; problems in others are not found."
        )
    missing = [rule for rule in rules if rule.state == "not recorded"]
    if missing:
        told.append(f"{len(missing)} need values that are not recorded: see the rules below.")
    unread = sum(rule.state == "not read" for rule in rules)
    if unread:
        told.append(f"{unread} read tokens and have not run yet.")
    off = [rule.rule for rule in rules if rule.state == "off"]
    if off:
        told.append(f"Switched off: {', '.join(off)}.")
    st.caption(plain(" ".join(told), 1500))
    with st.expander("Rules and thresholds", icon=":material/rule:"):
        st.dataframe(
            [
                {
                    "rule": rule.rule,
                    "looks for": rule.about,
                    "state": f"{rule.state}: {rule.missing}" if rule.missing else rule.state,
                    "thresholds": _limits_of(limits, rule.rule),
                }
                for rule in rules
            ],
            hide_index=True,
            column_config={
                "looks for": st.column_config.TextColumn(width=440),
                "thresholds": st.column_config.TextColumn(width=280),
            },
        )


def _limits_of(limits: OwnThresholds, rule: str) -> str:
    table = limits.thresholds[rule]
    return ", ".join(f"{name} {value:g}" for name, value in table.items())


def _show(run: Run) -> None:
    limits = finding_counts.limits_of(run)
    _thresholds(limits)
    reading = cache.findings(run, limits)
    done = reading.result
    diagnosis = done or cache.index_findings(run, limits).finish()
    rules = coverage(run.columns, limits.thresholds, tokens_read=done is not None)
    progress = st.container()
    if diagnosis.findings:
        _bar(run, diagnosis)
        st.caption("Leads to follow, not verdicts: each says what was measured, and where to look.")
        _chart(run, diagnosis.findings)
        wanted = _wanted(diagnosis.findings)
        _one_after_another(run, wanted)
        _list(run, wanted)
    else:
        _nothing(run, rules)
    _rules(rules, diagnosis, limits)
    if done is None:
        state.push()
        with progress:
            read = show_progress(reading, "Rules that read tokens", "findings")
        if read is not None:
            st.rerun()


def _render() -> None:
    is_health = bool(state.get("health"))
    run = sidebar.whole() if is_health else sidebar.current()
    page_parts.header(run)
    st.segmented_control(
        "Part of the page",
        [False, True],
        key="health",
        required=True,
        format_func=lambda health: "Log health" if health else "Findings",
        label_visibility="collapsed",
        persist_state="session",
    )
    if is_health:
        log_health.show(run)
    else:
        _show(run)


_render()
