"""Labels: counts, samples with their shares and intervals, agreement, and the labelled rollouts."""

from __future__ import annotations

from functools import partial
from typing import Final

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.charts import label_charts
from board.core.expression_tree import text_literal
from board.core.metrics.shares import interval, of_many
from board.errors import BoardError
from board.export.file_names import file_of
from board.export.labels_page import labels_page
from board.index.label_files import label_names
from board.index.segments import LABEL_ORDER
from board.query.labels.matching import usual_author, with_labels
from board.query.labels.samples import (
    Sample,
    agreements,
    draw_sample,
    label_counts,
    labelled_rows,
    next_sample_name,
    samples_of,
    shares_over_steps,
)
from board.query.open_run import Run
from board.query.rollouts import Sorting, frame
from board.views.shared import page_export, page_parts, state, tables
from board.views.shared.tables import Column
from board.views.shared.text import counted, one_line, plain

_USUAL_SIZE: Final = 40
_LARGEST: Final = 2000
_MOST_LISTED: Final = 500
_ANYBODY: Final = "the last label of each rollout"
_OF_LABELS: Final = ("label", "label_author", "label_note", "label_spans", "label_sample")
"""What the list of labelled rollouts says of each besides numbers."""


def _show_names(run: Run, *, expanded: bool = False) -> None:
    names = label_names(run.info)
    with st.expander("Labels and their keys", icon=":material/keyboard:", expanded=expanded):
        tables.draw(
            {
                "key": Column([str(place) for place in range(1, len(names) + 1)], width=50),
                "label": Column([one.name for one in names], width=120),
                "meaning": Column([one.meaning for one in names]),
            }
        )
        st.caption(
            "Open a rollout and press the key of a label; press it again to remove the label. Where "
            "tokens are selected, it labels these instead of the rollout. m: write a note, u: undo. "
            "Define your own labels in labels.toml in the run's folder (docs/labels.md)."
        )


def _choose_author(run: Run) -> str:
    authors = run.labels.authors
    if len(authors) < 2:
        return ""
    state.ensure("labels_author", ["", *authors], "")
    words = {"": _ANYBODY}
    return page_parts.menu(
        "Labels of",
        "labels_author",
        ["", *authors],
        lambda name: words.get(name) or name,
        width=240,
    )


def _draw_form(run: Run) -> None:
    """Draws a sample of the rollouts that the page is about."""
    name = next_sample_name(run)
    # Named after the sample that is drawn next: where one was drawn, the popover is another, and closed.
    with st.popover("Draw a sample", icon=":material/casino:", key=f"labels_draw_{name}"):
        st.markdown(
            f"A random sample of **{counted(run.rollout_count, 'rollout')}** to label, stratified by "
            "step and reward. Its shares are unbiased for all of them, with 95 % intervals. It opens in "
            "random order: you can stop at any time, and what is labelled is a sample, too."
        )
        with st.form("labels_draw", border=False):
            size = st.number_input("Rollouts", 2, _LARGEST, _USUAL_SIZE, step=10)
            wanted = st.text_input("Name", name, max_chars=40)
            # Another sample with the same seed would be of the same rollouts.
            seed = st.number_input("Seed", 0, 2**31, len(run.labels.samples))
            if not st.form_submit_button("Draw", type="primary"):
                return
        try:
            drawn = draw_sample(run, usual_author(), int(size), wanted.strip() or name, int(seed))
        except BoardError as error:
            st.error(plain(error, 300))
            return
        st.toast(f"{counted(drawn, 'rollout')} drawn.", icon=":material/casino:")
        st.rerun()


def _open_sample(run: Run, name: str) -> None:
    """Opens the first rollout of a sample that has no label, in its random order, which the list has: J
    goes on from it.
    """
    where = f"label_sample contains {text_literal(name)}"
    chosen = with_labels(run.whole or run).where(where)
    rows = frame(chosen, ["step", "index", "label"], Sorting(LABEL_ORDER))
    left = rows[rows["label"].isna()]
    first = (left if len(left) else rows).iloc[0] if len(rows) else None
    choices = {"rollouts_view": "list", "rollouts_scope": "run", "where": where, "q": ""}
    choices |= {"sort": LABEL_ORDER, "desc": False}
    if first is None:
        state.go("rollouts", **state.NO_ROLLOUT, **choices)
    at = {"step": int(first["step"]), "index": int(first["index"])}
    state.go("rollouts", token=None, zoom=None, **at, **choices)


def _show_sample(run: Run, sample: Sample, author: str) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{plain(sample.name, 60)}**", width="content")
            missing = f" · {sample.missing} not in the run any more" if sample.missing else ""
            st.caption(
                f"{sample.labelled} of {sample.size} labelled · drawn from "
                f"{counted(sample.population, 'rollout')}{missing}",
                width="content",
            )
            st.space("stretch")
            words = "Label" if sample.labelled < sample.size else "Look through"
            if st.button(words, key=f"labels_open_{sample.name}", icon=":material/label:"):
                _open_sample(run, sample.name)
        st.progress(sample.labelled / max(sample.size, 1))
        if not sample.shares:
            return
        left, right = st.columns([2, 3])
        with left:
            figure = label_charts.shares_of_labels(sample.shares, dark=page_parts.dark())
            page_parts.draw_figure(figure, f"labels_shares_{sample.name}")
        with right:
            over = shares_over_steps(run, sample, author)
            if over:
                figure = label_charts.shares_by_steps(
                    over,
                    [one.label for one in sample.shares],
                    dark=page_parts.dark(),
                )
                page_parts.draw_figure(figure, f"labels_steps_{sample.name}")
        st.caption(_share_words(sample))


def _share_words(sample: Sample) -> str:
    """The intervals in words, and what they are of."""
    first = sample.shares[0]
    shares = ", ".join(
        f"{plain(one.label, 30)} {interval(one.low, one.high)}" for one in sample.shares
    )
    words = f"Labelled by hand, n = {first.n:,} of {first.population:,}; 95 % intervals: {shares}."
    if first.population < first.all_rollouts:
        others = first.all_rollouts - first.population
        words += f" The other strata, of {counted(others, 'rollout')}, have no label yet."
    return words


def _show_counts(run: Run, author: str) -> None:
    counts = label_counts(run, author)
    total = (run.whole or run).rollout_count
    st.markdown(
        f"#### All labels :gray[{of_many(sum(counts.values()), total)}]",
        help="Rollouts chosen by hand as well as drawn: no shares of the run. For shares, draw a sample.",
    )
    rows = {
        "label": Column([*counts], width=160),
        "rollouts": Column([*counts.values()], "localized", width=90),
    }
    label = tables.pick(rows, [*counts], key=f"labels_counts_{run.info.name}")
    if label is not None:
        where = f"label == {text_literal(label)}"
        choices = {"rollouts_view": "list", "rollouts_scope": "run", "where": where}
        state.go("rollouts", **state.NO_ROLLOUT, **choices)


def _show_agreement(run: Run) -> None:
    pairs = agreements(run)
    st.markdown("#### Agreement", help="Over rollouts that both authors labelled.")
    if not pairs:
        st.caption("No rollout has labels of two authors.")
        return
    for one in pairs:
        st.markdown(f"**{plain(one.first, 40)} and {plain(one.second, 40)}**")
        tables.draw(
            {
                "": Column(["the same label", "95 % interval", "Cohen's kappa"]),
                "value": Column(
                    [of_many(one.equal, one.n), interval(one.low, one.high), one.kappa_text],
                    label="",
                    alignment="right",
                ),
            }
        )
        differ = sorted(((n, p) for p, n in one.pairs.items() if p[0] != p[1]), reverse=True)
        if differ:
            words = ", ".join(f"{plain(a, 30)} / {plain(b, 30)}: {n}" for n, (a, b) in differ[:4])
            st.caption(f"They differ most on {words}.")


def _show_list(run: Run) -> None:
    listed = labelled_rows(run, _MOST_LISTED)
    rows = listed.rows
    st.markdown(f"#### Labelled rollouts :gray[{listed.words} · click to open]")
    heads = tables.headings_of(run)
    numbers = {"step": 60, "index": 60, **({"reward": 80} if "reward" in rows else {})}
    at = tables.pick(
        {
            **{
                name: Column(rows[name].tolist(), label=heads[name], width=pixels)
                for name, pixels in numbers.items()
            },
            **{name: Column(_texts(rows, name), label=heads[name]) for name in _OF_LABELS},
        },
        [*zip(map(int, rows["step"]), map(int, rows["index"]), strict=True)],
        key=f"labels_list_{run.info.name}",
        most_pixels=420,
    )
    if at is not None:
        state.go("rollouts", step=at[0], index=at[1], token=None)


def _texts(rows: pd.DataFrame, name: str) -> list[str]:
    return ["" if pd.isna(text) else one_line(text, 160) for text in rows[name]]


def show(run: Run, title: DeltaGenerator) -> None:
    """The view of the page Rollouts. title: the row for whose labels these are, and for a new sample."""
    with title:
        author = _choose_author(run)
    page_export.offer(file_of(run, "labels"), partial(labels_page, run, author))
    with title:
        _draw_form(run)
    if run.labels.refused:
        st.warning(plain(f"{run.labels.refused}. No label is shown."))
    samples = samples_of(run, author)
    if not samples and not label_counts(run):
        st.info(
            "Nothing is labelled yet. Open a rollout and press 1 to 9. To estimate the share of a label "
            "in the run, with its interval, draw a sample and label it.",
            icon=":material/label:",
        )
        _show_names(run, expanded=True)
        return
    for sample in samples:
        _show_sample(run, sample, author)
    left, right = st.columns(2, gap="large")
    with left:
        _show_counts(run, author)
    with right:
        _show_agreement(run)
    if "label" in run.columns:
        _show_list(run)
    if run.labels.missing:
        words = counted(run.labels.missing, "labelled rollout")
        st.caption(
            f"{words} not in the run any more: a resume wrote them again, or their file is elsewhere."
        )
    if run.labels.unreadable:
        st.warning(f"{counted(run.labels.unreadable, 'line')} of labels.jsonl can't be read.")
    _show_names(run)
