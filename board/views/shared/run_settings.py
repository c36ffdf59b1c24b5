"""The settings of a run in a panel by its name: how it is read, what it is, its configuration."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.core.options import ReadOptions
from board.core.tokens.text_blocks import THINK_TAGS
from board.query.open_run import OpenOptions, Run, reader_titles
from board.views.shared import finding_counts, state
from board.views.shared.text import counted, one_line, plain, size

_FIELDS: Final = ("pads", "sysend", "cap", "think")


def options() -> OpenOptions:
    """How logs are read, as chosen in the panel or by a link. Called before the page is drawn."""
    # The panel is another one on each page, and would begin anew there.
    state.put(**{name: state.get(name) for name in _FIELDS})
    pads = tuple(part.strip() for part in str(state.get("pads")).split(",") if part.strip())
    read = ReadOptions(pads, str(state.get("sysend")))
    return OpenOptions(read, max(int(state.get("cap") or 0), 0) or None)


def panel(run: Run) -> None:
    """A button that opens the settings."""
    # What takes time is drawn only while the panel is open.
    settings = st.popover(
        "Run settings",
        icon=":material/tune:",
        type="tertiary",
        key="run_settings",
        on_change="rerun",
    )
    with settings:
        _reading()
        if settings.open:
            _about(run)
            _configuration(run)


def _reading() -> None:
    st.markdown("**Reading the log**")
    st.text_input(
        "Padding tokens",
        key="pads",
        help="Tokens, separated by commas, that are removed from both ends of a response together with "
        "their values, so that they add neither length nor KL. Empty: nothing is removed.",
        persist_state="session",
    )
    st.text_input(
        "End of the system prompt",
        key="sysend",
        placeholder="the whole prompt is shown",
        help="The prompt is shown from after the first occurrence of this text.",
        persist_state="session",
    )
    st.text_input(
        "Reasoning tags",
        key="think",
        placeholder=", ".join(f"<{name}>" for name in THINK_TAGS),
        help="Names of tags, separated by commas: text between such a tag and its end folds in the "
        "reader. Empty: the usual ones.",
        persist_state="session",
    )
    st.number_input(
        "Maximum rollouts per step",
        min_value=0,
        max_value=state.LARGEST_COUNT,
        key="cap",
        help="Tables and curves use only the first rollouts of each step. 0: all.",
        persist_state="session",
    )


def _about(run: Run) -> None:
    st.markdown("**Run**")
    limits = finding_counts.limits_of(run)
    facts = {
        "Name": run.info.name,
        "Format": reader_titles(run.info),
        "Size": f"{size(run.info.bytes)} in {counted(len(run.info.files), 'file')}",
        "Thresholds of findings": "built-in" if limits.path is None else str(limits.path),
    }
    lines = [f":gray[{name}:] {plain(value, 300)}" for name, value in facts.items()]
    st.markdown("  \n".join(lines))
    st.code(one_line(run.info.path, 1000), language=None, wrap_lines=True)


def _configuration(run: Run) -> None:
    st.markdown("**Configuration**")
    if not run.settings:
        st.caption("Not recorded. Pass `run={...}` to the exporter to record them.")
    for name, content in run.settings.items():
        st.caption(plain(name))
        st.json(dict(content), expanded=1)
