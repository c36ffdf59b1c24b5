"""What slime and those that grew out of it (miles, Relax) call a sample: the parts that they share.

reward is a number, or what a reward function returned by name; without the run's `--reward-key` it is not
known which of several is the one that was trained on. status is completed, truncated, aborted or failed.
"""

from __future__ import annotations

from typing import Any, Final, cast

from board.readers.fields import RecordBuilder

_TOTALS: Final = ("score", "reward")


def take_reward(builder: RecordBuilder, reward: Any) -> None:
    """Takes a number as the reward, a mapping as named rewards; its score or reward is the total."""
    if not isinstance(reward, dict):
        builder.take("reward", reward)
        return
    named = cast("dict[str, Any]", reward)
    total = next((named[key] for key in _TOTALS if named.get(key) is not None), None)
    numbers = {k: v for k, v in named.items() if isinstance(v, int | float) and k not in _TOTALS}
    builder.take_rewards(numbers, total)
    if others := {k: v for k, v in named.items() if k not in numbers and k not in _TOTALS}:
        builder.take("reward_payload", others)


def take_status(builder: RecordBuilder, status: Any) -> None:
    """Takes a status; truncated says that the limit ended the response, completed that it did not."""
    builder.take("status", status)
    if status in ("completed", "truncated"):
        builder.scores["is_truncated"] = float(status == "truncated")
