"""The server itself: Streamlit's application behind the board's front, on a socket that does not wait."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.middleware import Middleware
from streamlit import config
from streamlit.starlette import App
from streamlit.web import bootstrap
from uvicorn.config import WS_PROTOCOLS

from board.cli import old_addresses
from board.cli.front import Front
from board.cli.own_names import OwnNames

_MEGABYTE: Final = 1_000_000
_PING_SECONDS: Final = 30
_WEBSOCKETS: Final = "websockets-sansio"


def run(app: Path, host: str, port: int, options: Mapping[str, Any]) -> None:
    """Serves a script of Streamlit until it is stopped by a signal. options: of Streamlit, over those of
    its configuration files. Raises OSError where it can't listen.
    """
    # Made first: it tells Streamlit that the .streamlit/config.toml beside the script counts.
    names = options["server.allowedHosts"]
    application = App(
        app,
        routes=old_addresses.routes(),
        middleware=[Middleware(OwnNames, names=names), Middleware(Front)],
    )
    bootstrap.load_config_options(dict(options))
    sys.argv = [str(app)]
    server = uvicorn.Server(uvicorn.Config(application, host, port, **_settings()))
    # uvicorn stops at a signal and then hands it on: it ends the process as it would have without it.
    signal.signal(signal.SIGTERM, _leave)
    try:
        with listening(host, port) as listener:
            server.run(sockets=[listener])
    except KeyboardInterrupt:
        return


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError.

    Streamlit's own names no protocol, and what Python does not know to be TCP it lets wait: each part of
    an answer until the browser confirmed the one before, which browsers put off for 40 ms.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _settings() -> dict[str, Any]:
    """What Streamlit tells uvicorn, of its configuration."""
    interval = int(config.get_option("server.websocketPingInterval") or _PING_SECONDS)
    return {
        "ssl_certfile": config.get_option("server.sslCertFile"),
        "ssl_keyfile": config.get_option("server.sslKeyFile"),
        "ws": _WEBSOCKETS if _WEBSOCKETS in WS_PROTOCOLS else "auto",
        "ws_ping_interval": interval,
        "ws_ping_timeout": interval,
        "ws_max_size": int(config.get_option("server.maxMessageSize")) * _MEGABYTE,
        "ws_per_message_deflate": config.get_option("server.enableWebsocketCompression"),
        "use_colors": False,
        "access_log": False,
        "log_level": "warning",
    }


def _leave(*_: object) -> None:
    sys.exit(0)
