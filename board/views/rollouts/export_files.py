"""The rollouts of the list as a file: CSV or Parquet, in their order, with whole texts."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Final

import streamlit as st

from board.query import export
from board.query.open_run import Run
from board.query.rollouts import Sorting
from board.views.rollouts import rollout_list
from board.views.rollouts.rollout_list import Listed
from board.views.shared import state
from board.views.shared.text import counted, harmless_cell

_NOT_IN_NAMES: Final = re.compile(r"[^\w.-]+")


def show(run: Run, listed: Listed) -> None:
    """A button with what can be downloaded behind it."""
    count = len(listed)
    with st.popover("Export", icon=":material/download:"):
        st.markdown(f"**{counted(count, 'rollout')}**, as filtered and sorted, with whole texts.")
        for kind, mime, write in (
            ("CSV", "text/csv", partial(export.write_csv, harmless=harmless_cell)),
            ("Parquet", "application/vnd.apache.parquet", export.write_parquet),
        ):
            st.download_button(
                kind,
                data=partial(_written, listed, rollout_list.sort_of(run), write),
                file_name=f"{_name(run)}.{kind.lower()}",
                mime=mime,
                on_click="ignore",
                disabled=count == 0,
                width="stretch",
            )


def _written(listed: Listed, sorting: Sorting, write: Callable[..., None]) -> BinaryIO:
    # A file, so that batches do not add up in memory while they are written.
    out = tempfile.TemporaryFile()  # noqa: SIM115 - the download reads and closes it
    write(listed.selection, sorting, out)
    out.seek(0)
    return out


def _name(run: Run) -> str:
    """The run and the scope, as a file may be named."""
    scope = state.get("scope")
    part = {"step": f"step{state.get('step')}", "last": "last10steps", "run": "all"}[scope]
    return f"{_NOT_IN_NAMES.sub('_', run.info.name)}_{part}"
