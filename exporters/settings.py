"""The arguments of an exporter, checked before anything is opened."""

from __future__ import annotations

import importlib.util
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from exporters.writing.store import Store

SECONDS_TO_CLOSE = 30.0
"""How long `flush` and `close` wait where nothing else is said."""
_CHOICES = {
    "logprobs_mode": ("processed", "raw"),
    "mode": ("thread", "sync"),
    "on_full": ("block", "drop"),
    "compress": (None, "zstd"),
    "fsync": (None, "step"),
    "dialect": ("native", "rllb"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The arguments of `RolloutExporter`, whose docstring explains each."""

    folder: Path  # where files are written; of a store, until they are uploaded
    store: Store | None
    rank: int
    world_size: int
    attempt: str
    start_step: int | None
    temperature: float | None
    logprobs_mode: str
    engine: str | None
    digits: int
    every_n_steps: int
    max_samples_per_step: int | None
    mode: str
    queue_bytes: int
    max_inflight_steps: int
    on_full: str
    full_timeout: float
    rotate_bytes: int
    compress: str | None
    fsync: str | None
    dialect: str

    @property
    def target(self) -> str:
        """Where the files go to in the end: a folder, or the address of one in a store."""
        return str(self.folder.resolve()) if self.store is None else self.store.url

    def check(self) -> None:
        """Raises ValueError for the first setting that cannot work, ImportError for a missing part."""
        for name, is_good, expected in self._rules():
            if not is_good:
                given = getattr(self, name)
                raise ValueError(f"{name}: expected {expected}, found {given!r}")
        if self.compress and importlib.util.find_spec("zstandard") is None:
            raise ImportError(
                "compress='zstd' needs the package zstandard: pip install 'rollout-board[zstd]', or "
                "leave compress out"
            )

    def header(self, started: float) -> dict[str, object]:
        """What the header line and the run's document both say."""
        return {
            "attempt": self.attempt,
            "started": started,
            "start_step": self.start_step,
            "world_size": self.world_size,
            "digits": self.digits,
            "temperature": self.temperature,
            "logprobs_mode": self.logprobs_mode,
            "engine": self.engine,
            "max_samples_per_step": self.max_samples_per_step,
            "every_n_steps": self.every_n_steps,
        }

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        for name, least, most in (
            ("world_size", 1, None),
            ("rank", 0, self.world_size - 1 if _is_whole(self.world_size) else None),
            ("digits", 1, 9),
            ("every_n_steps", 1, None),
            ("queue_bytes", 1, None),
            ("max_inflight_steps", 1, None),
            ("rotate_bytes", 1 << 16, None),
        ):
            value = getattr(self, name)
            is_good = _is_whole(value) and value >= least and (most is None or value <= most)
            limit = f"at least {least}" if most is None else f"{least} to {most}"
            yield name, is_good, f"a whole number, {limit}"
        for name in ("start_step", "max_samples_per_step"):
            value, least = getattr(self, name), 1 if name == "max_samples_per_step" else 0
            is_good = value is None or (_is_whole(value) and value >= least)
            yield name, is_good, f"None or a whole number, at least {least}"
        heat = self.temperature
        is_good = heat is None or (_is_number(heat) and heat > 0)
        yield "temperature", is_good, "None (not recorded) or more than 0"
        timeout = self.full_timeout
        yield "full_timeout", _is_number(timeout) and timeout >= 0, "0 s or more"
        for name, choices in _CHOICES.items():
            expected = " or ".join(map(str, choices))
            yield name, getattr(self, name) in choices, expected


TAKEN_AS_GIVEN = tuple(
    field.name
    for field in fields(Settings)
    if field.name not in ("folder", "store", "rank", "world_size", "attempt")
)
"""The settings that are arguments of `RolloutExporter` as they are."""


def whole_number(name: str, value: Any) -> int:
    """`value` as an int; of an array or a tensor its one number. Raises ValueError for 2.7 or None."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, int | float) and abs(number) < 1 << 63 and int(number) == number:
        return int(number)
    raise ValueError(f"{name}: expected a whole number, found {value!r}")


def seconds(timeout: Any) -> float:
    """`timeout` as what a lock waits for; None: as long as it takes. What is no number is the default."""
    if timeout is None:
        return threading.TIMEOUT_MAX
    try:
        number = float(timeout)
    except Exception:
        number = math.nan
    return SECONDS_TO_CLOSE if math.isnan(number) else min(max(0.0, number), threading.TIMEOUT_MAX)


def is_strict(strict: bool | None) -> bool:
    """`strict`, or what the environment says of it."""
    return os.environ.get("ROLLOUT_EXPORT_STRICT") == "1" if strict is None else strict


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def place_of_launch(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Both, or the launcher's RANK and WORLD_SIZE, or 0 and 1. Raises ValueError where these are no
    numbers.
    """
    return (
        _from_launcher("RANK", 0) if rank is None else rank,
        _from_launcher("WORLD_SIZE", 1) if world_size is None else world_size,
    )


def _from_launcher(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    try:
        return int(text)
    except ValueError:
        name = variable.lower()
        raise ValueError(
            f"{name}: the environment's {variable} is {text!r}, expected a whole number; set it or "
            f"pass {name}=..."
        ) from None
