"""Calls that torch.compile leaves alone, without torch being imported from here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

Call = TypeVar("Call", bound=Callable[..., object])


def run_uncompiled(call: Call) -> Call:
    """Return `call` as one break in a compiled graph, behind which nothing is compiled.

    Without that torch compiles each function that the call leads to, for many seconds. Where torch is not
    imported, `call` itself.
    """
    torch = sys.modules.get("torch")
    return call if torch is None else torch.compiler.disable(call)
