"""The server: the dashboard, its old addresses, and requests refused that name another host."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit import file_util

from board.views.shared.pages import PAGES

_PAGES_MOVED = {
    "overview": ("", {}),
    "spike": ("step", {}),
    "groups": ("step", {"part": "groups"}),
    "health": ("findings", {"findings_part": "health"}),
    "failures": ("findings", {"findings_part": "failures"}),
    "mismatch": ("step", {"step_part": "mismatch"}),
    "labels": ("rollouts", {"rollouts_view": "labels"}),
    "rollout": ("rollouts", {"index": "0"}),
    "environments": ("", {"by": "env"}),
    "words": ("rollouts", {"view": "words"}),
}
"""Pages that were merged into others -> where they are now, and what the query says in addition."""
_INDEX = Path(file_util.get_static_dir()) / "index.html"
_HISTORY = Path(__file__).parent / "components" / "history.js"


def redirect(request: Request) -> RedirectResponse:
    """Leads a link to an old page to its new place, with its query."""
    page, more = _PAGES_MOVED[request.url.path.rpartition("/")[2]]
    query = request.query_params
    target = request.url.include_query_params(**{k: v for k, v in more.items() if k not in query})
    # Relative: the board may be served below a path by a proxy.
    return RedirectResponse(f"./{page}?{target.query}" if target.query else f"./{page}")


def page(request: Request) -> HTMLResponse:
    """Streamlit's file of all pages, with the script that keeps the browser's history first."""
    return _page(_HISTORY.read_text(encoding="utf-8"))


def page_below_root(request: Request) -> HTMLResponse:
    """The same, which is told where its server is: one segment above the page.

    Otherwise it looks below the page's address first, where it is answered that nothing is there.
    """
    script = "window.__streamlit={BACKEND_BASE_URL:new URL('./',location.href).href};"
    return _page(script + _HISTORY.read_text(encoding="utf-8"))


def _page(script: str) -> HTMLResponse:
    html = _INDEX.read_text(encoding="utf-8")
    html = html.replace("<head>", f"<head><script>{script}</script>", 1)
    return HTMLResponse(html, headers={"Cache-Control": "no-cache"})


def trusted_hosts(application: ASGIApp) -> TrustedHostMiddleware:
    """Refuses requests to hosts that `server.allowedHosts` lacks; Streamlit checks web sockets alone."""
    hosts = st.get_option("server.allowedHosts") or ["*"]
    # Starlette compares IPv6 addresses in brackets, Streamlit without.
    bracketed = [f"[{host}]" if ":" in host else host for host in hosts]
    return TrustedHostMiddleware(application, allowed_hosts=bracketed, www_redirect=False)


class SameOrigin:
    """Refuses web sockets to pages of other hosts than those of `server.allowedHosts` and the request's.

    Streamlit is not asked: of an origin that it does not know it would first ask a server on the internet
    for this machine's address.
    """

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; of a web socket from an allowed origin without its origin."""
        if scope["type"] == "websocket":
            headers = Headers(scope=scope)
            if not self._is_allowed(headers.get("origin"), headers.get("host", "")):
                await WebSocketClose(reason="a page of another host")(scope, receive, send)
                return
            others = [pair for pair in scope["headers"] if pair[0].lower() != b"origin"]
            scope = {**scope, "headers": others}
        await self._application(scope, receive, send)

    @staticmethod
    def _is_allowed(origin: str | None, host: str) -> bool:
        """Whether the page is of an allowed host, whatever its port; browsers always send an origin."""
        if origin is None:
            return True
        try:
            name, asked = urlsplit(origin).hostname, urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        known = st.get_option("server.allowedHosts") or ()
        return name is not None and (name == asked or name in known)


class FramedByItself:
    """Lets pages of no other origin show the board within theirs, where clicks could be stolen."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the header on what goes over HTTP."""

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = "frame-ancestors 'self'"
            await send(message)

        await self._application(scope, receive, send_with_header)


SCRIPT: Final = Path(__file__).parent / "views" / "dashboard.py"
ROUTES: Final = (
    *(Route(f"/{page}", redirect) for page in _PAGES_MOVED),
    Route("/", page),
    *(Route(f"/{one.name}", page_below_root) for one in PAGES if one.name != "overview"),
)
MIDDLEWARE: Final = (
    Middleware(trusted_hosts),
    Middleware(SameOrigin),
    Middleware(FramedByItself),
)


def new_app() -> st.App:
    """The application that Streamlit serves."""
    return st.App(SCRIPT, routes=[*ROUTES], middleware=[*MIDDLEWARE])
