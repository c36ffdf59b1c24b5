"""Following a log: the page is redrawn when the log grew; an empty folder is waited for."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import streamlit as st

from board.core.problems import Problem
from board.errors import BoardError
from board.index.discovery.run_info import Location, LogFile, RunInfo, is_remote
from board.query.open_run import OpenOptions, Run
from board.views.shared import background, opened_runs, state, step_choice, trainer
from board.views.shared.tables import problem_table
from board.views.shared.text import ago, plain, size

_POLL_SECONDS: Final = 1.0
"""A poll asks for the size and time of files and no more."""
_DRAW_SECONDS: Final = 2.0
"""What grows all the time is drawn no more often."""
_BUILDING_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 60.0
"""A log that did not change for so long has a grey dot."""
_MAY_GROW_SECONDS: Final = 300.0
"""A log that changed since then may grow: Live is switched on when it does."""
_GREW: Final = "_has_grown"
_BY_ITSELF: Final = "_runs_by_itself"
_SETTLED: Final = "_live_settled"
_DRAWN: Final = "_live_drawn"
_SEEN: Final = "_building_seen"
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


def toggle(run: Run, root: str) -> None:
    """When the log changed last, and the switch that follows it."""
    name = run.info.name
    background.note_run(by_itself=st.session_state.pop(_BY_ITSELF, False))
    if st.session_state.pop(_GREW, None) == name:
        state.put(live=True, follow=step_choice.was_newest())
        _settled_runs().add(name)
        step_choice.note_switched()
    # A look at a store is a request, for which somebody asks by switching Live on.
    is_open = name not in _settled_runs() and not is_remote(run.info)
    is_open = is_open and _age_seconds(run.info) < _MAY_GROW_SECONDS
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        with st.container(width="stretch"):
            if state.get("live") or is_open:
                _watch(run, root)
            else:
                st.caption(f"changed {ago(_age_seconds(run.info))} ago")
        st.toggle(
            "Live",
            **state.bound("live"),
            help="Checks every second whether the log grew, and redraws the page at most every "
            f"{_DRAW_SECONDS:g} s. On by itself for a run that grows.",
            on_change=_switch,
            args=(name,),
        )


def _settled_runs() -> set[str]:
    """The runs for which Live was switched, by the user or by itself: it stays as it is from then on."""
    return st.session_state.setdefault(_SETTLED, set())


def _switch(name: str) -> None:
    if step_choice.was_just_switched():
        state.put(live=True)
        return
    _settled_runs().add(name)
    state.put(follow=True)


@st.fragment(run_every=_POLL_SECONDS)
def _watch(run: Run, root: str) -> None:
    """Says how long ago the log changed, and draws the page again when it changes, with Live on."""
    age = _age_seconds(run.info)
    colour = "green" if age < _QUIET_SECONDS else "gray"
    dot = f":{colour}[●] " if state.get("live") else ""
    st.caption(f"{dot}changed {ago(age)} ago")
    try:
        has_grown = has_news(run.info, root) or (_is_due() and trainer.has_news(run))
    except BoardError as error:
        st.caption(f":material/cloud_off: The log can't be followed now. {plain(error, 400)}")
        return
    if has_grown:
        st.session_state[_DRAWN] = time.monotonic()
        st.session_state[_BY_ITSELF] = True
        if not state.get("live"):
            st.session_state[_GREW] = run.info.name
        st.rerun()


def has_news(info: RunInfo | None, root: str) -> bool:
    """Whether the files of a log have changed since the page was drawn, if that is long enough ago. info:
    None where there was no run. Raises BoardError where the folder can't be listed.
    """
    if not _is_due():
        return False
    if info and not is_remote(info) and any(_has_changed(file) for file in info.files):
        opened_runs.discovered.clear()
        return True
    # Files that are new are found as often as the cache looks, every few seconds; a store only says by
    # its listing what it holds.
    files = {run.name: run.files for run in opened_runs.discovered(root).runs}
    return bool(files) if info is None else files.get(info.name) != info.files


def _is_due() -> bool:
    return time.monotonic() - st.session_state.get(_DRAWN, -math.inf) >= _DRAW_SECONDS


@st.fragment(run_every=_BUILDING_SECONDS)
def watch_building(info: RunInfo, options: OpenOptions) -> None:
    """Reruns the page while the index is made, so that it shows what was read meanwhile."""
    is_first_call = st.session_state.get(_SEEN) is None
    st.session_state[_SEEN] = is_first_call
    if not is_first_call or not opened_runs.is_building(info, options):
        st.session_state.pop(_SEEN)
        st.rerun()


def say_progress(so_far: Run) -> None:
    """Says how much is read of a run that is shown as an outline. so_far: the run as its index has it."""
    done, total = so_far.done, so_far.info.bytes
    st.caption(
        ":material/hourglass_top: Step, rewards and ids are here. Texts, lengths, KL and entropy are "
        f"being read: {plain(size(done))} of {plain(size(total))}."
    )
    st.progress(min(done / total, 1.0))


def _has_changed(file: LogFile) -> bool:
    try:
        now = file.path.stat()
    except OSError:
        return True
    return (now.st_size, now.st_mtime_ns) != (file.size, file.mtime_ns)


def _age_seconds(info: RunInfo) -> float:
    """Since the last change of a file; of a store, as its listing had it."""
    changed = [info.mtime]
    for file in () if is_remote(info) else info.files:
        with suppress(OSError):
            changed.append(file.path.stat().st_mtime)
    return max(time.time() - max(changed), 0.0)


def wait_for_first_file(
    root: Location, ignored: Sequence[Problem] = (), *, is_missing: bool = False
) -> None:
    """The page while a folder holds no log, with what writes one. ignored: files in it that are no logs.
    is_missing: the folder itself is still to be made.
    """
    _waiting_heading(str(root))
    if gone := st.query_params.get("run"):
        words = f"{gone} is not in this folder. If it was, its files were moved or deleted."
        st.warning(plain(words, 300), icon=":material/folder_off:")
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
    if ignored:
        st.markdown("##### Files that are not rollout logs")
        st.caption("Run `rollout-board sniff PATH` to see why, and to get a mapping file for it.")
        problem_table(ignored, of_whole_files=True)
    _open_when_there(None, str(root))


def wait_for_first_rollout(info: RunInfo, root: str, problems: Sequence[Problem]) -> None:
    """The page while a run has files and no rollout that can be shown."""
    _waiting_heading(info.name)
    st.caption("The run has files, but no rollout that can be shown yet.")
    if problems:
        problem_table(problems)
    _open_when_there(info, root)


def _waiting_heading(where: str) -> None:
    st.subheader(":material/hourglass_empty: Waiting for the first rollout", anchor=False)
    st.caption(plain(where, 300))


@st.fragment(run_every=_POLL_SECONDS)
def _open_when_there(info: RunInfo | None, root: str) -> None:
    """Opens the run when there is one, with Live on: who waited for it wants to see it grow."""
    try:
        is_there = has_news(info, root)
    except BoardError:  # the folder is still to be made
        return
    if is_there:
        state.put(live=True, follow=True)
        st.rerun()
