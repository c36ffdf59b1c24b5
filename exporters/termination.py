"""SIGTERM: what is queued is written before the process ends as it would have."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int | None


def drain_on_sigterm(drain: Callable[[], None]) -> Callable[[], None]:
    """Has `drain` called on SIGTERM, before what was set up for it until now. Returns the undoing.

    A forked child skips `drain`. Raises ValueError outside the main thread, where Python takes no
    signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(
            "flush_on_sigterm: construct the exporter in the main thread, or leave it out"
        )
    process = os.getpid()
    previous: _Handler = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() == process:
            drain()
        if callable(previous):
            previous(number, frame)
        elif previous != signal.SIG_IGN:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def undo() -> None:
        is_ours = signal.getsignal(signal.SIGTERM) is handle
        if is_ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)

    signal.signal(signal.SIGTERM, handle)
    return undo
