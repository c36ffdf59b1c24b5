"""Requests are answered under the server's own names alone."""

from __future__ import annotations

from typing import Any

import own_loop
import pytest

from board.cli.own_names import OwnNames
from board.cli.serve import allowed_hosts

OWN = allowed_hosts("127.0.0.1")


def status(names: list[str], host: bytes | None, kind: str = "http") -> int:
    """Of the answer to a request that was sent to this host; 200 where it was handed on."""
    found: list[int] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        found.append(200)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    async def receive() -> Any:
        return {"type": "http.request"}

    headers = [] if host is None else [(b"host", host)]
    own_loop.run(OwnNames(behind, names)({"type": kind, "headers": headers}, receive, send))
    (one,) = found
    return one


@pytest.mark.parametrize("host", [b"localhost:8501", b"127.0.0.1", b"[::1]:8501", b"LOCALHOST"])
def test_requests_to_own_names_are_handed_on(host):
    assert status(OWN, host) == 200


@pytest.mark.parametrize(
    "host", [b"evil.example", b"evil.example:8501", b"localhost.evil.example", b"[::2]", b"", None]
)
def test_requests_to_other_names_are_refused(host):
    assert status(OWN, host) == 403


def test_a_server_on_all_addresses_answers_under_any_name():
    assert status(allowed_hosts("0.0.0.0"), b"board.example") == 200


def test_web_sockets_are_left_to_streamlit():
    assert status(OWN, b"evil.example", kind="websocket") == 200
