"""Three kinds of log in one folder: with tokens, of texts alone, and of agents; and all pages of each."""

import shutil
from pathlib import Path

from board_steps import SAMPLES

from board.views.shared.pages import PAGES

_DATA = Path(__file__).parents[1] / "formats" / "data"
_LOGS = {
    "tokens": SAMPLES / "grpo_arithmetic",
    "texts": SAMPLES / "grpo_calculator_trl",
    "agents": _DATA / "nemo_gym",
}
RUNS = tuple(_LOGS)
ELSEWHERE = ("?", "findings?findings_part=failures", "step?step_part=groups")
"""Pages that say something else of logs without tokens."""
OPENED = ("rollouts?index=0", "rollouts?index=0&reader_vs=1", "rollouts?index=0&reader_as=text")
"""An open rollout in its three ways."""


def three_logs(root: Path) -> Path:
    """Copies a run of each kind below a folder, and gives that back."""
    for name, folder in _LOGS.items():
        shutil.copytree(folder, root / name)
    return root


def pages_and_parts() -> list[str]:
    """Every page and each part of it, as the end of an address, but for the run."""
    return [
        f"{'' if page.name == 'overview' else page.name}?{f'{page.choice}={part}' if part else ''}"
        for page in PAGES
        for part in (page.part_names or ("",))
    ]
