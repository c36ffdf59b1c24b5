"""Log health: whether the arrays line up, what the log lacks, what could not be read, and where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Literal

import numpy as np
import streamlit as st

from board.core.findings.audit import culprit
from board.core.findings.digest import Digest
from board.core.findings.log_checks import (
    CLEAR_WORDS,
    Check,
    PairAudit,
    State,
    array_checks,
    pair_audits,
    rule_check,
    shift_words,
)
from board.core.metrics.trainer import Agreement
from board.core.problems import count_of
from board.export.file_names import file_of
from board.export.run_pages import PageTable, tables_page
from board.index.discovery.format_detection import LEFT_OUT
from board.query.group_sizes import group_sizes
from board.query.open_run import Run, format_title
from board.query.rollouts import total
from board.views.shared import (
    cache,
    known_findings,
    page_export,
    page_parts,
    state,
    tables,
    trainer,
)
from board.views.shared.background import show_progress
from board.views.shared.tables import Column, problem_table
from board.views.shared.text import counted, plain, size

_SUPERSEDED_COLUMNS: Final = (
    *("step", "rank", "file", "line", "reward", "advantage", "response_tokens", "response_chars"),
    *("k3_mean", "entropy_mean", "group_id", "finish_reason", "prompt", "response"),
)
_MOST_SUPERSEDED: Final = 2000
_MOST_RANGES: Final = 20
_SHIFTS: Final = {-1: "-1", 0: "0", 1: "+1"}
_DIFFER_HELP: Final = "By more than 2 %, and 1 % of the standard deviation over the rollouts."
_MISSING_HELP: Final = (
    "Rollouts that the exporters of all ranks wrote or had to drop, and the log lacks."
)
# State -> icon, colour, and how its line begins.
_STATES: Final[Mapping[State, tuple[str, Literal["green", "red", "blue", "gray"], str]]] = {
    "good": (":material/check_circle:", "green", ""),
    "bad": (":material/error:", "red", ""),
    "note": (":material/info:", "blue", ""),
    "not recorded": (":material/remove:", "gray", "not recorded: "),
}


def _alignment(digests: tuple[Digest, ...]) -> None:
    """The audit that everything else rests on: whether two arrays speak of the same tokens."""
    st.markdown("#### Do the arrays line up?")
    pairs = pair_audits(digests)
    shifted = [pair for pair in pairs if pair.shift]
    for pair in shifted:
        words = plain(f"OFF BY {pair.shift:+d}. {shift_words(pair)}", 500)
        st.error(words, icon=":material/error:")
    compared = sum(pair.shift is not None for pair in pairs)
    if not compared:
        arrays = "logprobs, old_logprobs, sampling_logprobs and ref_logprobs"
        words = f"Not recorded: the audit compares two of {arrays}, over at least 100 tokens."
        st.info(words, icon=":material/info:")
        return
    if shifted:
        step = min(step for pair in pairs for step in pair.shifted)
        guilty = culprit([a for d in digests if d.step == step for a in d.audits])
        if guilty:
            st.text(f"{guilty} seems to be the one that is cut at another place.")
        with st.container(horizontal=True, gap="small"):
            place = {"step": step, "rollouts_scope": "step", "index": None}
            state.link("rollouts", f"Rollouts of step {step}", **place)
            state.link("findings", "See the first step in Findings")
    else:
        steps = counted(len(digests), "step")
        words = f"Best shift 0 for all {compared} pairs of arrays, in {steps} checked."
        st.success(words, icon=":material/check_circle:")
    _pairs_table(pairs)


def _pairs_table(pairs: list[PairAudit]) -> None:
    columns = {"arrays": Column([pair.name for pair in pairs])}
    for shift, sign in _SHIFTS.items():
        values = [pair.correlations.get(shift) for pair in pairs]
        columns[f"shift {sign}"] = Column(values, "%.3f", f"correlation, shift {sign}")
    best = ["not known" if pair.shift is None else _SHIFTS[pair.shift] for pair in pairs]
    steps = [pair.steps for pair in pairs]
    tables.draw(
        {
            **columns,
            "best shift": Column(best),
            "apart": Column([pair.apart for pair in pairs], "%.3g", "median difference, nats"),
            "steps": Column(steps, "%d", help="Steps that were checked."),
            "tokens": Column([pair.tokens for pair in pairs], "localized"),
        }
    )
    st.caption(
        "Correlation of the first array at token i with the second at i + shift, loss tokens only, "
        f"of the first shifted step, or the median over the steps. {CLEAR_WORDS}"
    )


def _checks(run: Run, digests: tuple[Digest, ...]) -> None:
    """Every check in a line: what it says, over how much, and where to look."""
    st.markdown("#### Checks")
    diagnosis = known_findings.task(run, tokens=False).finish()
    findings, rules = diagnosis.findings, {rule.rule: rule for rule in diagnosis.rules}
    checks = [_lines(run), _audit(run), _groups(run), *array_checks(digests)]
    rollouts, steps = counted(run.rollout_count, "rollout"), counted(len(run.counts), "step")
    ids = f"no id twice in a step, in {rollouts}"
    named: tuple[tuple[str, str, str, State], ...] = (
        ("duplicated_rollouts", "Duplicate rollouts", ids, "bad"),
        ("stopped_rank", "Ranks that stopped", f"every rank, of {steps}", "bad"),
        ("clock_gap", "Clock", "no pause out of the ordinary, and never backwards", "note"),
        ("contradiction", "Contradictions", "what the log says twice agrees", "bad"),
        ("resumed", "Resumes", "no step was written again", "note"),
    )
    for rule, name, nothing, severity in named:
        own = [finding for finding in findings if finding.rule == rule]
        missing = "switched off" if rules[rule].state == "off" else rules[rule].missing
        checks.append(rule_check(name, own, missing=missing, nothing=nothing, state=severity))
    with st.container(border=True, gap="xsmall"):
        for check in checks:
            _line(check)


def _lines(run: Run) -> Check:
    files = [problem for problem in run.problems if problem.is_of_file]
    lost = count_of(run.problems, "lost")
    partial = count_of(run.problems, "partial") - count_of(files, "partial")
    if not lost and not partial and not files:
        words = f"every line of {counted(len(run.info.files), 'file')} was read"
        left_out = [problem for problem in run.problems if problem.reason.startswith(LEFT_OUT)]
        words += f"; {counted(len(left_out), 'file')} left out, see below" if left_out else ""
        return Check("Lines", "note" if left_out else "good", words)
    lines = "line or file is" if lost == 1 else "lines or files are"
    words = [f"{lost:,} {lines} not shown"] if lost else []
    words += [f"{counted(partial, 'rollout', 'is')} shown with a value left out"] if partial else []
    words += [f"{problem.path} {problem.reason}" for problem in files]
    return Check("Lines", "bad", f"{'; '.join(words)}; see below")


def _audit(run: Run) -> Check:
    """Whether all that a sample of lines holds is shown."""
    audit = cache.audit_of(run.whole or run)
    state = "not recorded" if not audit.lines else "bad" if audit.problems else "good"
    return Check("Contents", state, audit.summary)


def _groups(run: Run) -> Check:
    """Whether groups have as many rollouts as is usual."""
    sizes = group_sizes(run)
    if sizes is None:
        return Check("Groups", "not recorded", "no rollout has a group id")
    if not sizes.incomplete:
        words = f"no group of {sizes.groups:,} has fewer rollouts than is usual at its step"
        return Check("Groups", "good", words)
    return Check("Groups", "note", f"{sizes.summary}: {sizes.details}", step=sizes.worst)


def _line(check: Check) -> None:
    icon, colour, prefix = _STATES[check.state]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        with st.container(width=170):
            st.badge(plain(check.name), icon=icon, color=colour)
        st.text(f"{prefix}{check.message}", width="stretch")
        if e := check.evidence:
            label = f"Step {e.step}, rollout {e.index}"
            state.link("rollouts", label, step=e.step, index=e.index, token=e.token)
        elif check.step is not None:
            place = {"step": check.step, "index": None, "token": None, "rollouts_scope": "step"}
            state.link("rollouts", f"Step {check.step}", **place)


def _trainer(run: Run) -> None:
    """What the trainer says of the same quantities, and what was read of its files."""
    metrics = trainer.metrics(run)
    trainer.show_reading(run)
    if not metrics.sources and not metrics.problems:
        return
    st.markdown("#### Do the trainer and the rollouts agree?")
    compared = trainer.compared(run)
    if compared:
        _agreement_table(compared)
    else:
        st.caption("Nothing that the trainer logs is recorded of the rollouts, too.")
    for source in metrics.sources:
        st.text(source.summary)
    if metrics.problems:
        problem_table(metrics.problems)


def _agreement_table(compared: Sequence[Agreement]) -> None:
    """Each quantity that both have; a click opens the step at which they differ most."""
    differ = [int(one.differs.sum()) for one in compared]
    worst, theirs, ours, counts, missing = zip(*map(_where_worst, compared), strict=True)
    step = tables.pick(
        {
            "trainer": Column([one.trainer for one in compared], width=240),
            "rollouts": Column([one.column for one in compared], width=150),
            "over": Column([one.weighting for one in compared], label="mean over", width=150),
            "steps": Column([len(one.steps) for one in compared], "localized", width=60),
            "differ": Column(differ, "localized", "of these differ", 110, _DIFFER_HELP),
            "worst": Column(worst, "%d", "worst step", 85),
            "theirs": Column(theirs, "%.4g", "trainer there", 105),
            "ours": Column(ours, "%.4g", "rollouts there", 110),
            "counts": Column(counts, "localized", "recorded", 80),
            "missing": Column(missing, "localized", "missing", 75, _MISSING_HELP),
        },
        [int(one.steps[one.worst]) for one in compared],
        key=f"agreement_{state.get('run')}",
        placeholder="not known",
    )
    if step is not None:
        state.go("step", step=step, **state.NO_ROLLOUT)


def _where_worst(one: Agreement) -> tuple[int, float, float, int, int | None]:
    """The step at which they differ most, both means there, rollouts recorded and missing."""
    at = one.worst
    missing = one.missing[at] if one.missing else None
    return int(one.steps[at]), one.theirs[at], one.ours[at], int(one.counts[at]), missing


def _left_out(run: Run) -> None:
    """What of the log is not in the numbers, a line for each reason."""
    padding, missing = (int(total(run, name)) for name in ("pad_tokens", "missing_values"))
    copies = "rollouts that the log holds already; each is shown once."
    again = f"written again by {run.rows.files.written_again_by}; what was written last is shown."
    cap = f"beyond the cap of {run.options.max_per_step} a step."
    reasons = (
        (run.repeated, "row", "repeats", copies),
        (run.superseded, "rollout", "was", again),
        (run.over_cap, "rollout", "is", cap),
        (padding, "padding token", "was", "left out."),
        (
            missing,
            "token value",
            "is",
            "null, NaN, infinite or a mask's fill value: left out of means.",
        ),
    )
    for join in run.rows.joins.counts:
        st.text(f"{join.words}.")
    for count, noun, verb, reason in reasons:
        if count:
            st.text(f"{counted(count, noun, verb)} {reason}")


def _superseded(run: Run) -> None:
    """The rollouts that were written again: read, and shown, only when somebody asks for them."""
    if not run.superseded:
        return
    words = "As they were written first. No mean and no curve has them."
    bound = state.bound("findings_superseded")
    st.toggle("Show the rollouts that were written again", **bound, help=words)
    if not state.get("findings_superseded"):
        return
    rows = run.superseded_rollouts()
    names = [run.info.path_of(file) for file in run.info.files]
    rows = rows.assign(file=[names[number] for number in rows["file"]])
    columns = [name for name in _SUPERSEDED_COLUMNS if name in rows and rows[name].notna().any()]
    st.dataframe(rows[columns].head(_MOST_SUPERSEDED), hide_index=True, placeholder="–")
    if len(rows) > _MOST_SUPERSEDED:
        st.caption(f"The first {_MOST_SUPERSEDED:,} of {len(rows):,}.")


def _unended(run: Run) -> None:
    """The steps that a rank has not ended: a line for each rank."""
    of_rank: dict[int, list[int]] = defaultdict(list)
    for step in sorted(run.missing_ranks):
        for rank in run.missing_ranks[step]:
            of_rank[rank].append(step)
    if of_rank:
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
    visible, joined = run.rows.file_counts(), run.rows.joined_files()
    paths = [run.info.path_of(file) for file in run.info.files]
    rows = [visible.get(path, (0, None, None)) for path in paths]
    counts, firsts, lasts = zip(*rows, strict=True)
    columns = {
        "file": Column(paths),
        "format": Column([format_title(file.reader) for file in run.info.files]),
        "size": Column([size(file.size) for file in run.info.files]),
        "rollouts shown": Column(counts, "localized"),
        "first step": Column(firsts, "%d"),
        "last step": Column(lasts, "%d"),
    }
    if run.rows.joins.counts:
        columns["joined to others"] = Column([joined.get(path, 0) for path in paths], "%d")
    st.markdown("#### Files")
    st.text(str(run.info.path))
    tables.draw(columns)
    if run.info.ignored:
        st.text("Also in the folder, not opened because their names are not those of logs:")
        for one in run.info.ignored:
            st.text(one.words)


def _offer_export(run: Run) -> None:
    heads = ("severity", "where", "field", "what was found", "what to do", "lines")
    rows = [
        (one.severity, one.where, one.field or "", one.reason, one.hint, float(one.count))
        for one in (*run.problems, *cache.audit_of(run.whole or run).problems)
    ]
    own = PageTable(f"Problems: {len(rows)}", heads, (*[None] * 5, ""), rows)
    make = partial(tables_page, run, "Log health", "Lines and values that were not used.", [own])
    page_export.offer(file_of(run, "log_health"), make)


def show(run: Run) -> None:
    """The checks of a whole log, of all splits, and everything that was left out of it."""
    if len(names := cache.split_counts(run)) > 1:
        st.caption(plain(f"Of the whole log: the rollouts of all splits, {', '.join(names)}.", 200))
    reading = cache.token_samples(run, int(state.get("step")))
    digests = show_progress(reading, "Reading the tokens of a few steps", "health") or ()
    if digests:
        _alignment(digests)
    _checks(run, digests)
    page_parts.failures_line(run)
    _trainer(run)
    _left_out(run)
    _superseded(run)
    _offer_export(run)
    if problems := (*run.problems, *cache.audit_of(run.whole or run).problems):
        st.markdown("#### What was found")
        problem_table(problems)
    _unended(run)
    _files(run)
