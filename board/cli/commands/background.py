"""The command `open`: a server that goes on in the background, for scripts and coding agents."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path
from typing import Final

from board.cli import output
from board.cli.commands import serve
from board.errors import BoardError

_START_SECONDS: Final = 60.0
_LONGEST_REASON: Final = 2000
_MAIN: Final = "import sys; from board.cli import main; sys.exit(main())"


def open(args: argparse.Namespace) -> int:  # noqa: A001 (called as the command is)
    """Starts the server as a process of its own and prints its address once it answers."""
    if not args.background:
        return serve.serve(args)
    root = serve.root_of(args.path)
    port = serve.free_port(args.host, args.port)
    handle, name = tempfile.mkstemp(prefix="rollout-board-", suffix=".log")
    command = [sys.executable, "-c", _MAIN, "serve", str(root), *_options(args, port)]
    with os.fdopen(handle, "wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    url = serve.url_of(args.host, port)
    _wait_until_it_answers(server, serve.local_url(args.host, port), Path(name))
    if not args.no_browser and serve.has_screen():
        webbrowser.open(url)
    if args.json:
        row = {"url": url, "root": str(root), "pid": server.pid, "log": name}
        output.print_json({"rows": [row]})
    else:
        print(url)
        output.say(f"shows {root}; process {server.pid}, `kill {server.pid}` stops it; log: {name}")
    return 0


def _options(args: argparse.Namespace, port: int) -> list[str]:
    """The options of this command as `serve` takes them."""
    options = ["--no-browser", "--host", args.host, "--port", str(port)]
    options += ["--allow-any-path"] if args.allow_any_path else []
    options += [f"--allow-host={name}" for name in args.allow_host or ()]
    values = {
        "--thresholds": args.thresholds,
        "--metrics": args.metrics,
        "--metric-shift": args.metric_shift,
        "--labels": args.labels_file,
    }
    return options + [f"{name}={value}" for name, value in values.items() if value is not None]


def _wait_until_it_answers(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Returns once the server says that it is well. Raises BoardError with what it printed."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with opener.open(f"{url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.05)
    server.kill()
    said = log.read_text(encoding="utf-8", errors="replace").strip()[-_LONGEST_REASON:]
    raise BoardError(
        said.removeprefix("rollout-board: ") or f"no answer within {_START_SECONDS:g} s"
    )
