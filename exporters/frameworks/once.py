"""Several updates on one batch are several losses, but one record."""

from __future__ import annotations

from collections.abc import Collection


class OncePerStep:
    """Tells the first loss of a step on some rollouts from the later ones."""

    def __init__(self) -> None:
        self._step, self._seen = 0, set[str]()

    def is_first(self, step: int, rollout_ids: Collection[str]) -> bool:
        """Whether any of these was not there before within `step`."""
        if step != self._step:
            self._step, self._seen = step, set()
        is_new = not self._seen.issuperset(rollout_ids)
        self._seen.update(rollout_ids)
        return is_new
