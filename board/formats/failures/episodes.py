"""Of which cause a trace of an episode failed: by its errors, of verifiers and of prime-rl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.formats.failures import Verdict, error_text, failure_of
from board.formats.parse import object_at, objects_in

_Object = Mapping[str, Any]
_ERRORS: Final[Mapping[str, Verdict]] = {
    **dict.fromkeys(
        ("InterceptionError", "TunnelError", "EmptyTrajectory", "EmptyEpisode"), "server"
    ),
    "SandboxError": "sandbox",
    "ToolsetError": "tool_error",
    "OverlongPromptError": "truncated",
    "EpisodeFailed": "aborted",  # another trace of its episode failed
}
"""By types of errors, of verifiers and of prime-rl."""
_TRANSIENT: Final = frozenset({408, 429})
"""Statuses of a model's provider, besides those of 500 and more, for which a request is not to blame."""


def failure_of_trace(episode: _Object, trace: _Object) -> str | None:
    """By the last error of a trace, else of its episode, else a stop by an error."""
    errors = objects_in(trace.get("errors")) or objects_in(episode.get("errors"))
    if not errors:
        stop = trace.get("stop_condition")
        return failure_of(UNDECIDED, {"stop_condition": stop}) if stop == "error" else None
    error, status = errors[-1], errors[-1].get("status_code")
    said = {"error": error_text({key: error.get(key) for key in ("type", "message")})}
    code = status if isinstance(status, int) else None
    return failure_of(_verdict(error, code, trace), {**said, "status_code": code})


def _verdict(error: _Object, status: int | None, trace: _Object) -> Verdict:
    kind, message = error.get("type"), str(error.get("message", ""))
    if kind == "ProviderError":
        return "server" if status is None or status in _TRANSIENT or status >= 500 else "unknown"
    if kind == "TaskError" and not object_at(trace, "rewards"):
        # of the task's setup, or of what scores
        return "judge" if objects_in(trace.get("calls")) else "sandbox"
    if kind == "HarnessError" and "timed out" in message:
        return "timeout"
    return _ERRORS.get(kind, UNDECIDED) if isinstance(kind, str) else UNDECIDED
