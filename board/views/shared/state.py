"""Every choice a user can make, kept in the URL: copy it, open it elsewhere, see the same thing.

A choice is a value in st.session_state under its own key, so that a widget with that key shows and
changes it. `pull` takes the URL's values over when the URL was changed from outside (a link, the back
button); `push` writes what was chosen into the URL. Values at their default stay out of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import streamlit as st

from board.analysis.utterances import SPEAKERS
from board.core.options import DEFAULT_PAD_MARKERS
from board.core.tokens.masks import masks_from_text, masks_text, numbers_from_text, numbers_text
from board.query.prompts import key_from, written_key
from board.views.shared.text import plain

_VIEWS: Final = Path(__file__).parents[1]
_PUSHED: Final = "_pushed"
_PULLS: Final = "_pulls"
_FILLED: Final = "_filled"
_LOOKED_AT: Final = frozenset(("run", "step", "index"))
"""A link names these even where nobody chose them: another start, or a growing run, has others."""
LARGEST_COUNT: Final = 10**9
_NOTICES: Final = "_notices"
_LINKED: Final = "_linked"


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice: its default, and how its value is written in a URL. parse raises ValueError."""

    default: Any
    parse: Callable[[str], Any] = str
    format: Callable[[Any], str] = str


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("not a whole number") from None


def _count(text: str) -> int:
    value = _whole(text)
    if not 0 <= value <= LARGEST_COUNT:
        raise ValueError(f"not between 0 and {LARGEST_COUNT}")
    return value


def _prompt_key(text: str) -> str:
    try:
        return written_key(key_from(text))
    except ValueError:
        raise ValueError("not the key of a prompt, 16 hexadecimal digits") from None


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ValueError("not a number")
    return value


def _decimal(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = _number(text)
        if not low <= value <= high:
            raise ValueError(f"not between {low:g} and {high:g}")
        return value

    return parse


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"not one of {', '.join(allowed)}")
        return text

    return parse


def _yes(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("not 0 or 1")
    return text == "1"


def _listed(text: str) -> list[str]:
    return [part.replace("%2C", ",").replace("%25", "%") for part in text.split(",") if part]


def _list_text(values: Collection[str]) -> str:
    return ",".join(str(value).replace("%", "%25").replace(",", "%2C") for value in values)


def _stretch(text: str) -> tuple[int, int]:
    """`120-180` -> (120, 180)."""
    first, _, last = text.partition("-")
    found = _count(first), _count(last)
    if found[0] >= found[1]:
        raise ValueError("not of the form first-last")
    return found


def _flag(value: Any) -> str:
    return "1" if value else "0"


def _bounds(text: str) -> dict[str, tuple[float, float]]:
    """`reward:0.5..1,k3_mean:..0.1` -> {"reward": (0.5, 1.0), "k3_mean": (-inf, 0.1)}."""
    found: dict[str, tuple[float, float]] = {}
    for part in _listed(text):
        name, _, limits = part.rpartition(":")
        low, separator, high = limits.partition("..")
        if not name or not separator:
            raise ValueError("not of the form column:low..high")
        found[name] = (_number(low or "-inf"), _number(high or "inf"))
    return found


def _bounds_text(bounds: Mapping[str, tuple[float, float]]) -> str:
    def limit(value: float) -> str:
        return "" if math.isinf(value) else repr(value)

    return _list_text(
        [f"{name}:{limit(low)}..{limit(high)}" for name, (low, high) in bounds.items()]
    )


def _shifts(text: str) -> dict[str, int]:
    """`run_b:10` -> {"run_b": 10}."""
    found: dict[str, int] = {}
    for part in _listed(text):
        name, separator, steps = part.rpartition(":")
        if not separator or not name:
            raise ValueError("not of the form run:steps")
        found[name] = _whole(steps)
    return found


def _shifts_text(shifts: Mapping[str, int]) -> str:
    return _list_text([f"{name}:{steps}" for name, steps in shifts.items()])


_FLAG: Final = Choice(False, _yes, _flag)
_LIST: Final = Choice([], _listed, _list_text)

CHOICES: Final[Mapping[str, Choice]] = {
    # what is looked at
    "root": Choice(""),
    "run": Choice(""),
    "step": Choice(None, _whole),
    "index": Choice(None, _whole),
    # how it is read
    "pads": Choice(",".join(DEFAULT_PAD_MARKERS)),
    "sysend": Choice(""),
    "cap": Choice(0, _count),
    "split": Choice(""),
    "live": _FLAG,
    "follow": _FLAG,
    # Overview; smoothing of all pages with curves
    "kl": Choice("k3", _one_of("k1", "k2", "k3")),
    "band": Choice("std", _one_of("std", "quantiles", "minmax", "none")),
    "scale": Choice(1.0, _decimal(0.1, 3.0), lambda v: f"{v:g}"),
    "smooth": Choice(0.0, _decimal(0.0, 0.99), lambda v: f"{v:g}"),
    "shift": _FLAG,
    "log": _FLAG,
    "more": _FLAG,
    "evals": Choice(True, _yes, _flag),
    "own": Choice(""),
    "by": Choice("", _one_of("", "env")),
    "steps": Choice(None, _stretch, "{0[0]}-{0[1]}".format),
    # Rollouts
    "view": Choice("list", _one_of("list", "words")),
    "scope": Choice("step", _one_of("step", "last", "run")),
    "q": Choice(""),
    "where": Choice(""),
    "sort": Choice("index"),
    "desc": _FLAG,
    "page": Choice(0, _count),
    "group": _LIST,
    "env": _LIST,
    "finish": _LIST,
    "range": Choice({}, _bounds, _bounds_text),
    "cols": _LIST,
    "chart": Choice("reward", _one_of("reward", "gap", "distribution")),
    # Step
    "part": Choice("contributions", _one_of("contributions", "groups")),
    "of": Choice(""),
    "types": Choice("piece", _one_of("kind", "piece", "role")),
    "only": Choice(""),
    "order": Choice("highest", _one_of("highest", "lowest")),
    # Findings
    "health": _FLAG,
    "severity": _LIST,
    "nth": Choice(0, _count),
    # Groups of the step
    "fill": Choice("reward", _one_of("reward", "advantage")),
    "gid": Choice(""),
    "gfrom": Choice(0, _count),
    # Prompts
    "plist": Choice("all", _one_of("all", "never", "lost", "new", "volatile")),
    "prompt": Choice(None, _prompt_key),
    "pstep": Choice(None, _whole),
    "pfrom": Choice(0, _count),
    # Environments; of Rollouts, `env`
    "emetrics": _LIST,
    "emulti": Choice(""),
    # Mismatch
    "slice": Choice(
        "position",
        _one_of("position", "probability", "kind", "piece", "turn", "role", "lag"),
    ),
    "measure": Choice("d_abs", _one_of("d_abs", "d_mean", "k3", "multiplicative")),
    "bounds": Choice({}, numbers_from_text, numbers_text),
    "rule": Choice("ratio_clip", _one_of("ratio_clip", "dppo", "icepop", "tis")),
    # Compare; of Prompts, `prompt`
    "runs": _LIST,
    "shifts": Choice({}, _shifts, _shifts_text),
    "cmetrics": _LIST,
    "pair": _LIST,
    # Words
    "words": _LIST,
    "speaker": Choice("response", _one_of(*SPEAKERS)),
    "regex": _FLAG,
    # Rollout
    "metric": Choice(""),
    "token": Choice(None, _whole),
    "over": Choice("rollout", _one_of("rollout", "step")),
    "strip": Choice(""),
    "masks": Choice(None, masks_from_text, masks_text),
    "zoom": Choice(None, _stretch, "{0[0]}-{0[1]}".format),
    "heat": _FLAG,
    "think": Choice(""),
    "read": Choice("", _one_of("", "tokens", "text")),
    "vs": Choice(""),
    "tokenizer": Choice(""),
    "raw": _FLAG,
    # Log health
    "old": _FLAG,
}


def get(name: str) -> Any:
    """The chosen value, or the default."""
    return st.session_state.get(name, CHOICES[name].default)


def put(**values: Any) -> None:
    """Chooses values; only before the widgets of the same keys are drawn, or in a callback."""
    for name, value in values.items():
        st.session_state[name] = value


def ensure(name: str, allowed: Collection[Any], fallback: Any) -> Any:
    """The chosen value if it is available, else the fallback.

    A notice says so where the value came with a link; where it was left by another run or step, the
    choice follows silently. Where nothing was chosen the page fills in what it begins with: that stays
    out of the URL, whose every change is one press of Back more, and of other pages.
    """
    value, is_linked = get(name), _take_linked(name)
    if value in allowed:
        return value
    if value != CHOICES[name].default:
        if is_linked:
            shown = repr(fallback) if fallback not in ("", None) else "the default"
            notice(f"{name} = {value!r} is not available; showing {shown}.")
    elif name not in _LOOKED_AT:
        st.session_state.setdefault(_FILLED, {})[name] = fallback
    put(**{name: fallback})
    return fallback


def _empty_filled() -> None:
    """Takes back what a page filled in and nobody has changed since: the next has its own."""
    for name, value in st.session_state.pop(_FILLED, {}).items():
        if get(name) == value:
            put(**{name: CHOICES[name].default})


def keep(name: str, allowed: Collection[str]) -> list[str]:
    """Those of the chosen values that are available; of a link's others, a notice says so."""
    chosen, is_linked = list(get(name)), _take_linked(name)
    kept = [value for value in chosen if value in allowed]
    if kept != chosen:
        dropped = ", ".join(value for value in chosen if value not in allowed)
        if is_linked:
            notice(f"{name} = {dropped} is not available and is left out.")
        put(**{name: kept})
    return kept


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


def pull() -> None:
    """Takes the choices over from the URL when it was changed from outside the page."""
    _empty_filled()
    url = st.query_params.to_dict()
    pushed = st.session_state.get(_PUSHED)
    # Streamlit's own navigation empties the URL: that is no wish to forget every choice.
    if url == pushed or (not url and pushed is not None):
        return
    # A rerun before the next push must not take the same URL over once more.
    st.session_state[_PUSHED] = url
    st.session_state[_PULLS] = pulls() + 1
    for name, choice in CHOICES.items():
        value = choice.default
        if name in url:
            try:
                value = choice.parse(url[name])
            except ValueError as error:
                shown = (choice.format(value) if value is not None else "") or "the default"
                notice(f"{name}={url[name]} in the URL is wrong ({error}); showing {shown}.")
        if value != get(name):
            st.session_state.setdefault(_LINKED, set()).add(name)
        st.session_state[name] = value


def forget(*names: str) -> None:
    """Back to the defaults; fields that show a part of a choice are renewed."""
    put(**{name: CHOICES[name].default for name in names})
    st.session_state[_PULLS] = pulls() + 1


def pulls() -> int:
    """How often choices came from elsewhere than their own fields.

    A field that shows a part of a choice has it in its key.
    """
    return st.session_state.get(_PULLS, 0)


def encoded(**changes: Any) -> dict[str, str]:
    """The URL's parameters for what is chosen now, but for `changes`."""
    found: dict[str, str] = {}
    filled: Mapping[str, Any] = st.session_state.get(_FILLED, {})
    for name, choice in CHOICES.items():
        value = changes[name] if name in changes else get(name)
        if name not in changes and name in filled and filled[name] == value:
            continue
        if value is not None and (value != choice.default or (name == "run" and value)):
            found[name] = choice.format(value)
    return found


def push() -> None:
    """Writes what is chosen into the URL."""
    wanted = encoded()
    if wanted != st.query_params.to_dict():
        st.query_params.from_dict(wanted)
    st.session_state[_PUSHED] = wanted


def page_file(page: str) -> Path:
    """The script of a page."""
    return _VIEWS / page / f"{page}.py"


def go(page: str, **changes: Any) -> NoReturn:
    """Opens a page (`rollouts`, say) with some choices changed; does not return.

    The changes travel in the URL and are pulled from it there: the widgets of this run of the script
    are drawn, and their values can't be set any more.
    """
    st.switch_page(page_file(page), query_params=encoded(**changes))
