"""What a run was asked before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

_MOST_STEPS: Final = 16
T = TypeVar("T")


@dataclass(slots=True)
class RunCache:
    """Answers about a run; of single steps the last few. rows: of single rollouts, by step and index."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    of_step: dict[tuple[str, int], Any] = field(default_factory=dict[tuple[str, int], Any])
    rows: dict[tuple[int, int], Mapping[str, Any]] = field(
        default_factory=dict[tuple[int, int], Mapping[str, Any]]
    )

    def remembered(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` gives, computed once."""
        answers = self.answers
        if name not in answers:  # who asks for what is known waits for no question of others
            with self.lock:
                if name not in answers:
                    answers[name] = make()
        return answers[name]

    def remembered_of_step(self, what: str, step: int, make: Callable[[], T]) -> T:
        """Return the same about one step."""
        with self.lock:
            if (what, step) not in self.of_step:
                self.of_step[what, step] = make()
                if len(self.of_step) > _MOST_STEPS:
                    del self.of_step[next(iter(self.of_step))]
            return self.of_step[what, step]
