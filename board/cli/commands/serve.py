"""`rollout-board serve`: the server, for this machine alone by default."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import signal
import socket
import sys
import threading
import time
import tomllib
import webbrowser
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from board.cli.runs import PROJECT, default_root
from board.errors import BoardError, ChoiceError, NotFoundError, UnreadableError
from board.formats.io.locations import Location, location_of
from board.index.discovery.discovered_runs import discover

_FIRST_PORT: Final = 8501
_PORTS_TRIED: Final = 100
_START_SECONDS: Final = 60.0
_OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")


def serve(args: argparse.Namespace) -> int:
    """Serves the dashboard until it is stopped. Raises BoardError before it starts."""
    root = root_of(args.path)
    if args.thresholds is not None:
        from board.analysis.findings import read_thresholds  # late: few starts need it

        read_thresholds(args.thresholds)
        os.environ["ROLLOUT_BOARD_THRESHOLDS"] = str(args.thresholds.absolute())
    if args.metrics is not None:
        if not args.metrics.exists():
            raise NotFoundError(f"--metrics {args.metrics} does not exist; give a file or a folder")
        os.environ["ROLLOUT_BOARD_METRICS"] = str(args.metrics.absolute())
    if args.metric_shift is not None:
        os.environ["ROLLOUT_BOARD_METRIC_SHIFT"] = str(args.metric_shift)
    script = PROJECT / "app.py"
    host, port = args.host, free_port(args.host, args.port)
    app = import_module("board.server").new_app()  # Streamlit takes a second to import
    os.environ["ROLLOUT_BOARD_ROOT"] = str(root)
    os.environ["ROLLOUT_BOARD_ALLOW_ANY_PATH"] = "1" if args.allow_any_path else "0"
    # Streamlit looks for .streamlit/config.toml beside the program; `streamlit run` sets the same.
    sys.argv = [str(script)]
    announcement = (host, port, root, not args.no_browser)
    threading.Thread(target=_announce, args=announcement, daemon=True).start()
    threading.Thread(target=_warm_up, args=(root,), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt):
        app.run(config=theme_options(script) | server_options(host, port, args.allow_host or ()))
    return 0


def theme_options(app: Path) -> dict[str, Any]:
    """The options of its theme, where no .streamlit/config.toml is beside the script to say it.

    An installed package has none there: its copy comes with this module, where the sources have a link.
    """
    if (app.parent / ".streamlit" / "config.toml").is_file():
        return {}
    own = Path(__file__).with_name("config.toml")
    return _options(tomllib.loads(own.read_text(encoding="utf-8")))


def _options(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The keys of a table of TOML and those in it as Streamlit names its options."""
    options: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}{key}"
        options |= _options(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return options


def server_options(host: str, port: int, names: Sequence[str] = ()) -> dict[str, Any]:
    """What no configuration file may change: where the server listens, and that it calls nobody."""
    return {
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.allowedHosts": allowed_hosts(host, names),
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": False,
        "client.showErrorDetails": "type",
        "logger.hideWelcomeMessage": True,
        "logger.level": "warning",
    }


def allowed_hosts(host: str, names: Sequence[str] = ()) -> list[str]:
    """Names under which a browser may ask; any, when the user opened the server to every address and
    named none.
    """
    if _is_wildcard(host):
        return [*_OWN_NAMES, *names] if names else ["*"]
    return list(dict.fromkeys((*_OWN_NAMES, host, *names)))


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """The one address to open: this machine's name when the server listens on all its addresses."""
    name = socket.gethostname() if _is_wildcard(host) else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def local_url(host: str, port: int) -> str:
    """The address at which a program on this machine reaches the server."""
    return url_of("127.0.0.1" if _is_wildcard(host) else host, port)


def root_of(path: str | None) -> Location:
    """The folder to show, checked once so that what is wrong with it is said here. One that is not made
    yet is waited for if the folder above it exists.
    """
    root = location_of(path) if path else default_root()
    if not isinstance(root, Path):
        discover(root)
        return root
    root = root.absolute()
    try:
        root.stat()
    except FileNotFoundError:
        if not root.parent.is_dir():
            raise NotFoundError(
                f"{path} does not exist, and neither does the folder above it; give a folder of runs, "
                "a run or a log file (rollout-board --help lists the commands)"
            ) from None
        # A training is still to make it: the page waits.
    except OSError as error:
        raise UnreadableError(f"{root} can't be read: {error.strerror}") from error
    return root


def free_port(host: str, given: int | None) -> int:
    """The port that was asked for, else the first free one. Raises ChoiceError."""
    if given is not None and not 1 <= given <= 65535:
        raise ChoiceError(f"--port {given} is not a port; expected 1 to 65535")
    ports = range(_FIRST_PORT, _FIRST_PORT + _PORTS_TRIED) if given is None else (given,)
    reason = ""
    for port in ports:
        reason = _why_not(host, port)
        if not reason:
            return port
    if given is None:
        raise ChoiceError(
            f"no port from {ports[0]} to {ports[-1]} on {host} can be used: {reason}; "
            "give --host or --port"
        )
    raise ChoiceError(
        f"--port {given} on {host} can't be used: {reason}; leave --port out to get a free one"
    )


def _why_not(host: str, port: int) -> str:
    """Why the server can't listen there; empty when it can."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            if os.name != "nt":  # there it would let two servers share a port
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _announce(host: str, port: int, root: Location, open_browser: bool) -> None:
    """Prints the address once the server answers, and opens it where there is a screen."""
    url, target = url_of(host, port), "127.0.0.1" if _is_wildcard(host) else host
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection((target, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
            continue
        if open_browser and has_screen():
            webbrowser.open(url)
        is_there = not isinstance(root, Path) or root.exists()
        state = f"shows {root}" if is_there else f"waits for {root}, which does not exist yet"
        print(f"Rollout Board {state}\n{url}  (Ctrl-C stops it)", flush=True)
        return


def _warm_up(root: Location) -> None:
    """Does what the first page would wait for: loads its modules, and looks into each log."""
    for name in ("board.analysis.run_summary", "board.views.shared.tables"):
        import_module(name)
    with contextlib.suppress(BoardError):
        discover(root)


def has_screen() -> bool:
    """Whether a browser could be opened where the user sees it."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    if os.name == "nt" or os.uname().sysname == "Darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
