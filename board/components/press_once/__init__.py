"""Presses a button for the reader once, as where a file that was asked for has been made."""

from __future__ import annotations

from board.components import declare

_PRESS_ONCE = declare(__file__, "press_once", "<i></i>", css=())


def press_once(button: str, reason: str, *, key: str) -> None:
    """Draws nothing. button: its key; reason: why it is pressed, once in a window of the browser."""
    _PRESS_ONCE(key=key, data={"button": button, "reason": reason}, height="content")
