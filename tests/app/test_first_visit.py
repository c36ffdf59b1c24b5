from __future__ import annotations

import ast
import gc
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import written_logs
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.datastructures import Headers
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from board.views import _cached, _first_visit

PROJECT = Path(__file__).parents[2]


class Server:
    """Stands in for Streamlit's: keeps how it was asked, and sends what it is given."""

    def __init__(self, *sent: ForwardMsg) -> None:
        self.asked: list[BackMsg] = []
        self.headers = Headers()
        self._sent = sent
        self._server = serve(self._answer, "127.0.0.1", 0, subprotocols=[Subprotocol("streamlit")])
        self.port: int = self._server.socket.getsockname()[1]

    def _answer(self, visitor: ServerConnection) -> None:
        assert visitor.request is not None
        self.headers = visitor.request.headers
        asked = visitor.recv()
        assert isinstance(asked, bytes)
        self.asked.append(BackMsg.FromString(asked))
        for message in self._sent:
            visitor.send(message.SerializeToString())

    def __enter__(self) -> Server:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()


def finished() -> ForwardMsg:
    message = ForwardMsg()
    message.script_finished = ForwardMsg.FINISHED_SUCCESSFULLY
    return message


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    written_logs.native_run(tmp_path / "run")
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(tmp_path))
    return tmp_path


def test_the_server_asks_itself_for_the_page_that_it_shows_first() -> None:
    begun = ForwardMsg()
    begun.session_status_changed.run_on_save = False
    with Server(begun, finished()) as server:
        assert _first_visit.visit("127.0.0.1", server.port)
    assert [asked.rerun_script.query_string for asked in server.asked] == [""]
    assert server.headers["Host"] == f"127.0.0.1:{server.port}"
    assert "Cookie" not in server.headers
    assert "Origin" not in server.headers


def test_the_next_newest_runs_are_asked_for_too_where_nobody_waits(root: Path) -> None:
    for place in range(1, 6):
        written_logs.age(written_logs.rllb_run(root / f"run & {place}"), 60 * place)
    with Server(finished()) as server:
        assert _first_visit.visit("127.0.0.1", server.port, others=True)
    asked = [asked.rerun_script.query_string for asked in server.asked]
    assert asked == ["", "run=run+%26+1", "run=run+%26+2", "run=run+%26+3"]


def test_what_goes_wrong_with_the_own_visit_keeps_nobody_waiting() -> None:
    with Server() as server:  # ends before its page is there
        assert not _first_visit.visit("127.0.0.1", server.port)
    assert not _first_visit.visit("127.0.0.1", server.port)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not _first_visit.visit("127.0.0.1", silent.getsockname()[1], seconds=0.05)


def test_a_run_that_takes_long_to_read_waits_for_its_visitor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_cached, "_SHOW_PROGRESS_BYTES", 0)
    with Server(finished()) as server:
        assert not _first_visit.visit("127.0.0.1", server.port)
    assert not server.asked


def test_a_folder_that_can_not_be_shown_is_left_to_the_page(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(root / "gone"))
    with Server(finished()) as server:
        assert _first_visit.visit("127.0.0.1", server.port)


def test_what_is_loaded_is_not_searched_for_garbage_after_every_page() -> None:
    loaded = len(gc.get_objects())
    _first_visit.set_apart()
    try:
        assert len(gc.get_objects()) < loaded / 10
    finally:
        gc.unfreeze()


def test_a_first_page_finds_all_code_of_the_board_loaded() -> None:
    scripts = (PROJECT / "app.py", PROJECT / "board" / "views" / "overview.py")
    wanted: set[str] = set()
    for script in scripts:
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("board"):
                nested = {f"{node.module}.{name.name}" for name in node.names}
                is_views = node.module == "board.views"
                wanted |= nested if is_views else {str(node.module)}
    code = (
        "import sys\nfrom board.views import _first_visit\n_first_visit.load()\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert wanted - set(done.stdout.split()) == set()
