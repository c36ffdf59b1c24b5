"""A folder without a rollout yet: it is waited for, and the page shows what writes one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import streamlit as st

from board.core.problems import Problem
from board.errors import BoardError
from board.index.discovery.discovered_runs import Location, RunInfo
from board.views.frame import live
from board.views.shared import problem_table, state
from board.views.shared.text import plain

_LOOK_SECONDS: Final = 1.0
LOOP: Final = """\
from exporters import RolloutExporter

with RolloutExporter({folder}, tokenizer=tokenizer) as exporter:
    for step in range(1, steps + 1):
        ...  # sample, score, train
        exporter.log(
            step,
            response_ids=response_ids,  # [B, R]
            response_mask=response_mask,  # [B, R], 1 = a token
            logprobs=logprobs,  # [B, R], nats
            rewards=rewards,  # [B]
            meta={{"prompt": prompts}},
        )
        exporter.end_step(step, loss=loss)
"""
TRL: Final = """\
from exporters.trl import ExportGRPOTrainer

trainer = ExportGRPOTrainer(model=model, ..., rollout_dir={folder})
trainer.train()
"""


def for_first_file(
    root: Location, left_out: Sequence[Problem] = (), *, is_missing: bool = False
) -> None:
    """The page while a folder holds no log. left_out: files in it that are none. is_missing: the folder
    itself is still to be made.
    """
    _heading(str(root))
    gone = st.query_params.get("run")
    if gone:
        st.warning(
            plain(
                f"{gone} is not in this folder. If it was, its files were moved or deleted.", 300
            ),
            icon=":material/folder_off:",
        )
    if is_missing:
        st.caption("The folder does not exist yet. The exporter makes it.")
    st.caption(
        "The run opens by itself when its first file is written, by this exporter or by any framework "
        "whose rollout logs the board reads."
    )
    # Into a store, or below a file, the exporter does not write.
    parent = root if isinstance(root, Path) and not root.is_file() else Path("runs")
    folder = json.dumps(str(parent / "my_run"), ensure_ascii=False)
    loop, trl = st.tabs(["Your own loop", "TRL"])
    loop.code(LOOP.format(folder=folder), language="python")
    trl.code(TRL.format(folder=folder), language="python")
    if left_out:
        st.markdown("##### Files that are not rollout logs")
        st.caption("Run `rollout-board sniff PATH` to see why, and to get a mapping file for it.")
        problem_table.table(left_out, of_whole_files=True)
    _look(None, str(root))


def for_first_rollout(info: RunInfo, root: str, problems: Sequence[Problem]) -> None:
    """The page while a run has files and no rollout that can be shown."""
    _heading(info.name)
    st.caption("The run has files, but no rollout that can be shown yet.")
    if problems:
        problem_table.table(problems)
    _look(info, root)


def _heading(where: str) -> None:
    st.subheader(":material/hourglass_empty: Waiting for the first rollout", anchor=False)
    st.caption(plain(where, 300))


@st.fragment(run_every=_LOOK_SECONDS)
def _look(info: RunInfo | None, root: str) -> None:
    """Opens the run when there is one, with Live on: who waited for it wants to see it grow."""
    try:
        is_there = live.has_news(info, root)
    except BoardError:  # the folder is still to be made
        return
    if is_there:
        state.put(live=True, follow=True)
        st.rerun()
