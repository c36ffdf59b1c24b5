"""What the first visitor would wait for, done before there is one: code, and the run that is shown.

Python reads code when it is first asked for, plotly and Streamlit read tables of their own then, and
the first page asks for all of it at once: a second's work, on top of what a page takes.
"""

from __future__ import annotations

import importlib
import inspect
import uuid
from pathlib import Path
from typing import Final

import pandas as pd

from board.charts.curves import CurveOptions, Series, curve
from board.charts.light import light
from board.errors import BoardError
from board.store.run import OpenOptions
from board.views import _cached, _sidebar

_MODULES: Final = (
    "board.components.sparkline",
    *(
        f"board.views.{name}"
        for name in ("_navigation", "_page", "_badge", "_own_curve", "_places")
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


def open_shown() -> None:
    """Opens the run that a visitor sees who asks for none, unless that takes reading much of its log."""
    root = _sidebar.start_root()
    try:
        if isinstance(root, Path) and (runs := _cached.discovered(str(root)).runs):
            _cached.run_at_hand(runs[0], OpenOptions())
    except BoardError:
        return  # the page tells of it
