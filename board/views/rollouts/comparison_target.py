"""What a rollout is compared with, as the URL's `vs` names it.

`ref` and `truth` are texts of the rollout itself; `5` is a rollout of the same step, `97:5` of another
step, `RUN/97:5` of another run. Older links have `97.5`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from board.errors import ChoiceError, NotFoundError
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.shared import cache, opened_runs, state

REFERENCE: Final = "ref"
TRUTH: Final = "truth"
TEXTS: Final = {REFERENCE: "ref_response", TRUTH: "ground_truth"}
"""By value of `vs` the name of the text in the record."""
_ROLLOUT: Final = re.compile(r"(?:(?:(?P<run>.+)/)?(?P<step>\d+)[:.])?(?P<index>\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """A rollout to compare with."""

    run: str
    step: int
    index: int


def parse(vs: str, run: str, step: int) -> Target:
    """The rollout that `vs` names on the page of a rollout of `run` at `step`. Raises ChoiceError."""
    found = _ROLLOUT.fullmatch(vs)
    if found is None:
        raise ChoiceError(
            f"vs={vs} names no rollout; expected ref, truth, INDEX, STEP:INDEX or RUN/STEP:INDEX"
        )
    return Target(found["run"] or run, int(found["step"] or step), int(found["index"]))


def written(target: Target, run: str, step: int) -> str:
    """`vs` for a rollout, as short as can be."""
    if target.run != run:
        return f"{target.run}/{target.step}:{target.index}"
    return str(target.index) if target.step == step else f"{target.step}:{target.index}"


def run_named(name: str, own: Run) -> Run:
    """A run of the folder, read with the same options, of the same split where it has it.

    Raises NotFoundError for a name that the folder does not hold.
    """
    if name == own.info.name:
        return own
    infos = {info.name: info for info in sidebar.neighbours()}
    if name not in infos:
        raise NotFoundError(f"this folder has no run {name}")
    run = opened_runs.opened(infos[name], own.options)
    return cache.of_split(run, str(state.get("split"))) or run
