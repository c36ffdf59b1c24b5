"""A rollout beside another one, or beside its own reference response or ground truth.

The URL's `vs` names the other side: `ref` and `truth` are texts of the rollout itself; `5` is a rollout
of the same step, `97:5` of another step, `RUN/97:5` of another run. Older links have `97.5`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import streamlit as st

from board.analysis.rollout import OpenRollout, in_loss, open_rollout
from board.components.comparison import Fact, Side, comparison
from board.core.tokens.pieces import joined
from board.core.tokens.scales import shared_spans
from board.errors import BoardError, ChoiceError, NotFoundError
from board.export import comparison_part
from board.export.pages import PageOptions, comparison_page
from board.export.rollout_content import metrics_of, specs_of
from board.export.rollout_facts import TEXTS, has_value
from board.export.rollout_frame import preview
from board.export.rollout_part import Address
from board.export.sheet import StaticPage
from board.query.columns import records_of
from board.query.open_run import Run
from board.query.prompts import Compared, comparable_rollouts, prompt_key, steps_of_prompt
from board.views.frame import sidebar
from board.views.rollouts import reader_content
from board.views.shared import cache, opened_runs, state
from board.views.shared.page_export import MakePage
from board.views.shared.text import number, one_line

_OWN_TEXTS: Final = {"ref": "ref_response", "truth": "ground_truth"}
"""By value of `vs` the name of the text in the record."""
_ROLLOUT: Final = re.compile(r"(?:(?:(?P<run>.+)/)?(?P<step>\d+)[:.])?(?P<index>\d+)", re.DOTALL)
_MOST_ROWS: Final = 2_000
_MOST_STEPS: Final = 10
_MOST_READ: Final = 64
"""Rollouts read from the log for lengths that are not in the table."""


class Target(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class _Text:
    """A text to compare. opened: the rollout whose response it is; None for a text of its own."""

    title: str
    text: str
    numbers: dict[str, float] = field(default_factory=dict[str, float])
    group: str | None = None
    opened: OpenRollout | None = None

    @property
    def length(self) -> tuple[int, str]:
        """How long it is, and in which unit."""
        tokens = len(self.opened.tokens) if self.opened is not None else 0
        if tokens:
            return tokens, "tokens"
        is_whole = self.opened is None or self.text == self.opened.response_text
        return len(self.text), "chars" if is_whole else "chars compared"


def show(run: Run, opened: OpenRollout) -> bool:
    """Draws what the URL's `vs` asks for; False where it asks for nothing that there is."""
    if not state.get("reader_vs"):
        return False
    try:
        other = _other_text(run, opened)
    except BoardError as error:
        named = one_line(state.get("reader_vs"))
        state.notice(f"reader_vs={named} names nothing to compare with: {one_line(error, 300)}.")
        state.put(reader_vs="")
        return False
    _draw(run, opened, other)
    return True


def page_of(run: Run, address: Address) -> MakePage | None:
    """What makes a page of a rollout beside the rollout that the URL's `vs` names; None where it names
    none: texts of the rollout itself are on its own page.
    """
    vs = str(state.get("reader_vs"))
    if not vs or vs in _OWN_TEXTS:
        return None
    try:
        target = parse(vs, run.info.name, address.step)
        other = _run_named(target.run, run)
    except BoardError:  # the page of the rollout says so
        return None
    return partial(_page, run, address, other, Address(target.step, target.index))


def _page(
    run: Run, address: Address, other: Run, other_address: Address, options: PageOptions
) -> StaticPage:
    left, right = (
        comparison_part.Side(of, open_rollout(of, at.step, at.index, options.vocabulary), at)
        for of, at in ((run, address), (other, other_address))
    )
    return comparison_page(left, right, options)


@st.fragment
def _draw(run: Run, opened: OpenRollout, other: _Text) -> None:
    """Both texts; the menu and a metric's colours rerun only this."""
    own = _text_of(run, opened, "This rollout")
    opens = [text.opened for text in (own, other) if text.opened is not None]
    spans = shared_spans([in_loss(one.metrics) for one in opens], "of both")
    left, right = _side(own), _side(other, own)
    vs, metric = comparison(
        left,
        right,
        cache.text_diff(own.text, other.text),
        key="comparison",
        signature=f"{reader_content.signature_of(run, opened)}/{state.get('reader_vs')}",
        metric=str(state.get("reader_metric")),
        specs=specs_of({**left.metrics, **right.metrics}),
        spans=spans,
        menu=menu_content(run, opened, "comparison"),
    )
    if vs is not None:
        begin(vs)
    if metric is not None and metric != state.get("reader_metric"):
        state.put(reader_metric=metric)
        state.push()
        st.rerun(scope="fragment")


def begin(vs: str) -> NoReturn:
    """Compares with what `vs` names; "" ends the comparison. Does not return."""
    state.put(reader_vs=vs)
    state.push()
    st.rerun()


def _other_text(run: Run, opened: OpenRollout) -> _Text:
    """What `vs` names. Raises BoardError."""
    vs, record = str(state.get("reader_vs")), opened.record
    if vs in _OWN_TEXTS:
        name = _OWN_TEXTS[vs]
        if name not in record.texts:
            raise NotFoundError(f"this rollout has no {TEXTS[name].lower()}")
        has_reward = vs == "ref" and "ref_reward" in record.scores
        numbers = {"reward": record.scores["ref_reward"]} if has_reward else {}
        return _Text(TEXTS[name], record.texts[name], numbers)
    target = parse(vs, run.info.name, opened.step)
    other_run = _run_named(target.run, run)
    other = cache.rollout(other_run, target.step, target.index, str(state.get("tokenizer")))
    title = f"step {target.step} · rollout {target.index}"
    if target.run != run.info.name:
        title = f"{target.run} · {title}"
    elif target.step == opened.step:
        title = f"Rollout {target.index}"
    return _text_of(other_run, other, title)


def _run_named(name: str, own: Run) -> Run:
    """A run of the folder, read with the same options, of the same split if any. Raises NotFoundError."""
    if name == own.info.name:
        return own
    infos = {info.name: info for info in sidebar.neighbours()}
    if name not in infos:
        raise NotFoundError(f"this folder has no run {name}")
    run = opened_runs.opened(infos[name], own.options)
    return cache.of_split(run, str(state.get("split"))) or run


def _text_of(run: Run, opened: OpenRollout, title: str) -> _Text:
    """The response as its tokens have it, else its messages under their roles, else its text."""
    row = run.row(opened.step, opened.index)
    has_tokens = opened.tokens and not opened.tokens_are_ids
    return _Text(
        one_line(title, 120),
        joined(opened.tokens) if has_tokens else opened.transcript,
        _numbers(row),
        str(row["group_id"]) if has_value(row, "group_id") else None,
        opened,
    )


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(row[name]) for name in ("reward", "advantage") if has_value(row, name)}


def _side(text: _Text, other: _Text | None = None) -> Side:
    """A side of the comparison; other: what its facts are compared with."""
    facts, opened = _facts(text, other), text.opened
    if opened is None or opened.tokens_are_ids or not opened.tokens:
        return Side(text.title, facts)
    metrics = metrics_of(opened, len(opened.tokens))
    return Side(text.title, facts, opened.tokens, metrics)


def _facts(text: _Text, other: _Text | None) -> list[Fact]:
    """Reward, advantage, length and group; with differences to the other text."""
    before = {} if other is None else other.numbers
    facts = [
        (name, number(value), _signed(value - before[name]) if name in before else "")
        for name, value in text.numbers.items()
    ]
    length, unit = text.length
    gap = ""
    if other is not None and other.length[1] == unit:
        gap = _signed(length - other.length[0])
    facts.append(("", f"{length:,} {unit}", gap))
    if text.group is not None:
        facts.append(("group", one_line(text.group, 40), ""))
    return facts


def _signed(gap: float) -> str:
    """A difference with its sign, in brackets."""
    if not np.isfinite(gap):
        return ""
    size = number(abs(gap)) if isinstance(gap, float) else f"{abs(gap):,}"
    return "(equal)" if gap == 0 else f"({'+' if gap > 0 else '−'}{size})"


def menu_content(run: Run, opened: OpenRollout, key: str) -> dict[str, Any] | None:
    """What the menu of the component with this key lists: texts of the rollout, and the rollouts of one
    step of one run. None while it is closed.

    The browser asks for {"run": name, "step": number, "words": text}, which is not trusted: this run and
    the nearest step with the same prompt stand for what there is not.
    """
    clicked: Any = st.session_state.get(key) or {}
    wanted = clicked.get("picker")
    if not isinstance(wanted, Mapping):
        return None
    other, error = run, ""
    try:
        other = _run_named(str(wanted.get("run") or run.info.name), run)
    except BoardError as problem:
        error = one_line(problem, 300)
    is_own = other.info.name == run.info.name
    prompt = prompt_key(run, opened.step, opened.index)
    near = [] if prompt is None else steps_of_prompt(other, prompt)
    near = [step for step in near if not (is_own and step == opened.step)]
    near = sorted(near, key=lambda step: abs(step - opened.step))[:_MOST_STEPS]
    aim = wanted.get("step")
    if not isinstance(aim, int) or isinstance(aim, bool):
        aim = opened.step if is_own or not near else near[0]
    step = min(other.counts, key=lambda one: abs(one - aim), default=None)
    words = str(wanted.get("words") or "")
    rows, count = ([], 0) if step is None else _rows(run, opened, prompt, other, step, words)
    runs = [info.name for info in sidebar.neighbours()]
    return {
        "error": error,
        "texts": [
            {"vs": vs, "title": TEXTS[name], "text": preview(opened.record.texts[name])}
            for vs, name in _OWN_TEXTS.items()
            if name in opened.record.texts
        ],
        "runs": runs if run.info.name in runs else [run.info.name, *runs],
        "run": other.info.name,
        "ownRun": run.info.name,
        "step": step,
        "steps": [min(other.counts), max(other.counts)] if other.counts else None,
        "promptSteps": sorted([*near, opened.step] if is_own and near else near),
        "rows": rows,
        "count": count,
        "words": words,
    }


def _rows(
    run: Run, opened: OpenRollout, prompt: int | None, other: Run, step: int, words: str
) -> tuple[list[dict[str, Any]], int]:
    """The other rollouts of a step that have the words, as the menu lists them, and their number."""
    compared = Compared(prompt)
    if other.info.name == run.info.name and step == opened.step:
        own = run.row(opened.step, opened.index)
        of = {name: str(own[name]) for name in ("group_id", "split") if has_value(own, name)}
        compared = Compared(prompt, opened.index, of.get("group_id"), of.get("split"))
    rows, count = comparable_rollouts(other, step, compared, words.lower().split(), _MOST_ROWS)
    unread = _MOST_READ
    entries: list[dict[str, Any]] = []
    for row in records_of(rows):
        index, length = int(row["index"]), _length(row)
        if not length and unread:
            unread -= 1
            characters = cache.transcript_length(other, step, index)
            length = f"{characters:,} chars" if characters else ""
        numbers = {name: number(value) for name, value in _numbers(row).items()}
        entries.append(
            {
                "vs": written(Target(other.info.name, step, index), run.info.name, opened.step),
                "index": index,
                "reward": numbers.get("reward", ""),
                "advantage": numbers.get("advantage", ""),
                "length": length,
                "group": one_line(row["group_id"], 24) if has_value(row, "group_id") else "",
                "sameGroup": bool(row["same_group"]),
                "samePrompt": bool(row["same_prompt"]),
                "text": preview(row["response"]) if has_value(row, "response") else "",
            }
        )
    return entries, count


def _length(row: Mapping[str, Any]) -> str:
    """How long the response is, in tokens or else in characters; empty where neither is recorded."""
    for name, unit in (("response_tokens", "tokens"), ("response_chars", "chars")):
        if has_value(row, name):
            return f"{int(row[name]):,} {unit}"
    return ""
