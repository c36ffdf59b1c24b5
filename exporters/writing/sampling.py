"""Which rollouts of a step are kept where only some may be: whole groups, the same on every rank.

A step's groups are ordered by a hash of their id and kept from the smallest on while their rollouts
fit. More rollouts can only push groups out, never back in, so that one that was turned away need not
be remembered.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence

_STEPS_REMEMBERED = 8


class GroupSampler:
    """Keeps at most `limit` rollouts of each step, but never less than one whole group."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[int, Counter[str]] = {}
        self._lock = (
            threading.RLock()
        )  # the training thread admits, the writing one asks what stays

    def admit(self, step: int, groups: Sequence[str]) -> list[int]:
        """The rows of a batch that are kept as far as is known; `groups` has each row's group id."""
        with self._lock:
            self._sizes.setdefault(step, Counter()).update(groups)
            while len(self._sizes) > _STEPS_REMEMBERED:
                del self._sizes[min(self._sizes)]
        sampled = self.groups(step)
        return [row for row, group in enumerate(groups) if group in sampled]

    def groups(self, step: int) -> frozenset[str]:
        """The groups of a step that are kept by now."""
        with self._lock:
            sizes = Counter(self._sizes.get(step))
        sampled: set[str] = set()
        room = self._limit
        for group in sorted(sizes, key=_hash):
            room -= sizes[group]
            if room < 0 and sampled:
                break
            sampled.add(group)
        return frozenset(sampled)


def _hash(group: str) -> bytes:
    """Not Python's own hash: that differs from process to process."""
    return hashlib.blake2b(group.encode("utf-8", "replace"), digest_size=8).digest()
