"""Presses a button for the reader once, as where a file that was asked for has been made."""

from __future__ import annotations

from collections.abc import Callable

from board.components import declare

_PRESS_ONCE = declare(__file__, "press_once", "<i></i>", css=())


def press_once(button: str, reason: str, *, key: str, on_press: Callable[[], None]) -> None:
    """Draws nothing. button: its key; reason: why it is pressed, once in a window of the browser.
    on_press: called before the run that comes when it was.
    """
    data = {"button": button, "reason": reason}
    _PRESS_ONCE(key=key, data=data, height="content", on_pressed_change=on_press)
