"""What holds for every test: its worker, the main module as it was found, no timed examples."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from board.query import open_run

# How long an example takes is the machine's affair; figures are taken in benchmarks/. Each run has other
# examples: the number is what fits into the time of a run. `--hypothesis-profile repeatable` draws the
# same in each run, so that a change is refused for what it did.
settings.register_profile("untimed", deadline=None, max_examples=30)
settings.register_profile("repeatable", settings.get_profile("untimed"), derandomize=True)
settings.load_profile("untimed")

# Workers and the many programs that tests start import the same modules. They are compiled once, whatever
# the environment says: else each program takes three times as long to begin.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Torch trains models of a few numbers in a third of the time where no thread of it waits for others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# An index that a slow machine kept of a bundled run would hide what the code reads by now.
open_run.SLOW_SECONDS = float("inf")

_TOGETHER = {
    "tests/browser/": "browser",
    "tests/unit/exporters/": "exporters",
    "tests/formats/test_diagnosed.py": "real runs",
    "tests/unit/analysis/test_rollout_tokens.py": "real runs",
    "tests/unit/query/test_user_sql.py": "real runs",
    "tests/unit/query/test_whole_texts.py": "real runs",
    "tests/faults/test_honest_answers.py": "real runs",
    "tests/unit/formats/test_failures.py": "real runs",
}
"""What one worker does: it starts the browser and its servers, loads TRL, or reads all real runs once."""
_LONGEST = (
    *_TOGETHER,
    "tests/reliability/test_ended_processes.py",
    "tests/unit/index/test_following.py",
    "tests/unit/index/test_killed.py",
    "tests/unit/index/test_ray_engine.py",
    "tests/unit/test_cli.py",
)
"""What takes long begins early, so that no worker is alone with it in the end."""


class _Scheduling(LoadFileScheduling):
    """A file at a time to each worker, or files whose tests share what takes long to make."""

    def _split_scope(self, nodeid: str) -> str:
        shared = (scope for path, scope in _TOGETHER.items() if nodeid.startswith(path))
        return next(shared, super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling:
    return _Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))


def _sendable(text: object) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """What tests print and log of halves of characters can be sent to whoever gathers the reports."""
    outcome: Any = yield
    report = outcome.get_result()
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    if report.failed:
        report.longrepr = _sendable(report.longrepr)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests keep in the user's cache goes with them; bundled runs are indexed there once for all
    workers, as for all processes of a user.
    """
    own = tmp_path_factory.getbasetemp()
    session = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROLLOUT_BOARD_CACHE", str(session / "cache"))
        yield


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """AppTest puts its script in place of the main module, which processes spawned later would run."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main
