"""The causes of a rollout that failed or got no reward, and how a log's record of one is stored.

A reader maps what its format records (an error, a status, a stop reason) to one of CAUSES with
`recorded`. Where the record does not say which, it writes `undecided`, and the patterns of causes.toml
decide, else the cause is "unknown". A normal end of a rollout is no failure: a reader records nothing
then.
"""

from __future__ import annotations

from typing import Final, Literal

Cause = Literal[
    "policy",
    "truncated",
    "tool_error",
    "sandbox",
    "judge",
    "server",
    "timeout",
    "aborted",
    "unscored",
    "unknown",
]
CAUSES: Final[dict[Cause, str]] = {
    "policy": "the model's own: a wrong answer, a bad tool call, a refusal",
    "truncated": "a budget ran out: tokens, turns, context, cost",
    "tool_error": "a tool or its service failed",
    "sandbox": "the sandbox or environment failed, or did not start",
    "judge": "the verifier, judge or reward function failed",
    "server": "the model's server failed, or the model was never called",
    "timeout": "the rollout's own wall clock ran out",
    "aborted": "stopped from outside: a weight update, enough rollouts, a user",
    "unscored": "it ended, and has no reward",
    "unknown": "something failed, and the log does not say what",
}
"""By cause what it means."""
CauseClass = Literal["infrastructure", "unclear", "policy", "limit"]
CLASSES: Final[dict[CauseClass, tuple[Cause, ...]]] = {
    "infrastructure": ("tool_error", "sandbox", "judge", "server"),
    "unclear": ("unknown", "unscored", "aborted"),
    "policy": ("policy",),
    "limit": ("truncated", "timeout"),
}
"""By class its causes. infrastructure: what the policy can't cause. unclear: recorded as failed, and not
by whose fault. limit: a budget of tokens, turns or time ran out.
"""
PLUMBING: Final = CLASSES["infrastructure"]
NOT_EARNED: Final = CLASSES["infrastructure"] + CLASSES["unclear"]
"""Failures whose rewards the policy did not earn, as far as the log says."""
Basis = Literal["recorded", "structural", "lexical", "confirmed"]
BASES: Final[dict[Basis, str]] = {
    "recorded": "a field of the log says that the rollout failed",
    "structural": "no words were needed: nothing was generated, the same call is answered in other "
    "rollouts, or many prompts suddenly end alike",
    "lexical": "only the words of a tool, a judge or an error say so: read one before you rely on it",
    "confirmed": "somebody who looked said so",
}
"""By how a cause was told, the surest of the first three first, what that means."""
UNDECIDED: Final = "?"
FLAGGED: Final = "~"
NOTED: Final = "!"
"""In the place of a cause: patterns decide, else it is "unknown"; the log says that the reward is none,
and not why; only a pattern can make it a failure.
"""
_SEPARATOR: Final = ": "
MOST_CHARACTERS: Final = 300


def recorded(cause: str, evidence: str) -> str:
    """What a reader puts into `Record.texts["failure"]`: a cause, or one of the signs above, and the key
    and value that say so, such as "error=SandboxError: no route".
    """
    return f"{cause}{_SEPARATOR}{evidence}"[:MOST_CHARACTERS]


def undecided(evidence: str, likely: Cause | None = None) -> str:
    """The same where the format does not say which cause it is, such as the text of an exception.

    likely: whose record it is, so that it is of that cause where no pattern calls it the policy's or a
    limit.
    """
    return recorded(UNDECIDED + (likely or ""), evidence)
