"""What holds for every test: the main module is left as it was found, and no example is timed."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair; figures are taken in benchmarks/.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """AppTest puts its script in place of the main module, which processes spawned later would run."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main
