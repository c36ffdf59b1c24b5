"""What a rollout can be compared with: as the URL's `vs` names it, and as the menu offers it.

`ref` and `truth` are texts of the rollout itself; `5` is a rollout of the same step, `97:5` of another
step, `RUN/97:5` of another run. Older links have `97.5`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout
from board.errors import BoardError, ChoiceError, NotFoundError
from board.query.open_run import Run
from board.query.prompts import Compared, comparable_rollouts, prompt_key, steps_of_prompt
from board.views.frame import sidebar
from board.views.rollouts.rollout_facts import has_value
from board.views.shared import cache, opened_runs, state
from board.views.shared.text import number, one_line

REFERENCE: Final = "ref"
TEXTS: Final = {
    REFERENCE: ("ref_response", "Reference response"),
    "truth": ("ground_truth", "Ground truth"),
}
"""By value of `vs` the name of the text in the record, and its title."""
_ROLLOUT: Final = re.compile(r"(?:(?:(?P<run>.+)/)?(?P<step>\d+)[:.])?(?P<index>\d+)", re.DOTALL)
_MOST_ROWS: Final = 2_000
_MOST_STEPS: Final = 10
# So many rollouts are read from the log for lengths that are not in the table.
_MOST_READ: Final = 64
_PREVIEW_CHARACTERS: Final = 160


@dataclass(frozen=True, slots=True)
class Target:
    """A rollout to compare with."""

    run: str
    step: int
    index: int


def parse(vs: str, run: str, step: int) -> Target:
    """The rollout that `vs` names on the page of a rollout of `run` at `step`. Raises ChoiceError."""
    match = _ROLLOUT.fullmatch(vs)
    if match is None:
        raise ChoiceError(
            f"vs={vs} names no rollout; expected ref, truth, INDEX, STEP:INDEX or RUN/STEP:INDEX"
        )
    return Target(match["run"] or run, int(match["step"] or step), int(match["index"]))


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


def choices(run: Run, opened: OpenRollout, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What the menu shows: texts of the rollout, and the rollouts of one step of one run.

    wanted: {"run": name, "step": number, "words": text}, from the browser, not trusted; what is
    not available is replaced by this run, and by the nearest step with the same prompt.
    """
    key = prompt_key(run, opened.step, opened.index)
    runs = [info.name for info in sidebar.neighbours()]
    other, error = run, ""
    try:
        other = run_named(str(wanted.get("run") or run.info.name), run)
    except BoardError as problem:
        error = one_line(problem, 300)
    is_own = other.info.name == run.info.name
    near = [] if key is None else steps_of_prompt(other, key)
    near = [step for step in near if not (is_own and step == opened.step)]
    near = sorted(near, key=lambda step: abs(step - opened.step))[:_MOST_STEPS]
    step = _nearest_step(
        other, wanted.get("step"), [opened.step] if is_own else [*near, opened.step]
    )
    words = str(wanted.get("words") or "")
    rows, count = ([], 0) if step is None else _rows(run, opened, key, other, step, words)
    texts = [
        {"vs": vs, "title": title, "text": _preview(opened.record.texts[name])}
        for vs, (name, title) in TEXTS.items()
        if name in opened.record.texts
    ]
    return {
        "error": error,
        "texts": texts,
        "runs": runs if run.info.name in runs else [run.info.name, *runs],
        "run": other.info.name,
        "ownRun": run.info.name,
        "step": step,
        "steps": [min(other.counts), max(other.counts)] if other.counts else None,
        "promptSteps": sorted({*near, opened.step}) if is_own and near else sorted(near),
        "rows": rows,
        "count": count,
        "words": words,
    }


def _nearest_step(run: Run, wanted: object, usual: list[int]) -> int | None:
    """The step nearest to the one that is asked for, else to the first of `usual`."""
    is_number = isinstance(wanted, int) and not isinstance(wanted, bool)
    aim = wanted if isinstance(wanted, int) and is_number else usual[0]
    return min(run.counts, key=lambda step: abs(step - aim), default=None)


def _rows(
    run: Run, opened: OpenRollout, key: int | None, other: Run, step: int, words: str
) -> tuple[list[dict[str, Any]], int]:
    """The rollouts of a step that the menu lists, and how many there are; the rollout itself is left out.

    words: what they are searched for.
    """
    compared = Compared(key)
    if other.info.name == run.info.name and step == opened.step:
        own = run.row(opened.step, opened.index)
        group, split = (
            str(own[name]) if has_value(own, name) else None for name in ("group_id", "split")
        )
        compared = Compared(key, opened.index, group, split)
    rows, count = comparable_rollouts(other, step, compared, words.lower().split(), _MOST_ROWS)
    unread = _MOST_READ
    entries: list[dict[str, Any]] = []
    for _, row in rows.iterrows():
        index, length = int(row["index"]), _length(row)
        if not length and unread:
            unread -= 1
            characters = cache.transcript_length(other, step, index)
            length = f"{characters:,} chars" if characters else ""
        entries.append(
            {
                "vs": written(Target(other.info.name, step, index), run.info.name, opened.step),
                "index": index,
                "reward": number(float(row["reward"])) if has_value(row, "reward") else "",
                "advantage": number(float(row["advantage"])) if has_value(row, "advantage") else "",
                "length": length,
                "group": one_line(row["group_id"], 24) if has_value(row, "group_id") else "",
                "sameGroup": bool(row["same_group"]),
                "samePrompt": bool(row["same_prompt"]),
                "text": _preview(row["response"]) if has_value(row, "response") else "",
            }
        )
    return entries, count


def _length(row: pd.Series[Any]) -> str:
    """How long the response is, in tokens or else in characters; empty where neither is recorded."""
    for name, unit in (("response_tokens", "tokens"), ("response_chars", "chars")):
        if has_value(row, name):
            return f"{int(row[name]):,} {unit}"
    return ""


def _preview(text: str) -> str:
    return one_line(" ".join(text[: 2 * _PREVIEW_CHARACTERS].split()), _PREVIEW_CHARACTERS)
