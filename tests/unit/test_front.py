"""What stands before Streamlit's server: files of a first page, named in its document, kept in memory."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

import own_loop
import pytest
from streamlit import file_util

from board.cli.front import Front
from board.cli.server import listening

STATIC = Path(file_util.get_static_dir())
DOCUMENT = b"<html><head><title>t</title></head><body></head></body></html>"


class Answer:
    """What an application answered: its status, its headers and its content."""

    def __init__(self) -> None:
        self.status, self.headers, self.content = 0, dict[bytes, bytes](), b""

    async def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.content += message.get("body", b"")


class Behind:
    """An application that answers everything with one content, in parts, and notes what it was asked."""

    def __init__(self, kind: bytes = b"text/html; charset=utf-8", status: int = 200) -> None:
        self.kind, self.status, self.asked = kind, status, list[Any]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope)
        headers = [(b"content-type", self.kind), (b"content-length", b"%d" % len(DOCUMENT))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": DOCUMENT[:20], "more_body": True})
        await send({"type": "http.response.body", "body": DOCUMENT[20:]})


def asked(
    front: Front, path: str, method: str = "GET", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    answer = Answer()
    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}

    async def receive() -> Any:
        return {"type": "http.request"}

    own_loop.run(front(scope, receive, answer.take))
    return answer


@pytest.fixture(scope="module")
def front() -> Front:
    return Front(Behind())


def test_a_document_names_the_scripts_of_its_elements_and_all_they_import(front: Front) -> None:
    answer = asked(front, "/rollouts")
    assert int(answer.headers[b"content-length"]) == len(answer.content)
    assert answer.content.count(b"</head>") == 2
    head = answer.content.split(b"</head>")[0].decode()
    named = re.findall(r'href="\./(static/[^"]+)"', head)
    kinds = {Path(name).name.split(".")[0] for name in named}
    assert {"BidiComponent", "Metric", "PageLink", "MaterialSymbols-Rounded"} <= kinds
    shell = (STATIC / "index.html").read_text(encoding="utf-8")
    for name in (name for name in named if name.endswith(".js")):
        text = (STATIC / name).read_text(encoding="utf-8")
        for other in re.findall(r"""(?:from|import)["`]\./([\w.-]+\.js)["`]""", text):
            assert f"static/js/{other}" in named or other in shell, f"{name} imports {other}"


def test_named_files_are_sent_as_they_are_and_kept_by_browsers(front: Front) -> None:
    for path in front._files:
        answer = asked(front, path)
        assert answer.status == 200
        assert answer.content == (STATIC / path[1:]).read_bytes()
        assert b"immutable" in answer.headers[b"cache-control"]
    kinds = {
        Path(path).suffix: asked(front, path).headers[b"content-type"] for path in front._files
    }
    assert kinds[".js"].startswith(b"text/javascript")
    assert kinds[".css"].startswith(b"text/css")
    assert kinds[".woff2"] == b"font/woff2"


@pytest.mark.parametrize(
    ("path", "method", "headers"),
    [
        ("/", "POST", ()),
        ("/static/js/../../index.html", "GET", ()),
        ("/static/js/index.js", "GET", ()),
        ("/_stcore/health", "GET", ()),
        ("/favicon.png", "GET", ()),
    ],
)
def test_everything_else_is_streamlits_own_answer(
    path: str, method: str, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    behind = Behind()
    assert asked(Front(behind), path, method, headers).content == DOCUMENT
    assert len(behind.asked) == 1


def test_a_part_of_a_file_and_what_is_no_document_are_streamlits_own_answers(front: Front) -> None:
    script = next(path for path in front._files if path.endswith(".js"))
    assert asked(front, script, headers=((b"range", b"bytes=0-1"),)).content == DOCUMENT
    assert asked(Front(Behind(b"application/json")), "/rollouts").content == DOCUMENT
    assert asked(Front(Behind(status=404)), "/rollouts").content == DOCUMENT


def test_a_document_is_asked_for_whole_and_unpacked() -> None:
    behind = Behind()
    sent = ((b"accept-encoding", b"gzip"), (b"if-none-match", b'"x"'), (b"host", b"localhost"))
    asked(Front(behind), "/", headers=sent)
    assert behind.asked[0]["headers"] == [(b"host", b"localhost")]


def test_files_that_another_version_of_streamlit_lacks_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "static" / "js").mkdir(parents=True)
    (tmp_path / "static" / "js" / "Metric.1.js").write_text('import{a}from"./gone.2.js";a()')
    front = Front(Behind(), tmp_path)
    answer = asked(front, "/")
    assert answer.content.count(b"modulepreload") == 1
    assert b"./static/js/Metric.1.js" in answer.content
    assert list(front._files) == ["/static/js/Metric.1.js"]
    nothing = asked(Front(Behind(), tmp_path / "empty"), "/").content
    assert b"<link" not in nothing


def test_placeholders_do_not_move(front: Front) -> None:
    assert b'[data-testid="stSkeleton"]' in asked(front, "/").content.split(b"</head>")[0]


def test_what_the_server_sends_does_not_wait_for_the_browser_to_confirm_what_came_before() -> None:
    async def accepted() -> int:
        waits = asyncio.get_running_loop().create_future()

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held = writer.get_extra_info("socket")
            waits.set_result(held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listening("127.0.0.1", 0) as listener:
            server = await asyncio.start_server(connected, sock=listener)
            _, writer = await asyncio.open_connection(*listener.getsockname())
            found = await waits
            writer.close()
            server.close()
            await server.wait_closed()
        return found

    assert own_loop.run(accepted()) != 0


def test_a_document_asks_for_its_server_beside_itself(front: Front) -> None:
    head = asked(front, "/rollouts").content.split(b"</head>")[0]
    assert b'BACKEND_BASE_URL: new URL("./", location.href).href' in head
