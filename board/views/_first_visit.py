"""What the first visitor would wait for, done before there is one: code, and the page that is shown.

Python reads code when it is first asked for, plotly and Streamlit read tables of their own then, and
the first page asks for all of it at once: a second's work, on top of what a page takes. So the server
asks itself for that page, as a browser would, and lets go of it.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import logging
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pandas as pd

from board.charts.curves import CurveOptions, Series, curve
from board.charts.light import light
from board.errors import BoardError
from board.query.open_run import OpenOptions
from board.views import _cached, _sidebar

_LOG: Final = logging.getLogger(__name__)
_STREAM: Final = "/_stcore/stream"
_FINISHED: Final = "script_finished"
_SECONDS: Final = 5.0
"""A page that takes longer is not waited for: the server is there, if a little slower once."""
_MOST_OTHERS: Final = 3
_OTHERS_SECONDS: Final = 1.0
"""For the pages of the runs that are newest after the one that is shown first."""
_MODULES: Final = (
    "board.components.tiles",
    *(
        f"board.views.{name}"
        for name in (
            *("_navigation", "_page", "_badge", "_alerts", "_own_curve", "_places"),
            *("_environments", "_curve_controls", "_tiles"),
        )
    ),
)


def load() -> None:
    """Loads the code of a first page."""
    for module in _MODULES:
        importlib.import_module(module)
    steps = pd.DataFrame({"step": [0, 1], "reward_mean": [0.0, 1.0], "reward_std": [0.0, 0.5]})
    light(curve(steps, [Series.of("reward")], CurveOptions(), dark=False))
    # Streamlit does so once, at the first element it draws and for the first session it begins: the
    # first goes through all modules, the second asks the system for the address of its network card.
    inspect.stack()
    uuid.getnode()
    importlib.import_module("PIL.Image").init()  # for the page's icon


def _is_at_hand() -> bool:
    """Whether what a visitor sees who asks for nothing is there without reading much of a log, or from
    a store.
    """
    root = _sidebar.start_root()
    if not isinstance(root, Path):
        return False
    try:
        runs = _cached.discovered(str(root)).runs
    except BoardError:
        return True  # the page tells of it
    return not runs or _cached.is_at_hand(runs[0], OpenOptions())


def _others() -> Iterator[str]:
    """The queries of pages of other runs that are there without reading much, the newest first."""
    runs = _cached.discovered(str(_sidebar.start_root())).runs
    for run in runs[1 : 1 + _MOST_OTHERS]:
        if _cached.is_at_hand(run, OpenOptions()):
            yield urlencode({"run": run.name})


def set_apart() -> None:
    """Takes what is loaded out of what Python searches for garbage.

    Streamlit has everything searched after each run of a page or a part of it: with all that is loaded
    50 to 100 ms, in which the server sends nothing.
    """
    gc.collect()
    gc.freeze()


def visit(host: str, port: int, seconds: float = _SECONDS, *, others: bool = False) -> bool:
    """Asks the server for the page that a visitor sees first, unless that takes long, and waits until it
    is sent, so long at most. Whether it was. others: then for those of the next newest runs.

    It passes the checks that everyone passes, under the server's own name, and leaves nothing behind
    that another session could see.
    """
    done: list[bool] = []
    asking = threading.Thread(target=_ask, args=(host, port, seconds, done, others), daemon=True)
    asking.start()
    asking.join(seconds)
    return bool(done)


def _ask(host: str, port: int, seconds: float, done: list[bool], others: bool) -> None:
    try:
        if _is_at_hand():
            _read_page(host, port, seconds)
            done.append(True)
            deadline = time.monotonic() + min(_OTHERS_SECONDS, seconds)
            for query in _others() if others else ():
                _read_page(host, port, deadline - time.monotonic(), query)
    except Exception:  # of whatever it is, a visitor is told by the page
        _LOG.debug("the server's own visit failed", exc_info=True)


def _read_page(host: str, port: int, seconds: float, query: str = "") -> None:
    """Begins a session and reads until its page is sent. Raises as connections do."""
    # Streamlit's server has loaded these; another of its versions may lack them.
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    deadline = time.monotonic() + seconds
    asked = BackMsg()
    asked.rerun_script.query_string = query
    address = f"ws://{f'[{host}]' if ':' in host else host}:{port}{_STREAM}"
    # A socket of its own: the environment may name a proxy for other connections.
    opened = socket.create_connection((host, port), timeout=seconds)
    protocols = [Subprotocol("streamlit")]
    with connect(
        address,
        sock=opened,
        subprotocols=protocols,
        open_timeout=seconds,
        close_timeout=1,
        max_size=None,
    ) as server:
        server.send(asked.SerializeToString())
        kind = None
        while kind != _FINISHED:
            content = server.recv(timeout=max(deadline - time.monotonic(), 0))
            kind = ForwardMsg.FromString(bytes(content)).WhichOneof("type")  # type: ignore[arg-type]
