"""The server of a checkout.

`streamlit run app.py` starts it on the logs that ROLLOUT_BOARD_ROOT names, or `-- PATH` behind the
command; `rollout-board` starts the same with options of its own.
"""

import os
import sys
from pathlib import Path

import streamlit as st

from board.server import MIDDLEWARE, ROUTES, SCRIPT

if Path(sys.argv[0]).name == Path(__file__).name and sys.argv[1:]:
    os.environ["ROLLOUT_BOARD_ROOT"] = sys.argv[1]

# `streamlit run` looks for this very call in the text; else it would run the file as a page.
app = st.App(SCRIPT, routes=[*ROUTES], middleware=[*MIDDLEWARE])
