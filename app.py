"""The server of a checkout.

`streamlit run app.py` starts it on the logs that ROLLOUT_BOARD_ROOT names, or `-- PATH` behind the
command; `rollout-board` starts the same with options of its own.
"""

import os
import sys
from pathlib import Path

from board.server import new_app

if Path(sys.argv[0]).name == Path(__file__).name and sys.argv[1:]:
    os.environ["ROLLOUT_BOARD_ROOT"] = sys.argv[1]

app = new_app()
