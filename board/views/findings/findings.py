"""Findings: what looks wrong in the run, the worst first, each with its evidence one click away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

import orjson
import streamlit as st

from board.analysis.findings import Diagnosis, OwnThresholds
from board.analysis.reviewed_findings import Reviewed, read_reviewed, set_muted, set_seen
from board.charts.finding_charts import findings_chart
from board.core.findings.finding import SEVERITIES, Finding, Target, in_words
from board.core.findings.rules import RULES
from board.core.metrics.definitions import MEAN_COLUMNS
from board.export.file_names import file_of
from board.export.findings_page import findings_page
from board.query.groups import group_names
from board.query.open_run import Run
from board.views.failures import failures
from board.views.findings import log_health
from board.views.findings.finding_rows import findings_csv, rollout_words
from board.views.frame import sidebar
from board.views.shared import (
    known_findings,
    page_export,
    page_parts,
    pages,
    shortcuts,
    state,
    tables,
)
from board.views.shared.background import show_progress
from board.views.shared.page_export import Table
from board.views.shared.tables import Column
from board.views.shared.text import counted, plain, visible_token

_FIRST_CARDS: Final = 20
_ALL_CARDS: Final = "_all_findings"
_MOST_EVIDENCE: Final = 4
_JSON: Final = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
_PAGE_OF: Final = {
    "tokens": "step",
    "groups": "step",
    "failures": "findings",
    "health": "findings",
    "mismatch": "step",
    "environments": "overview",
    "rollout": "rollouts",
}


def _bar(run: Run, diagnosis: Diagnosis, reviewed: Reviewed) -> None:
    """How many of each severity there are, a click on which shows those alone."""
    words = {
        name: f"{known_findings.ICONS[name]} {known_findings.counted(count, name)}"
        for name, count in diagnosis.counts.items()
    }
    state.keep("findings_severity", SEVERITIES)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.pills(
            "Severity",
            list(SEVERITIES),
            **state.bound("findings_severity"),
            selection_mode="multi",
            format_func=words.__getitem__,
            label_visibility="collapsed",
        )
        st.space("stretch")
        new = [one for one in diagnosis.findings if not reviewed.is_seen(one)]
        if st.button(
            f"Mark all as seen ({len(new)} new)" if new else "All seen",
            icon=":material/done_all:",
            key="findings_all_seen",
            disabled=not new,
            help="The number beside the page's name counts new findings only.",
        ):
            _review(set_seen, run.info, new, seen=True)
        with st.popover("Copy", icon=":material/content_copy:"):
            st.caption("The button at the upper right of the text copies it.")
            blocks = [
                f"{one.severity} · {_steps(one)} · {one.title}\n  {one.text}\n  {_measured(one)} · "
                f"source: {one.source}"
                for one in diagnosis.findings
            ]
            st.code("\n\n".join(blocks), language=None, height=320)


def _tables(run: Run, diagnosis: Diagnosis) -> list[Table]:
    """All findings but the muted ones as further files."""

    def document() -> bytes:  # as `rollout-board findings --json` prints it; not finite is null
        return orjson.dumps(diagnosis.document(run), option=_JSON)

    return [
        Table("JSON", ".json", "application/json", document),
        Table("CSV", ".csv", "text/csv", partial(findings_csv, diagnosis.findings)),
    ]


def _steps(finding: Finding) -> str:
    return finding.steps_text or "the whole run"


def _measured(finding: Finding) -> str:
    """Value against threshold, and the rule."""
    parts = [f"rule {finding.rule}"]
    if finding.value is not None and finding.threshold is not None:
        bound = in_words(finding.threshold, finding.unit)
        parts.insert(0, f"{in_words(finding.value, finding.unit)} · threshold {bound}")
    return " · ".join(parts)


def _review(change: Callable[..., None], *what: Any, **how: bool) -> NoReturn:
    """Records that findings were seen or muted, and draws the page again."""
    try:
        change(*what, **how)
    except OSError as error:
        state.notice(f"That can't be saved: {error}")
    st.rerun()


def _review_buttons(run: Run, finding: Finding, reviewed: Reviewed) -> None:
    """Marks a finding as seen or as new again, and mutes it."""
    is_seen = reviewed.is_seen(finding)
    icon, words = ("visibility", "Seen. Click to mark it as new.")
    if not is_seen:
        icon, words = ("visibility_off", "New. Click to mark it as seen.")
    key = f"{finding.severity}_{finding.key}_{finding.title}"
    if st.button("", key=f"seen_{key}", icon=f":material/{icon}:", help=words, type="tertiary"):
        _review(set_seen, run.info, [finding], seen=not is_seen)
    words = "Mute: leave this finding out of the list and the counts of this run"
    icon = ":material/notifications_off:"
    if st.button("", key=f"mute_{key}", icon=icon, help=words, type="tertiary"):
        _review(set_muted, run.info, finding, muted=True)


def _muted(run: Run, muted: Sequence[Finding]) -> None:
    """The muted findings in a line each, and what brings one back."""
    with st.expander(
        f"{counted(len(muted), 'muted finding')}", icon=":material/notifications_off:"
    ):
        for finding in muted:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                title = (
                    f"{plain(finding.title, 120)} :gray[· {finding.severity}, {_steps(finding)}]"
                )
                st.markdown(title, width="content")
                st.space("stretch")
                key = f"unmute_{finding.severity}_{finding.key}_{finding.title}"
                if st.button("Unmute", key=key, type="tertiary"):
                    _review(set_muted, run.info, finding, muted=False)


def _card(run: Run, finding: Finding, reviewed: Reviewed) -> None:
    page, choices = _link_of(run, finding.target)
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(
                finding.severity,
                icon=known_findings.ICONS[finding.severity],
                color=known_findings.COLOURS[finding.severity],
            )
            title = f"**{plain(finding.title, 120)}** :gray[· {_steps(finding)}]"
            st.markdown(title, width="content")
            st.space("stretch")
            state.link(page, _link_words(page, choices), **choices)
            _review_buttons(run, finding, reviewed)
        st.text(finding.text)
        if finding.cause:
            cause = next(rule.title for rule in RULES if rule.name == finding.cause)
            words = (
                f"May follow from “{cause or finding.cause}” above, which holds at the same steps."
            )
            st.caption(plain(words))
        st.caption(plain(_measured(finding), 400), help=plain(f"Source: {finding.source}", 1000))
        if finding.evidence:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                _evidence(run, finding)


def _evidence(run: Run, finding: Finding) -> None:
    """Links to rollouts and tokens, each with what a model wrote, as text."""
    for evidence in finding.evidence[:_MOST_EVIDENCE]:
        at = "" if evidence.step == finding.step else f"step {evidence.step}, "
        choices = {"step": evidence.step, "index": evidence.index, "token": evidence.token}
        choices |= _reader_of(run, finding.target.metric)
        state.link("rollouts", f"{at}{rollout_words(evidence)}", "gradient", **choices)
        if evidence.piece:
            text = visible_token(evidence.piece, 40)
            st.text(f"({text})" if evidence.token is None else f"“{text}”", width="content")


def _one_at_a_time(run: Run, findings: Sequence[Finding]) -> None:
    """One finding of the list, for the keys: its name, and what opens its page."""
    at = min(int(state.get("findings_nth")), len(findings) - 1)
    finding = findings[at]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        places = range(len(findings))
        shortcuts.through("finding", places, at, lambda nth: state.put(findings_nth=nth))
        if shortcuts.opens("its place"):
            page, choices = _link_of(run, finding.target)
            state.go(page, **choices)
        title = f"**{at + 1} of {len(findings)}** {plain(finding.title, 120)}"
        st.markdown(f"{title} :gray[· {_steps(finding)}]", width="content")


def _list(run: Run, findings: Sequence[Finding], reviewed: Reviewed) -> None:
    draws_all = st.session_state.get(_ALL_CARDS, False)
    for finding in findings if draws_all else findings[:_FIRST_CARDS]:
        _card(run, finding, reviewed)
    if len(findings) > _FIRST_CARDS and not draws_all:
        draw_all = {"on_click": st.session_state.update, "kwargs": {_ALL_CARDS: True}}
        words = f"{len(findings) - _FIRST_CARDS} more"
        st.button(words, icon=":material/expand_more:", **draw_all)


def _rules(diagnosis: Diagnosis, limits: OwnThresholds) -> None:
    """Which rules checked the run, and why the others could not."""
    rules = diagnosis.rules
    by_state: dict[str, list[str]] = defaultdict(list)
    for rule in rules:
        by_state[rule.state].append(rule.rule)
    words = [diagnosis.checked_words]
    if count := diagnosis.rollouts_read:
        read = f"{counted(count, 'rollout')} of {counted(diagnosis.steps_read, 'step')}"
        words.append(f"The tokens and texts of {read} were read: problems in others are not found.")
    if unread := by_state["not read"]:
        words.append(f"{len(unread)} read tokens and have not run yet.")
    if off := by_state["off"]:
        words.append(f"Switched off: {', '.join(off)}.")
    st.caption(plain(" ".join(words), 1500))
    with st.expander("Rules and thresholds", icon=":material/rule:"):
        own = [limits.thresholds[rule.rule].items() for rule in rules]
        bounds = [", ".join(f"{name} {bound:g}" for name, bound in one) for one in own]
        states = [f"{r.state}: {r.missing}" if r.missing else r.state for r in rules]
        tables.draw(
            {
                "rule": Column([rule.rule for rule in rules]),
                "looks for": Column([rule.about for rule in rules], width=440),
                "state": Column(states),
                "thresholds": Column(bounds, width=280),
            }
        )


def _show(run: Run) -> None:
    limits = known_findings.limits_of(run)
    if limits.error:
        st.error(plain(limits.error, 400), icon=":material/error:")
        st.caption("The default thresholds are used instead.")
    elif limits.path is not None:
        st.caption(plain(f"Thresholds from {limits.path}; defaults for the rest."))
    reading = known_findings.task(run, tokens=True)
    done = reading.result
    diagnosis = done or known_findings.task(run, tokens=False).finish()
    every = known_findings.with_trainer(run, diagnosis)
    diagnosis, reviewed = known_findings.without_muted(run, every), read_reviewed(run.info)
    progress = st.container()
    name = file_of(run, "findings")
    files = _tables(run, diagnosis)
    page_export.offer(
        name, partial(findings_page, run, diagnosis.findings, diagnosis.checked_words), tables=files
    )
    if diagnosis.findings:
        _bar(run, diagnosis, reviewed)
        st.caption("Leads to follow, not verdicts: each says what was measured, and where to look.")
        steps = run.steps["step"]
        first, last = int(steps.min()), int(steps.max())
        figure = findings_chart(diagnosis.findings, first, last, dark=page_parts.dark())
        if figure is not None:
            with st.container(border=True):
                page_parts.draw_figure(figure, "findings_chart")
        chosen = state.get("findings_severity")
        listed = [one for one in diagnosis.findings if not chosen or one.severity in chosen]
        page_export.offer(
            name, partial(findings_page, run, listed, diagnosis.checked_words), tables=files
        )
        if listed:
            _one_at_a_time(run, listed)
        _list(run, listed, reviewed)
    elif every.findings:
        st.success("All findings of this run are muted.", icon=":material/notifications_off:")
    else:
        is_all = all(rule.state in ("checked", "off") for rule in diagnosis.rules)
        say, icon = (st.success, "check_circle") if is_all else (st.info, "rule")
        say(
            f"Nothing stood out in {counted(len(run.counts), 'step')}.",
            icon=f":material/{icon}:",
        )
        words = "This does not prove that nothing is wrong: the rules know a few signs of trouble."
        st.caption(words)
    if muted := [one for one in every.findings if reviewed.is_muted(one)]:
        _muted(run, muted)
    _rules(diagnosis, limits)
    if done is None:
        state.push()
        with progress:
            read = show_progress(reading, "Rules that read tokens", "findings")
        if read is not None:
            st.rerun()


def _link_of(run: Run, target: Target) -> tuple[str, dict[str, Any]]:
    """The page of a finding's target, and the choices that show it there."""
    step = {} if target.step is None else {"step": target.step}
    place = {"token": target.token, "index": target.index, **step}
    return _PAGE_OF.get(target.page, target.page), place | _choices_of_page(run, target)


def _choices_of_page(run: Run, target: Target) -> dict[str, Any]:
    column = MEAN_COLUMNS.get(target.metric, target.metric)
    match target.page:
        case "tokens":
            grouping = target.only.partition(":")[0]
            return {
                "step_part": "contributions",
                "step_metric": column if column in run.metrics else "",
                "step_only": target.only,
                "step_order": "lowest" if target.lowest else "highest",
                **({"step_types": grouping} if grouping else {}),
            }
        case "rollouts":
            everything = {"range": {}, "q": "", "group": [], "env": [], "finish": [], "where": ""}
            order = {"sort": column, "desc": not target.lowest} if column in run.columns else {}
            return {"rollouts_scope": "step", **everything, **order}
        case "rollout":
            return _reader_of(run, target.metric)
        case "groups":
            fill = "advantage" if target.metric == "advantage" else "reward"
            of_group = {"groups_id": _group_of(run, target), "groups_first": 0}
            return {"step_part": "groups", "groups_values": fill, **of_group}
        case "mismatch":  # by position and by the measure that the rules look at
            of_part = {"mismatch_measure": "multiplicative", "mismatch_slice": "position"}
            return {"step_part": "mismatch", **of_part}
        case "environments":
            metric = column if column in run.metrics else ""
            drawn = {"overview_metrics": [metric] if metric else [], "overview_metric": metric}
            return {"overview_by": "env", "env": [target.env] if target.env else [], **drawn}
        case "failures":
            return {"findings_part": "failures"}
        case "health":
            return {"findings_part": "health", "findings_superseded": target.written_again}
        case _:
            return {}


def _group_of(run: Run, target: Target) -> str:
    """The group of the rollout that a target names; empty where there is none."""
    if target.step is None or target.step not in run.counts:  # the log may have changed since
        return ""
    rows = run.of_step(target.step)
    names = group_names(rows)[rows["index"] == target.index]
    return str(names.iloc[0]) if len(names) else ""


def _reader_of(run: Run, metric: str) -> dict[str, str]:
    """The reader coloured by a token metric; by its own first one where the rule names none of tokens."""
    is_recorded = MEAN_COLUMNS.get(metric) in run.metrics
    return {"reader_metric": metric if is_recorded else "", "reader_vs": ""}


def _link_words(page: str, choices: Mapping[str, Any]) -> str:
    """A link's words: the page, or the part of it, and its step."""
    if choices.get("findings_part") == "health":
        return "Log health"
    opened = pages.page_of(page)
    named = {part.name: part.title for part in opened.parts[1:]}
    name = named.get(choices.get(opened.choice, ""), opened.title)
    return f"{name}, step {choices['step']}" if "step" in choices else name


def _render() -> None:
    part = state.get("findings_part")
    run = {"health": sidebar.whole, "failures": sidebar.narrowed}.get(part, sidebar.current)()
    page_parts.header(run, page="findings")
    {"health": log_health.show, "failures": failures.show}.get(part, _show)(run)


_render()
