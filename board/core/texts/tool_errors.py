"""Which results of tools are errors, by what the message records and by how the text reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

RULE: Final = (
    "A result is an error where the message says so (is_error, error, a status that is no success, an "
    "exit code other than 0), where the text begins with an exception's name or “Error:”, has a line "
    "“Traceback (most recent call last):”, is a Python dict with an 'error' first, or says an exit code "
    "other than 0 in its first or last lines."
)
TOOL_ROLES: Final = frozenset(("tool", "function", "ipython"))
_BAD_STATUS: Final = frozenset(
    ("error", "failed", "failure", "timeout", "timed_out", "cancelled", "exception")
)
_CODES: Final = ("exit_code", "exitcode", "returncode", "return_code", "exit_status")
_TRACEBACK: Final = re.compile(r"^\s*Traceback \(most recent call last\):", re.MULTILINE)
_NAMED: Final = re.compile(
    r"\s*((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)|[Ee]rror|ERROR)\b ?:"
)
_EXIT: Final = re.compile(
    r"\b(?:exit(?:ed with)?|return)[ _]?(?:code|status)\W{1,3}([1-9]\d{0,4})\b", re.IGNORECASE
)
_AS_PYTHON: Final = "{'error': "
"""What TRL makes of an exception: a dict as Python writes it, which is no JSON."""
_EDGE: Final = 400
"""Characters at each end of a result in which an exit code is looked for."""


def error_in(message: Mapping[str, Any], text: str) -> str:
    """Why a tool's result is an error, in a few words; empty where it is none. The rule is RULE."""
    return _recorded(message) or _recorded(_object(text)) or _written(text)


def error_within(text: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """Why one of the results that a tool's stretch of a response holds is an error, as error_in.

    messages: of the rollout. Where none of their results is found in the text, the text is one result.
    """
    result = [
        (message, content)
        for message in messages
        if message.get("role") in TOOL_ROLES
        and isinstance(content := message.get("content"), str)
        and (words := content.strip())
        and words in text
    ]
    errors = (error_in(message, content) for message, content in result or [({}, text)])
    return next(filter(None, errors), "")


def _recorded(fields: Mapping[str, Any]) -> str:
    if fields.get("is_error") is True or fields.get("isError") is True:
        return "error"
    for key in _CODES:
        code = fields.get(key)
        if isinstance(code, int) and not isinstance(code, bool) and code != 0:
            return f"exit code {code}"
    status = fields.get("status")
    if isinstance(status, str) and status.lower() in _BAD_STATUS:
        return status.lower().replace("_", " ")
    return "error" if fields.get("error") else ""


def _object(text: str) -> Mapping[str, Any]:
    """The JSON object that the result is; empty where it is none."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", parsed) if isinstance(parsed, dict) else {}


def _written(text: str) -> str:
    if text.startswith(_AS_PYTHON):
        return "error"
    code = _EXIT.search(text[:_EDGE]) or _EXIT.search(text[-_EDGE:])
    if code:
        return f"exit code {code[1]}"
    if _TRACEBACK.search(text):
        return "traceback"
    named = _NAMED.match(text)
    return "error" if named else ""
