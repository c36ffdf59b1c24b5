"""The dashboard on a root in an object store; fsspec's own store in memory stands for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import written_logs
from page_elements import assert_sound, go_to, table

ROOT = "memory://app-remote"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    written_logs.native_run(tmp_path / "run")
    store = fsspec.filesystem("memory")
    for path in (tmp_path / "run").iterdir():
        store.pipe_file(f"/app-remote/deep/run/{path.name}", path.read_bytes())
    yield store
    store.rm("/app-remote", recursive=True)


def test_every_page_shows_a_run_in_a_store(open_app, memory):
    app = open_app(ROOT, "rollouts", step="20")
    assert len(table(app)) == 8
    for page in ("overview", "rollout", "findings"):
        go_to(app, page)
        assert_sound(app)
        assert not app.error


WITH_CREDENTIALS = "memory://u:secret@app-remote"


@pytest.mark.parametrize("wanted", ["/etc", "memory://other", WITH_CREDENTIALS])
def test_the_path_box_stays_in_the_store_and_repeats_no_credentials(open_app, memory, wanted):
    app = open_app(ROOT)
    assert not app.error
    app.text_input(key="root").set_value(wanted).run()
    assert_sound(app)
    (error,) = app.error
    assert ("credentials" in error.value) == (wanted == WITH_CREDENTIALS)
    assert "secret" not in error.value


def test_a_store_that_is_gone_is_said_on_the_page(open_app, memory):
    app = open_app(f"{ROOT}/nothing")
    assert_sound(app)
    assert "holds no object" in app.error[0].value
