"""The regular expressions of causes.toml, and those that a run's own causes.toml puts before them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, cast

import pyarrow as pa

from board.core.failures.causes import CAUSES
from board.errors import ChoiceError

FILE: Final = "causes.toml"
_KEYS: Final = {
    "cause": str,
    "pattern": str,
    "source": str,
    "only": str,
    "unless": str,
    "unless_tool": str,
    "needs_tool": bool,
    "only_unsaid": bool,
}
_KINDS: Final = ("recorded", "note", "output", "response", "evidence")


@dataclass(frozen=True, slots=True)
class Pattern:
    """cause: of what matches, but for texts that match `unless`. source: where it is from.

    only: a quick expression that every match matches, tried first. unless_tool: names of tools whose
    output it is not used for; needs_tool: only where the tool's name is recorded. only_unsaid: only where
    no key says whose record it is, or that it is the judge's.
    """

    cause: str
    pattern: str
    only: str = ""
    unless: str = ""
    unless_tool: str = ""
    needs_tool: bool = False
    only_unsaid: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class CausePatterns:
    """By what they are tried on: what the log records of a failure; notes of judge and harness; the last
    output of a tool; a short response; the evidence of a cause, however told. The first that matches
    decides.
    """

    recorded: tuple[Pattern, ...] = ()
    note: tuple[Pattern, ...] = ()
    output: tuple[Pattern, ...] = ()
    response: tuple[Pattern, ...] = ()
    evidence: tuple[Pattern, ...] = ()

    @property
    def version(self) -> str:
        """Another one whenever a pattern is another; empty for those of the package."""
        if self == packaged_patterns():
            return ""
        return hashlib.blake2b(repr(self).encode(), digest_size=16).hexdigest()

    def before(self, others: CausePatterns) -> CausePatterns:
        """These, and then the others."""
        return CausePatterns(*(getattr(self, kind) + getattr(others, kind) for kind in _KINDS))


@cache
def packaged_patterns() -> CausePatterns:
    """Those of the package."""
    text = resources.files("board.core.failures").joinpath(FILE).read_text(encoding="utf-8")
    return parse_patterns(text, is_checked=True)


def parse_patterns(text: str, *, is_checked: bool = False) -> CausePatterns:
    """The patterns of a file. Raises ChoiceError, which names the mistake. is_checked: that they are
    regular expressions is known; to look takes most of the time.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChoiceError(f"{FILE} is not TOML: {error}") from None
    if unknown := sorted(document.keys() - {*_KINDS, "words"}):
        known = ", ".join(f"[[{kind}]]" for kind in _KINDS)
        raise ChoiceError(f"{FILE} has [[{unknown[0]}]]; it may have {known} and [words.NAME]")
    words = {name: _words(name, table) for name, table in document.get("words", {}).items()}
    parts: dict[str, tuple[Pattern, ...]] = {}
    for name in _KINDS:
        tables = document.get(name, [])
        if not isinstance(tables, list):
            raise ChoiceError(f"{FILE}: write [[{name}]] with two brackets")
        entries = cast("list[Any]", tables)
        parts[name] = tuple(_pattern(name, table, words) for table in entries)
        if not is_checked:
            for pattern in parts[name]:
                _check(name, pattern)
    return CausePatterns(**parts)


def _words(name: str, table: object) -> str:
    pattern = cast("Mapping[str, Any]", table).get("pattern") if isinstance(table, dict) else None
    if not isinstance(pattern, str):
        raise ChoiceError(f"{FILE} [words.{name}]: pattern is missing")
    return pattern


def _pattern(part: str, table: Mapping[str, Any], words: Mapping[str, str]) -> Pattern:
    for name, value in table.items():
        if name not in _KEYS or not isinstance(value, _KEYS[name]):
            raise ChoiceError(f"{FILE} [[{part}]]: {name} = {value!r} is not one of {[*_KEYS]}")
    cause = table.get("cause", "")
    if cause not in CAUSES:
        raise ChoiceError(f"{FILE} [[{part}]]: cause {cause!r} is not one of {', '.join(CAUSES)}")
    if not table.get("pattern"):
        raise ChoiceError(f"{FILE} [[{part}]]: pattern is missing")
    patterns = {name: table.get(name, "") for name in ("pattern", "only", "unless", "unless_tool")}
    for key, text in patterns.items():
        for name, expression in words.items():
            text = text.replace(f"{{{name}}}", expression)
        patterns[key] = text
    return Pattern(**{**table, **patterns})


def _check(part: str, pattern: Pattern) -> None:
    import pyarrow.compute as pc

    for text in (pattern.pattern, pattern.only, pattern.unless, pattern.unless_tool):
        try:
            pc.match_substring_regex(pa.array([""]), text)
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ")
            raise ChoiceError(
                f"{FILE} [[{part}]]: {text!r} is no regular expression: {reason}"
            ) from None
