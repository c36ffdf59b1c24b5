"""Puts this folder on the path, for the programs that the tests run (`programs`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
