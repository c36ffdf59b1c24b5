"""The dashboard without a browser: `open_app` starts it on a folder of logs and a URL."""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import page_elements
import pytest
import written_logs
from page_elements import OpenApp, assert_sound
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

DASHBOARD = Path(__file__).parents[2] / "board" / "views" / "dashboard.py"


@pytest.fixture(scope="session", autouse=True)
def packages_searched_once() -> Iterator[None]:
    """Each AppTest searches all installed packages for components, in half the time of a page."""
    once = cache(manifest_scanner.scan_component_manifests)
    with mock.patch.object(manifest_scanner, "scan_component_manifests", once):
        yield


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with three runs, newest first: native, rllb, texts."""
    root = tmp_path_factory.mktemp("logs")
    written_logs.native_run(root / "native")
    written_logs.age(written_logs.rllb_run(root / "rllb"), 60)
    written_logs.age(written_logs.texts_only_run(root / "texts"), 120)
    return root


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch) -> OpenApp:
    """`open_app(root, page, step="10")`: a fresh session on that page with that query in the URL.

    "rollout" is Rollouts with a rollout open: the first one where the query names none; "words" and the
    other parts are opened on their pages. No traceback reached the page.
    """
    # Transformers take seconds to load, and know no tokenizer of these logs either.
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))

    def start(logs: Path, page: str = "overview", /, **query: str) -> AppTest:
        monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(logs))
        app = AppTest.from_file(str(DASHBOARD), default_timeout=60)
        if page == "rollout":
            page, query = "rollouts", {"index": "0", **query}
        page, query = page_elements.with_part(page, query)
        for name, value in query.items():
            app.query_params[name] = value
        if page != "overview":
            app.switch_page(f"{page}/{page}.py")
        app.run()
        assert_sound(app)
        return app

    return start


@pytest.fixture
def open_rows(open_app: OpenApp, tmp_path: Path) -> OpenApp:
    """`open_rows("step", row, row, of="reward")`: that page on a folder whose only run has these rows."""

    def start(page: str, /, *rows: Mapping[str, Any], **query: str) -> AppTest:
        written_logs.write_lines(tmp_path / "run" / "a.jsonl", rows)
        return open_app(tmp_path, page, **query)

    return start
