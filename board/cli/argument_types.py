"""What the values of options are on the command line, and what is said of one that is not."""

from __future__ import annotations

import argparse

from board.core.metrics.reward_sum import RewardSum, reward_from_text


def count(text: str) -> int:
    """A whole number, 0 or more."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("expected 0 or more")
    return number


def positive(text: str) -> int:
    """A whole number, 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected 1 or more")
    return number


def reward(text: str) -> RewardSum:
    """Parts of the reward with weights."""
    try:
        reward = reward_from_text(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if reward is None:
        raise argparse.ArgumentTypeError("expected a part of the reward")
    return reward


def share(text: str) -> float:
    """A share, above 0."""
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError("expected a number above 0, and 1 at most")
    return number


def megabytes(text: str) -> float:
    """The size of a page."""
    number = float(text)
    if not 0.5 <= number <= 1000:
        raise argparse.ArgumentTypeError("expected 0.5 to 1000")
    return number


def seconds(text: str) -> float:
    """A time, above 0."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("expected a number above 0")
    return number
