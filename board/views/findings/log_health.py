"""Log health: whether the arrays line up, what the log lacks, what could not be read, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.core.findings.audit import culprit
from board.core.findings.coverage import coverage
from board.core.findings.digest import Digest
from board.core.findings.log_checks import (
    Check,
    PairAudit,
    State,
    array_checks,
    clear_words,
    pair_audits,
    rule_check,
    shift_words,
)
from board.core.problems import count_of
from board.query.open_run import Run, format_title
from board.views.shared import cache, finding_counts, problem_table, state
from board.views.shared.background import show_progress
from board.views.shared.text import counted, plain, size

_OLD_COLUMNS: Final = (
    *("step", "rank", "file", "line", "reward", "advantage", "response_tokens", "response_chars"),
    *("k3_mean", "entropy_mean", "group_id", "finish_reason", "prompt", "response"),
)
_MOST_OLD: Final = 2000
_MOST_RANGES: Final = 20
# State -> icon, colour, and how its line begins.
_STATES: Final[Mapping[State, tuple[str, str, str]]] = {
    "good": (":material/check_circle:", "green", ""),
    "bad": (":material/error:", "red", ""),
    "note": (":material/info:", "blue", ""),
    "not recorded": (":material/remove:", "gray", "not recorded: "),
}


def _alignment(digests: tuple[Digest, ...]) -> None:
    """The audit that everything else rests on: whether two arrays speak of the same tokens."""
    st.markdown("#### Do the arrays line up?")
    pairs = pair_audits(digests)
    for pair in pairs:
        if pair.shift:
            st.error(
                plain(f"OFF BY {pair.shift:+d}. {shift_words(pair)}", 500), icon=":material/error:"
            )
    told = [pair for pair in pairs if pair.shift is not None]
    if not told:
        st.info(
            "Not recorded: the audit compares two of logprobs, old_logprobs, sampling_logprobs and "
            "ref_logprobs, over at least 100 tokens.",
            icon=":material/info:",
        )
        return
    if not any(pair.shift for pair in pairs):
        st.success(
            f"Best shift 0 for all {len(told)} pairs of arrays, in "
            f"{counted(len(digests), 'step')} checked.",
            icon=":material/check_circle:",
        )
    else:
        shifted = min(step for pair in pairs for step in pair.shifted)
        guilty = culprit([a for d in digests if d.step == shifted for a in d.audits])
        if guilty:
            st.text(f"{guilty} seems to be the one that is cut at another place.")
        with st.container(horizontal=True, gap="small"):
            _go("rollouts", f"Rollouts of step {shifted}", step=shifted, scope="step", index=None)
            _go("findings", "See the first step in Findings", health=False)
    _pairs_table(pairs)


def _go(page: str, label: str, **changes: object) -> None:
    st.page_link(
        state.page_file(page),
        label=label,
        icon=":material/arrow_forward:",
        query_params=state.encoded(**changes),
    )


def _pairs_table(pairs: list[PairAudit]) -> None:
    rows = [
        {
            "arrays": pair.name,
            **{f"shift {shift:+d}": pair.correlations[shift] for shift in pair.correlations},
            "best shift": "not known"
            if pair.shift is None
            else f"{pair.shift:+d}".replace("+0", "0"),
            "apart": pair.apart,
            "steps": pair.steps,
            "tokens": pair.tokens,
        }
        for pair in pairs
    ]
    number_column = st.column_config.NumberColumn
    st.dataframe(
        pd.DataFrame(rows).rename(columns={"shift +0": "shift 0"}),
        hide_index=True,
        placeholder="–",
        column_config={
            **{
                name: number_column(f"correlation, {name}", format="%.3f")
                for name in ("shift -1", "shift 0", "shift +1")
            },
            "apart": number_column("median difference, nats", format="%.3g"),
            "steps": number_column(format="%d", help="Steps that were checked."),
            "tokens": number_column(format="localized"),
        },
    )
    st.caption(
        "Correlation of the first array at token i with the second at i + shift, loss tokens only, "
        "of the first shifted "
        f"step, or the median over the steps. {clear_words()}"
    )


def _checks(run: Run, digests: tuple[Digest, ...]) -> None:
    """Every check in a line: what was found, over how much, and where to look."""
    st.markdown("#### Checks")
    limits = finding_counts.limits_of(run)
    found = cache.index_findings(run, limits).finish().findings
    checks = [_lines(run), *array_checks(digests)]
    rules = {c.rule: c for c in coverage(run.columns, limits.thresholds, tokens_read=False)}
    good = {
        "duplicated_rollouts": (
            "Duplicate rollouts",
            f"no id twice in a step, in {counted(run.rollout_count, 'rollout')}",
        ),
        "stopped_rank": ("Ranks that stopped", f"every rank, of {counted(len(run.steps), 'step')}"),
        "clock_gap": ("Clock", "no pause out of the ordinary, and never backwards"),
        "resumed": ("Resumes", "no step was written again"),
    }
    for rule, (name, nothing) in good.items():
        own = [finding for finding in found if finding.rule == rule]
        missing = "switched off" if rules[rule].state == "off" else rules[rule].missing
        severity: State = "note" if rule in ("resumed", "clock_gap") else "bad"
        checks.append(rule_check(name, own, missing=missing, nothing=nothing, state=severity))
    with st.container(border=True, gap="xsmall"):
        for check in checks:
            _line(run, check)


def _lines(run: Run) -> Check:
    beside = [problem for problem in run.problems if problem.is_of_file]
    lost = count_of(run.problems, "lost")
    partial = count_of(run.problems, "partial") - count_of(beside, "partial")
    if not lost and not partial and not beside:
        return Check(
            "Lines", "good", f"every line of {counted(len(run.info.files), 'file')} was read"
        )
    lines = "line or file is" if lost == 1 else "lines or files are"
    told = [f"{lost:,} {lines} not shown"] if lost else []
    told += [f"{counted(partial, 'rollout', 'is')} shown with a value left out"] if partial else []
    told += [f"{problem.path} {problem.reason}" for problem in beside]
    return Check("Lines", "bad", f"{'; '.join(told)}; see below")


def _line(run: Run, check: Check) -> None:
    icon, colour, prefix = _STATES[check.state]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        with st.container(width=170):
            st.badge(plain(check.name), icon=icon, color=colour)  # type: ignore[arg-type] # of ours
        st.text(f"{prefix}{check.message}", width="stretch")
        if check.evidence is not None:
            e = check.evidence
            label = f"Step {e.step}, rollout {e.index}"
            _go("rollouts", label, step=e.step, index=e.index, token=e.position)
        elif check.step is not None:
            step = check.step
            _go("rollouts", f"Step {step}", step=step, index=None, token=None, scope="step")


def _found(run: Run) -> None:
    if not run.problems:
        return
    st.markdown("#### What was found")
    problem_table.table(run.problems)


def _left_out(run: Run) -> None:
    told = [f"{join.words}." for join in run.joins]
    if run.repeated:
        told.append(
            f"{counted(run.repeated, 'row', 'repeats')} rollouts that the log holds already; each is "
            "shown once."
        )
    if run.superseded:
        told.append(
            f"{counted(run.superseded, 'rollout', 'was')} written again after a resume; what was "
            "written last is shown."
        )
    if run.over_cap:
        told.append(
            f"{counted(run.over_cap, 'rollout', 'is')} beyond the cap of {run.options.max_per_step} "
            "a step."
        )
    if "pad_tokens" in run.columns:
        told.append(f"{int(run.total('pad_tokens')):,} padding tokens were left out.")
    if missing := int(run.total("missing_values")):
        told.append(
            f"{counted(missing, 'token value', 'is')} null, NaN or infinite: left out of means."
        )
    for text in told:
        st.text(text)


def _superseded(run: Run) -> None:
    """The rollouts that a resume wrote again: read, and shown, only when somebody asks for them."""
    if not run.superseded:
        return
    st.toggle(
        "Show the rollouts that were written again",
        key="old",
        help="As they were before the resume. No mean and no curve has them.",
        persist_state="session",
    )
    if not state.get("old"):
        return
    rows = run.superseded_rollouts()
    names = [run.info.path_of(file) for file in run.info.files]
    rows = rows.assign(file=[names[number] for number in rows["file"]])
    columns = [name for name in _OLD_COLUMNS if name in rows and rows[name].notna().any()]
    st.dataframe(rows[columns].head(_MOST_OLD), hide_index=True, placeholder="–")
    if len(rows) > _MOST_OLD:
        st.caption(f"The first {_MOST_OLD:,} of {len(rows):,}.")


def _unended(run: Run) -> None:
    """The steps that a rank has not ended: a line for each rank."""
    of_rank: dict[int, list[int]] = {}
    for step in sorted(run.missing_ranks):
        for rank in run.missing_ranks[step]:
            of_rank.setdefault(rank, []).append(step)
    if not of_rank:
        return
    st.markdown("#### Steps not ended")
    for rank, steps in sorted(of_rank.items()):
        st.text(f"Rank {rank}: {_ranges(steps, sorted(run.counts))}")


def _ranges(steps: Sequence[int], recorded: Sequence[int]) -> str:
    """The steps in words, neighbours among the recorded ones joined: step 5, steps 9–12. Ascending."""
    places = np.searchsorted(recorded, steps)
    parts = np.split(np.asarray(steps), np.flatnonzero(np.diff(places) > 1) + 1)
    words = [f"{part[0]}–{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts]
    more = [f"and {len(words) - _MOST_RANGES:,} more"] if len(words) > _MOST_RANGES else []
    return f"{'step' if len(steps) == 1 else 'steps'} {', '.join([*words[:_MOST_RANGES], *more])}"


def _files(run: Run) -> None:
    shown, joined = run.files_shown(), run.files_joined()
    rows: list[dict[str, object]] = []
    for file in run.info.files:
        path = run.info.path_of(file)
        count, first, last = shown.get(path, (0, None, None))
        rows.append(
            {
                "file": path,
                "format": format_title(file.reader),
                "size": size(file.size),
                "rollouts shown": count,
                "first step": first,
                "last step": last,
            }
        )
    if run.joins:
        for row in rows:
            row["joined to others"] = joined.get(str(row["file"]), 0)
    st.markdown("#### Files")
    st.text(str(run.info.path))
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        placeholder="–",
        column_config={"rollouts shown": st.column_config.NumberColumn(format="localized")},
    )
    if run.info.beside:
        st.text("Also in the folder, not opened because their names are not those of logs:")
        for one in run.info.beside:
            st.text(one.words)


def show(run: Run) -> None:
    """The checks of a whole log, of all splits, and everything that was left out of it."""
    if len(held := cache.split_counts(run)) > 1:
        st.caption(plain(f"Of the whole log: the rollouts of all splits, {', '.join(held)}.", 200))
    reading = cache.token_samples(run, int(state.get("step")))
    digests = show_progress(reading, "Reading the tokens of a few steps", "health") or ()
    if digests:
        _alignment(digests)
    _checks(run, digests)
    _left_out(run)
    _superseded(run)
    _found(run)
    _unended(run)
    _files(run)
