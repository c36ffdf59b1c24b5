"""The field that takes log files from the user's computer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from board.index.dropped_files import folder_with
from board.views.shared import state
from board.views.shared.text import plain

MOST_MEGABYTES: Final = 200
_OPENED: Final = "_opened_files"


def choose_files() -> None:
    """Draws a field that takes files, and opens the run of those that are new in it."""
    files: Sequence[Any] = st.file_uploader(
        "Log files, from this computer",
        accept_multiple_files=True,
        max_upload_size=MOST_MEGABYTES,
        help=f"Up to {MOST_MEGABYTES} MB each; the files of all ranks together are a run. They are kept "
        "on the server's disk until it ends, with labels and notes on them.",
    )
    ids = [file.file_id for file in files]
    if not ids or ids == st.session_state.get(_OPENED):
        return
    st.session_state[_OPENED] = ids
    try:
        folder = folder_with((file.name, file.getbuffer()) for file in files)
    except OSError as error:
        st.error(f"They can't be kept: {plain(error, 200)}", icon=":material/error:")
        return
    state.go("overview", root=str(folder), run="", step=None, index=None)
