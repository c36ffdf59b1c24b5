"""The neighbours of the open rollout, sent to the browser before a key asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import streamlit as st

from board.components.rollout_list import Address, ListPage
from board.components.rollout_list.ahead import MOST_WAITING, send_ahead
from board.errors import BoardError
from board.query.open_run import Run
from board.views.rollouts import reader
from board.views.shared import state

_STEPS_AHEAD: Final = (1, 2, -1, 3)
_LARGEST_LINE: Final = 4 << 20
"""Bytes of a rollout in the log; a larger one would be in the way of what is asked for meanwhile."""
_SENT: Final = "_ahead_sent"
_CHOICES: Final = ("tokenizer", "think", "read", "metric", "over", "heat")
_HIDDEN: Final = "<style>:has(> .st-key-rollouts_ahead) { display: none; }</style>"


def prefix(run: Run) -> str:
    """Of the addresses of a run's rollouts, for what is chosen in the reader now."""
    chosen = "/".join(str(state.get(name)) for name in _CHOICES)
    return f"{run.info.name}/{run.version}/{run.options}/{chosen}"


def send(run: Run, page: ListPage, at: Address) -> None:
    """Sends the next and the previous rollouts of the list that the browser lacks. Called when all else
    is drawn: another key stops it.
    """
    if at not in page.addresses or state.get("vs") or state.get("raw"):
        return
    sent: list[str] = st.session_state.setdefault(_SENT, [])
    st.html(_HIDDEN)
    with st.container(key="rollouts_ahead"):
        for slot, near in enumerate(_neighbours(page, page.addresses.index(at))):
            address = f"{prefix(run)}/{near.step}/{near.index}"
            if address in sent:
                continue
            data = _data(run, near)
            if data is not None:
                send_ahead(address, data, key=f"ahead_{slot}")
                sent.append(address)
                del sent[:-MOST_WAITING]


def _neighbours(page: ListPage, place: int) -> Iterator[Address]:
    row = [page.before, *page.addresses, page.after]
    for by in _STEPS_AHEAD:
        target = place + 1 + by
        near = row[target] if 0 <= target < len(row) else None
        if near is not None:
            yield near


def _data(run: Run, near: Address) -> dict[str, Any] | None:
    """What the reader is sent; None where the rollout is too large or can't be read."""
    try:
        size = run.row(near.step, near.index, ("size",))["size"]
        return reader.data_ahead(run, *near) if size <= _LARGEST_LINE else None
    except BoardError:
        return None
