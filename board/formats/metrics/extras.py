"""Packages that only some sources need: one that is not installed is named, with how to install it."""

from __future__ import annotations

import importlib
from typing import Any


def extra_module(name: str, extra: str) -> Any:
    """A module of an extra. Raises OSError where the extra is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        command = f"pip install 'rollout-board[{extra}]'"
        raise OSError(0, f"it needs the extra {extra}: {command}") from error
