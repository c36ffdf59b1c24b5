"""What a rollout can be compared with: its own texts, and the rollouts of any step of any run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout
from board.errors import BoardError
from board.query.open_run import Run
from board.query.same_prompt import Compared, comparable_rollouts, prompt_key, steps_of_prompt
from board.views.frame import sidebar
from board.views.rollouts.comparison_target import TEXTS, Target, run_named, written
from board.views.shared import cache
from board.views.shared.text import number, one_line

_MOST_ROWS: Final = 2_000
_MOST_STEPS: Final = 10
# So many rollouts are read from the log for lengths that are not in the table.
_MOST_READ: Final = 64
_PREVIEW: Final = 160
_TITLES: Final = {"ref": "Reference response", "truth": "Ground truth"}


def choices(run: Run, opened: OpenRollout, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What the menu shows: texts of the rollout, and the rollouts of one step of one run.

    wanted: {"run": name, "step": number, "words": text}, from the browser, not trusted; what is
    not available is replaced by this run, and by the nearest step with the same prompt.
    """
    own = run.row(opened.step, opened.index)
    key = prompt_key(run, opened.step, opened.index)
    runs = [info.name for info in sidebar.neighbours()]
    name = str(wanted.get("run") or run.info.name)
    error = ""
    try:
        other = run_named(name, run)
    except BoardError as problem:
        other, error = run, one_line(problem, 300)
    is_own = other.info.name == run.info.name
    near = [] if key is None else steps_of_prompt(other, key)
    near = [step for step in near if not (is_own and step == opened.step)]
    near = sorted(near, key=lambda step: abs(step - opened.step))[:_MOST_STEPS]
    step = _step(other, wanted.get("step"), opened.step, [] if is_own else near)
    words = str(wanted.get("words") or "")
    rows, count = ([], 0) if step is None else _rows(run, own, key, other, step, words)
    return {
        "error": error,
        "texts": _texts(opened),
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


def _texts(opened: OpenRollout) -> list[dict[str, str]]:
    return [
        {"vs": vs, "title": _TITLES[vs], "text": _first_words(opened.record.texts[name])}
        for vs, name in TEXTS.items()
        if name in opened.record.texts
    ]


def _first_words(text: str) -> str:
    return one_line(" ".join(text[: 2 * _PREVIEW].split()), _PREVIEW)


def _step(run: Run, wanted: object, own: int, near: list[int]) -> int | None:
    """The step that is asked for, else the first of `near`, else the one nearest to `own`; `near`: of
    another run the steps with the same prompt.
    """
    if not run.counts:
        return None
    is_number = isinstance(wanted, int) and not isinstance(wanted, bool)
    if not is_number and near:
        return near[0]
    aim = wanted if isinstance(wanted, int) and is_number else own
    return min(run.counts, key=lambda step: abs(step - aim))


def _rows(
    run: Run, own: pd.Series[Any], key: int | None, other: Run, step: int, words: str
) -> tuple[list[dict[str, Any]], int]:
    """The rollouts of a step that the menu lists, and how many there are; the rollout itself is left out.

    words: what they are searched for.
    """
    compared = Compared(key)
    if other.info.name == run.info.name and step == int(own["step"]):
        group, split = (str(own[n]) if _has(own, n) else None for n in ("group_id", "split"))
        compared = Compared(key, int(own["index"]), group, split)
    rows, count = comparable_rollouts(other, step, compared, words.lower().split(), _MOST_ROWS)
    place = run.info.name, int(own["step"])
    entries = [_entry(row, other, step, place) for _, row in rows.iterrows()]
    for entry in [one for one in entries if not one["length"]][:_MOST_READ]:
        length = cache.transcript_length(other, step, entry["index"])
        entry["length"] = f"{length:,} chars" if length else ""
    return entries, count


def _entry(row: pd.Series[Any], run: Run, step: int, place: tuple[str, int]) -> dict[str, Any]:
    index = int(row["index"])
    return {
        "vs": written(Target(run.info.name, step, index), *place),
        "index": index,
        "reward": _shown(row, "reward"),
        "advantage": _shown(row, "advantage"),
        "length": length_of(row),
        "group": one_line(row["group_id"], 24) if _has(row, "group_id") else "",
        "sameGroup": bool(row["same_group"]),
        "samePrompt": bool(row["same_prompt"]),
        "text": _first_words(row["response"]) if _has(row, "response") else "",
    }


def length_of(row: pd.Series[Any]) -> str:
    """How long the response is, in tokens or else in characters; empty where neither is recorded."""
    for name, unit in (("response_tokens", "tokens"), ("response_chars", "chars")):
        if _has(row, name):
            return f"{int(row[name]):,} {unit}"
    return ""


def _has(row: pd.Series[Any], name: str) -> bool:
    return name in row and bool(pd.notna(row[name]))


def _shown(row: pd.Series[Any], name: str) -> str:
    return number(float(row[name])) if _has(row, name) else ""
