"""Answers requests that were sent to a name of this server, and refuses those sent to any other.

A page of a stranger can have its own name point at this machine; its requests then carry that name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_ANY: Final = "*"
_REFUSED: Final = b"This server answers under its own names only.\n"


class OwnNames:
    """An ASGI application before another: hands on what was sent to one of the names.

    names: without a port, IPv6 addresses without brackets; "*" for any. Web sockets are handed on as they
    are: Streamlit refuses those of other names and other origins by itself.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands a request on, or answers it with 403."""
        if scope["type"] != "http" or _ANY in self._names or _asked(scope) in self._names:
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(_REFUSED)),
        ]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": _REFUSED})


def _asked(scope: Scope) -> str:
    """The name that a request was sent to, without a port; empty where it names none."""
    sent = next((value for name, value in scope["headers"] if name.lower() == b"host"), b"")
    host = sent.decode("latin-1").strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
