"""What a home-made log was read as, at the top of its run; changed there, it is a mapping file."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.errors import BoardError
from board.index.discovery import mapping_editor
from board.index.discovery.mapping_editor import FIELDS, MappingDraft
from board.query.open_run import Run
from board.views.shared import opened_runs
from board.views.shared.text import one_line, plain

_NONE: Final = ""
_SHOWN_CHARACTERS: Final = 50


def draw(run: Run) -> None:
    """A button that names what was taken for what, with its panel; nothing for other formats."""
    if not mapping_editor.is_generic(run.info):
        return
    with st.popover(
        "Keys", icon=":material/key:", type="tertiary", key="mapping_panel", on_change="rerun"
    ) as panel:
        if panel.open:
            _show(run)


def _show(run: Run) -> None:
    is_saved = mapping_editor.is_saved(run.info)
    st.markdown(
        "**Fields from rollout-board.toml**" if is_saved else "**Fields guessed from key names**"
    )
    try:
        known = mapping_editor.draft_of(run.info)
        changes = _choices(known)
        draft = mapping_editor.draft_of(run.info, changes) if changes else known
    except (BoardError, OSError) as error:
        st.warning(plain(error, 300))
        return
    if st.button(
        "Save as mapping file",
        icon=":material/save:",
        disabled=not changes,
        help="Writes rollout-board.toml to the run's folder and reads the log again.",
    ):
        _save(run, draft)
    _show_rollouts(draft)


def _choices(known: MappingDraft) -> dict[str, str | None]:
    """The keys that were chosen for fields, where they are others than those it is read by."""
    changes: dict[str, str | None] = {}
    columns = st.columns(2, gap="small")
    for place, field in enumerate(FIELDS):
        now = known.keys.get(field, _NONE)
        options = [_NONE, *dict.fromkeys((*known.paths, *([now] if now else ())))]
        with columns[place % 2]:
            chosen = st.selectbox(
                field,
                options,
                index=options.index(now),
                format_func=lambda path: one_line(path, 60) if path else "none",
                key=f"mapping_{field}",
            )
        if chosen != now:
            changes[field] = chosen or None
    return changes


def _show_rollouts(draft: MappingDraft) -> None:
    """The first rollouts that the mapping gives."""
    for rollout in draft.preview:
        step, reward, prompt, response = (
            _cell(rollout.get(name)) for name in ("step", "reward", "prompt", "response")
        )
        st.text(f"step {step}, reward {reward}\n{prompt}\n→ {response}")
    for name in ("response", "reward"):
        is_lost = all(rollout.get(name) is None for rollout in draft.preview)
        if is_lost and (name in draft.keys or name == "response"):
            st.warning(f"The first rollouts have no {name} with these keys.")


def _cell(value: object) -> str:
    return "not recorded" if value is None else one_line(str(value), _SHOWN_CHARACTERS)


def _save(run: Run, draft: MappingDraft) -> None:
    try:
        target = mapping_editor.save(run.info, draft.text)
    except BoardError as error:
        st.warning(plain(error, 300))
        return
    opened_runs.discovered.clear()
    st.toast(plain(f"Saved {target.name}. Reading the log again.", 200), icon=":material/save:")
    st.rerun()
