"""Data of rollouts that are likely to be opened next, put into the browser's memory.

The list names a rollout by its address when a key opens it, and the reader draws what waits under that
address at once, before the page has rerun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamlit.components.v2 import component

MOST_WAITING: Final = 6
"""Rollouts that the browser keeps; the one that was sent first goes first."""

_SCRIPT: Final = """
export default function ({ data: { address, most, ...rollout } }) {
  const ahead = (window.__rolloutBoardAhead ??= new Map());
  ahead.delete(address);
  ahead.set(address, rollout);
  while (ahead.size > most) ahead.delete(ahead.keys().next().value);
}
"""

_COMPONENT = component("rollout_board_rollout_ahead", html="<i></i>", js=_SCRIPT)


def send_ahead(address: str, rollout: Mapping[str, Any], *, key: str) -> None:
    """Sends a rollout's data, as `board.components.reader.reader_data` makes it. Draws nothing."""
    _COMPONENT(key=key, data={**rollout, "address": address, "most": MOST_WAITING})
