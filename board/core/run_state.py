"""Whether a run is still written: what its log says, and else when its files changed last."""

from __future__ import annotations

from typing import Final, Literal

RunState = Literal["live", "ended", "stale", "unchanged"]
"""live: its log grows. ended: its log says so. stale: its log would say so, and stopped growing before it
did. unchanged: it stopped growing, and logs of its kind never say why.
"""
LIVE_SECONDS: Final = 60.0
LIVE_STEPS: Final = 3.0
"""A run that logs every ten minutes is no less live for it."""


def run_state(
    age_seconds: float, *, has_ended: bool | None, seconds_per_step: float | None
) -> RunState:
    """The state of a run. age_seconds: since the last change of its files. has_ended: None: not said."""
    if has_ended:
        return "ended"
    if age_seconds < max(LIVE_SECONDS, LIVE_STEPS * (seconds_per_step or 0.0)):
        return "live"
    return "unchanged" if has_ended is None else "stale"
