"""What holds for every test: the main module is left as it was found."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """AppTest puts its script in place of the main module, which processes spawned later would run."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main
