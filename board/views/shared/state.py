"""Every choice a user can make, kept in the URL: copy it, open it elsewhere, see the same thing.

A choice is a value in st.session_state under its own key, which a widget has too; one of a single page
begins with the page's name. `pull` takes the URL's values over when the URL was changed from outside (a
link, the back button); `push` writes what was chosen, but for defaults, into the URL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import streamlit as st

from board.analysis.utterances import SPEAKERS
from board.core.metrics.reward_sum import reward_from_text, reward_text
from board.core.records import DEFAULT_PAD_MARKERS
from board.core.tokens.masks import masks_from_text, masks_text, numbers_from_text, numbers_text
from board.views.shared import browser_url, pages
from board.views.shared import choice_texts as texts
from board.views.shared.text import plain

_VIEWS: Final = Path(__file__).parents[1]
_PULLS: Final = "_pulls"
_FILLED: Final = "_filled"
_OPENED: Final = "_opened"
_ALWAYS_WRITTEN: Final = frozenset(("run", "step", "index"))
"""A link names these even where nobody chose them: another start, or a growing run, has others."""
NO_ROLLOUT: Final = {"index": None, "token": None, "zoom": None}
"""Changes that go with another step or run: what was open was of the one before."""
_NOTICES: Final = "_notices"
_LINKED: Final = "_linked"


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice: its default, how a URL writes it, its name in older links. parse raises ValueError."""

    default: Any
    parse: Callable[[str], Any] = str
    format: Callable[[Any], str] = str
    old_name: str = ""


def _one_of(*allowed: str, default: str = "", old_name: str = "") -> Choice:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"not one of {', '.join(allowed)}")
        return text

    return Choice(default or allowed[0], parse, str, old_name)


def _flag(old_name: str = "", *, default: bool = False) -> Choice:
    parse = _one_of("0", "1").parse
    return Choice(default, lambda text: parse(text) == "1", lambda on: f"{bool(on):d}", old_name)


def _list(old_name: str = "") -> Choice:
    return Choice([], texts.listed, texts.list_text, old_name)


def _part_of(page: str, old_name: str = "") -> Choice:
    """Which part of a page is open."""
    return _one_of(*pages.page_of(page).part_names, old_name=old_name)


def _findings_part(text: str) -> str:
    """Links from before Failures was a part said 1 for log health, and 0."""
    text = {"1": "health", "0": "findings"}.get(text, text)
    return _part_of("findings").parse(text)


_RANGE: Final = Choice(None, texts.step_range, "{0[0]}-{0[1]}".format)
CHOICES: Final[Mapping[str, Choice]] = {
    # what is shown, on every page
    "root": Choice(""),
    "run": Choice(""),
    "step": Choice(None, texts.whole),
    "index": Choice(None, texts.whole),
    "split": Choice(""),
    "env": _list(),
    "live": _flag(),
    "follow": _flag(),
    # how a run is read
    "pads": Choice(",".join(DEFAULT_PAD_MARKERS)),
    "sysend": Choice(""),
    "cap": Choice(0, texts.count),
    "think": Choice(""),
    "grouping": _flag(),
    "reward_sum": Choice(None, reward_from_text, reward_text),
    "right_from": Choice(None, texts.number, "{:g}".format),
    "tokenizer": Choice(""),
    "metric_shift": Choice(None, texts.whole),
    # all pages with curves
    "smooth": Choice(0.0, texts.within(float, 0, 0.99), "{:g}".format),
    "steps": _RANGE,
    # Overview
    "overview_kl": _one_of("k1", "k2", "k3", default="k3", old_name="kl"),
    "overview_band": _one_of("std", "mean", "quantiles", "minmax", "none", old_name="band"),
    "overview_scale": Choice(1.0, texts.within(float, 0.1, 3), "{:g}".format, "scale"),
    "overview_shift": _flag("shift"),
    "overview_log": _flag("log"),
    "overview_more": _flag("more"),
    "overview_evals": _flag("evals", default=True),
    "overview_expression": Choice("", old_name="own"),
    "overview_trainer": Choice("", old_name="trainer"),
    "overview_by": _part_of("overview", old_name="by"),
    "overview_metrics": _list("emetrics"),
    "overview_metric": Choice("", old_name="emulti"),
    # Findings: the rules' findings, failures, and log health
    "findings_part": Choice("findings", _findings_part, old_name="findings_health"),
    "findings_severity": _list("severity"),
    "findings_nth": Choice(0, texts.count, old_name="nth"),
    "findings_superseded": _flag("old"),
    "failures_by": _one_of("env", "tool", "rank"),
    # Step: contributions, groups, and mismatch
    "step_part": replace(_part_of("step", old_name="part"), default=None),  # by what the run has
    "step_metric": Choice("", old_name="of"),
    "step_types": _one_of("kind", "piece", "role", default="piece", old_name="types"),
    "step_only": Choice("", old_name="only"),
    "step_order": _one_of("highest", "lowest", old_name="order"),
    "groups_values": _one_of("reward", "advantage", old_name="fill"),
    "groups_id": Choice("", old_name="gid"),
    "groups_first": Choice(0, texts.count, old_name="gfrom"),
    "mismatch_slice": _one_of(
        *("position", "probability", "kind", "piece", "turn", "role", "lag"), old_name="slice"
    ),
    "mismatch_measure": _one_of("d_abs", "d_mean", "k3", "multiplicative", old_name="measure"),
    "mismatch_bounds": Choice({}, numbers_from_text, numbers_text, "bounds"),
    "mismatch_rule": _one_of("ratio_clip", "dppo", "icepop", "tis", old_name="rule"),
    # Rollouts: the list
    "rollouts_view": _part_of("rollouts", old_name="view"),
    "rollouts_scope": _one_of("step", "last", "run", old_name="scope"),
    "rollouts_columns": _list("cols"),
    "rollouts_chart": _one_of("reward", "gap", "distribution", old_name="chart"),
    "q": Choice(""),
    "where": Choice(""),
    "sort": Choice("index"),
    "desc": _flag(),
    "page": Choice(0, texts.count),
    "group": _list(),
    "finish": _list(),
    "range": Choice({}, texts.bounds, texts.bounds_text),
    # Rollouts: words over the run
    "words_phrases": _list("words"),
    "words_speaker": _one_of(*SPEAKERS, default="response", old_name="speaker"),
    "words_regex": _flag("regex"),
    # Rollouts: labels
    "labels_author": Choice(""),
    # Rollouts: the reader
    "reader_metric": Choice("", old_name="metric"),
    "token": Choice(None, texts.whole),
    "zoom": _RANGE,
    "reader_over": _one_of("rollout", "step", old_name="over"),
    "reader_strip": Choice("", old_name="strip"),
    "reader_masks": Choice(None, masks_from_text, masks_text, old_name="masks"),
    "reader_heat": _flag("heat"),
    "reader_as": _one_of("", "tokens", "text", old_name="read"),
    "reader_vs": Choice("", old_name="vs"),
    "reader_record": _flag("raw"),
    # Prompts; the prompt of Compare too
    "prompt": Choice(None, texts.prompt_key),
    "prompts_list": _one_of("all", "never", "lost", "new", "volatile", old_name="plist"),
    "prompts_q": Choice(""),
    "prompts_step": Choice(None, texts.whole, old_name="pstep"),
    "prompts_first": Choice(0, texts.count, old_name="pfrom"),
    # Runs
    "runs_search": Choice(""),
    "runs_sort": Choice("changed"),
    "runs_desc": _flag(default=True),
    "runs_fold": _flag(default=True),
    **{f"runs_{name}": _list() for name in ("ticked", "columns", "state", "finding", "format")},
    # Compare
    "compare_runs": _list("runs"),
    "compare_shifts": Choice({}, texts.shifts, texts.shifts_text, "shifts"),
    "compare_metrics": _list("cmetrics"),
    "compare_pair": _list("pair"),
    "compare_match": _one_of("steps", "tokens", "time"),
    "compare_outcome": _one_of("", "won", "lost", "equal"),
    "compare_by": _list(),
    "compare_over_seeds": Choice(""),
}


def get(name: str) -> Any:
    """The chosen value, or the default."""
    return st.session_state.get(name, CHOICES[name].default)


def bound(name: str) -> dict[str, Any]:
    """What binds a widget to a choice, also on pages that do not draw the widget."""
    return {"key": name, "persist_state": "session"}


def put(**values: Any) -> None:
    """Chooses values; only before the widgets of the same keys are drawn, or in a callback."""
    st.session_state.update(values)


def ensure(name: str, allowed: Collection[Any], fallback: Any) -> Any:
    """The chosen value if it is available, else the fallback.

    A notice says so where the value came with a link; where it was left by another run or step, the
    choice follows silently. Where nothing was chosen the page fills in what it begins with: that stays
    out of the URL, whose every change is one press of Back more, and of other pages.
    """
    value, is_linked = get(name), _take_linked(name)
    filled: dict[str, Any] = st.session_state.setdefault(_FILLED, {})
    is_filled = name in filled and filled[name] == value
    # What the page filled in itself is no choice, and follows what it would fill in now.
    is_followed = is_filled and fallback != CHOICES[name].default
    if value == fallback if is_followed else value in allowed:
        return value
    if value != CHOICES[name].default and not is_filled:
        if is_linked:
            words = repr(fallback) if fallback not in ("", None) else "the default"
            notice(f"{name} = {value!r} is not available; showing {words}.")
    elif name not in _ALWAYS_WRITTEN:
        filled[name] = fallback
    st.session_state[name] = fallback
    return fallback


def keep(name: str, allowed: Collection[str]) -> list[str]:
    """Those of the chosen values that are available; of a link's others, a notice says so."""
    chosen, is_linked = list(get(name)), _take_linked(name)
    available = [value for value in chosen if value in allowed]
    if available != chosen:
        missing = ", ".join(value for value in chosen if value not in allowed)
        if is_linked:
            notice(f"{name} = {missing} is not available and is left out.")
        st.session_state[name] = available
    return available


def _take_linked(name: str) -> bool:
    """Whether a link set a choice that no page has checked since; it counts as checked from now on."""
    linked: set[str] = st.session_state.setdefault(_LINKED, set())
    is_linked = name in linked
    linked.discard(name)
    return is_linked


def notice(text: str) -> None:
    """Something to tell above the page in this run of the script."""
    st.session_state.setdefault(_NOTICES, []).append(text)


def show_notices() -> None:
    """Shows what `notice` collected above the page, which does not move, and forgets it."""
    for text in dict.fromkeys(st.session_state.pop(_NOTICES, [])):
        st.toast(plain(text, 400), icon=":material/info:", duration="long")


def pull(page: str) -> None:
    """Takes the choices over from the URL when it was changed from outside. page: that is open."""
    url, known = st.query_params.to_dict(), browser_url.current()
    before, opened = st.session_state.get(_OPENED), _part_opened(page)
    is_moved = before is None or before[0] != page
    is_new = browser_url.meet(url, is_moved=is_moved)
    _take_back(everything=is_new or before not in (None, opened))
    if is_moved:
        # Fields are others on each page, also those that every page has: they would start empty.
        put(**{name: get(name) for name in CHOICES})
    if is_new:
        _take_over(url, None if is_moved else known)
    st.session_state[_OPENED] = _part_opened(page)


def _part_opened(page: str) -> tuple[str, str]:
    """The page, and which part of it is open."""
    choice = pages.page_of(page).choice
    return page, get(choice) if choice else ""


def _take_over(url: Mapping[str, str], known: Mapping[str, str] | None) -> None:
    """Takes over what the URL says otherwise than the one before: a field that was changed in the same
    moment keeps its value, which the URL does not have yet. known: the one before; None: takes all.
    """
    late = browser_url.take_superseded()
    st.session_state[_PULLS] = pulls() + 1
    late = None if late is None or known is None else _with_new_names(late)
    url, before = _with_new_names(url), _with_new_names(known or {})
    for name in CHOICES:
        is_as_before = known is not None and url.get(name) == before.get(name)
        is_late = late is not None and url.get(name) == late.get(name)
        if not (is_as_before or is_late) or name not in st.session_state:
            _take_text(name, url.get(name))


def _take_text(name: str, text: str | None) -> None:
    """Takes over what a URL says of a choice; None: nothing."""
    choice = CHOICES[name]
    value = choice.default
    if text is not None:
        try:
            value = choice.parse(text)
        except ValueError as error:
            default = (choice.format(value) if value is not None else "") or "the default"
            notice(f"{name}={text} in the URL is wrong ({error}); showing {default}.")
    if value != get(name):
        st.session_state.setdefault(_LINKED, set()).add(name)
    # A value that is set again is set in the browser too, also where another was chosen meanwhile.
    if value != get(name) or name not in st.session_state:
        st.session_state[name] = value


def take_changes(changes: Mapping[str, str | None]) -> None:
    """Takes over what a script of the page has changed in the URL; None: it has taken it out."""
    st.session_state[_PULLS] = pulls() + 1
    for name in CHOICES.keys() & changes.keys():
        _take_text(name, changes[name])


def _take_back(*, everything: bool) -> None:
    """What a page filled in is its own until somebody chooses. everything: another page is open."""
    filled: dict[str, Any] = st.session_state.setdefault(_FILLED, {})
    for name, value in [*filled.items()]:
        if get(name) == value and everything:
            st.session_state[name] = CHOICES[name].default
        if everything or get(name) != value:
            del filled[name]


def forget(*names: str) -> None:
    """Back to the defaults; fields that show a part of a choice are renewed."""
    put(**{name: CHOICES[name].default for name in names})
    st.session_state[_PULLS] = pulls() + 1


def pulls() -> int:
    """How often choices came from elsewhere; a field that shows a part of a choice has it in its key."""
    return st.session_state.get(_PULLS, 0)


def encoded(**changes: Any) -> dict[str, str]:
    """The URL's parameters for what is chosen now, but for `changes`."""
    query: dict[str, str] = {}
    following = {"live": True, "follow": True, "index": None, "token": None}
    is_following = "step" not in changes and all(
        (changes[name] if name in changes else get(name)) == value
        for name, value in following.items()
    )
    filled: Mapping[str, Any] = st.session_state.get(_FILLED, {})
    # Nothing is followed that is not live, whatever it was before.
    changes = changes if changes.get("live", get("live")) else {**changes, "follow": False}
    for name, choice in CHOICES.items():
        value = changes[name] if name in changes else get(name)
        is_filled = name not in changes and name in filled and filled[name] == value
        if name == "step" and is_following:  # the newest, which is another one soon
            continue
        if value is not None and value != choice.default and not is_filled:
            query[name] = choice.format(value)
    return query


def _with_new_names(url: Mapping[str, str]) -> dict[str, str]:
    names = {choice.old_name: name for name, choice in CHOICES.items()}
    return {names.get(name, name): text for name, text in url.items()}


def push() -> None:
    """Writes what is chosen into the URL; an old link stays until then: Back would lead to it again."""
    wanted = encoded()
    if wanted != _with_new_names(browser_url.current() or {}):
        browser_url.write(wanted)
    if opened := st.session_state.get(_OPENED):  # which part is open may be filled in by the page
        st.session_state[_OPENED] = _part_opened(opened[0])


def page_file(page: str) -> Path:
    """The script of a page."""
    return _VIEWS / page / f"{page}.py"


def _with_part(page: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A link that names no part of its page leads to what it begins with, whichever was open there."""
    choice = pages.page_of(page).choice
    return {choice: CHOICES[choice].default, **changes} if choice else dict(changes)


def link(page: str, label: str, icon: str = "arrow_forward", **changes: Any) -> None:
    """Draws a link to a page with some choices changed."""
    query = encoded(**_with_part(page, changes))
    st.page_link(page_file(page), label=label, icon=f":material/{icon}:", query_params=query)


def go(page: str, /, **changes: Any) -> NoReturn:
    """Opens a page (`rollouts`, say) with some choices changed; does not return.

    The changes travel in the URL: the widgets of this run are drawn, and can't be set any more.
    """
    st.switch_page(page_file(page), query_params=encoded(**_with_part(page, changes)))
