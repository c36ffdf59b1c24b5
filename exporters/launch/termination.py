"""SIGTERM: what is queued is written before the process ends as it would have."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int | None


def _raise_in_main_thread() -> None:
    """Raises SIGTERM where handlers run. Sent to the process it may reach this thread, and what the main
    one sleeps or waits in goes on to its end.
    """
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def drain_on_sigterm(drain: Callable[[], None]) -> Callable[[], None]:
    """Has `drain` called on SIGTERM, before what was set up for it until now. Returns the undoing.

    `drain` runs on a thread of its own while the main one goes on: a handler that waited would wait
    for ever for a lock that the code it interrupted holds. Then the signal is raised again. A forked
    child skips `drain`. Raises ValueError outside the main thread, where Python takes no signal
    handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(
            "flush_on_sigterm: construct the exporter in the main thread, or leave it out"
        )
    process = os.getpid()
    previous: _Handler = signal.getsignal(signal.SIGTERM)
    begun, drained = threading.Event(), threading.Event()

    def drain_then_end() -> None:
        try:
            drain()
        finally:
            drained.set()
            _raise_in_main_thread()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() == process and not drained.is_set():
            if not begun.is_set():
                begun.set()
                threading.Thread(target=drain_then_end, name="rollout-exporter-drain").start()
        elif callable(previous):
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
