"""The server as users start it: the same product by `rollout-board` and by `streamlit run`."""

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import written_logs
from starlette.datastructures import Headers

PROJECT = Path(__file__).parents[2]
START_SECONDS = 60.0
BOARD = ("-c", "import sys; from board.cli import main; sys.exit(main())", "{root}", "--no-browser")
STREAMLIT = ("-m", "streamlit", "run", str(PROJECT / "app.py"))


class Server:
    """A server that was started by a command of Python, with its port."""

    def __init__(self, command: tuple[str, ...], root: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        ours = command is BOARD
        port = ("--port" if ours else "--server.port", str(self.port))
        arguments = [part.replace("{root}", str(root)) for part in (*command, *port)]
        self.process = subprocess.Popen(
            [sys.executable, *arguments, *(() if ours else ("--", str(root)))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"},
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.get("/_stcore/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        self.process.kill()
        pytest.fail(self.process.communicate()[0])

    def get(self, path: str, host: str = "localhost") -> tuple[int, str]:
        """Status and Location of the answer to a request to that host."""
        status, headers = self.ask(path, host)
        return status, headers.get("Location", "")

    def ask(self, path: str, host: str = "localhost") -> tuple[int, Mapping[str, str]]:
        """Status and headers of the same."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path, headers={"Host": f"{host}:{self.port}"})
        answer = connection.getresponse()
        connection.close()
        return answer.status, answer.headers

    def shake_hands(self, host: str, origin: str | None) -> int:
        """Status of the answer to a page that asks for a web socket."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        asked = {"Host": host, "Connection": "Upgrade", "Upgrade": "websocket"}
        asked |= {"Origin": origin} if origin else {}
        asked |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
        connection.request(
            "GET", "/_stcore/stream", headers=asked | ({"Origin": origin} if origin else {})
        )
        status = connection.getresponse().status
        connection.close()
        return status

    def end(self, number: int) -> tuple[int, str]:
        """Exit code and output after a signal."""
        self.process.send_signal(number)
        output = self.process.communicate(timeout=30)[0]
        return self.process.returncode, output


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    written_logs.native_run(root / "run")
    return root


@pytest.fixture(scope="module", params=[BOARD, STREAMLIT], ids=["rollout-board", "streamlit"])
def server(request: pytest.FixtureRequest, root: Path) -> Iterator[Server]:
    server = Server(request.param, root)
    yield server
    server.end(signal.SIGTERM)


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/spike?run=a&of=k3_mean", "./step?run=a&of=k3_mean"),
        ("/groups?run=a&gid=g%201", "./step?run=a&gid=g+1&part=groups"),
        ("/health?run=a&old=1", "./findings?run=a&old=1&findings_part=health"),
        ("/health", "./findings?findings_part=health"),
        (
            "/failures?run=a&failures_by=env",
            "./findings?run=a&failures_by=env&findings_part=failures",
        ),
        ("/mismatch?run=a&step=3", "./step?run=a&step=3&step_part=mismatch"),
        ("/labels", "./rollouts?rollouts_view=labels"),
        ("/rollout?run=a&step=3", "./rollouts?run=a&step=3&index=0"),
        ("/rollout?index=5", "./rollouts?index=5"),
        ("/environments?run=a", "./?run=a&by=env"),
        ("/words?run=a&words=wait", "./rollouts?run=a&words=wait&view=words"),
        ("/overview", "./"),
    ],
)
def test_an_old_page_leads_to_its_new_place_with_its_query(server, path, location):
    assert server.get(path) == (307, location)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_requests_to_own_hosts_are_answered(server, host):
    assert server.get("/", host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "[::2]", ""])
@pytest.mark.parametrize("path", ["/", "/rollouts?run=a"])
def test_requests_to_other_hosts_are_refused(server, host, path):
    assert server.get(path, host)[0] == 400


@pytest.mark.parametrize("path", ["/", "/rollouts", "/_stcore/health", "/nothing"])
def test_pages_of_other_origins_cannot_frame_the_board(server, path):
    _, headers = server.ask(path)
    assert headers["Content-Security-Policy"] == "frame-ancestors 'self'"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:1", 101),
        ("https://127.0.0.1", 101),
        (None, 101),
        ("https://evil.example", 403),
        ("https://localhost.evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_web_sockets_are_for_pages_of_own_hosts(server, origin, status):
    assert server.shake_hands("localhost", origin) == status


@pytest.mark.parametrize(
    "origin", [None, "http://localhost:8501", "https://evil.example", "null", "http://203.0.113.7"]
)
def test_streamlit_is_never_asked_of_an_origin_which_it_would_look_up_on_the_internet(origin):
    from board.server import SameOrigin  # not in every process that collects this file

    seen, sent = [], []

    async def application(scope, receive, send):
        seen.append(Headers(scope=scope))

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost")] + ([(b"Origin", origin.encode())] if origin else [])
    scope = {"type": "websocket", "headers": headers}
    asyncio.run(SameOrigin(application)(scope, None, send))
    assert [one.get("origin") for one in seen] == ([] if sent else [None])
    assert len(seen) + len(sent) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_board_without_a_traceback(root, number):
    server = Server(BOARD, root)
    for _ in range(2):  # its address is said
        server.process.stdout.readline()
    code, output = server.end(number)
    assert code == 0
    assert output == ""
