"""What people say of failures that are alike: rules that overrule the cause, in causes.rules.toml.

The file lies beside the labels of a run: in its folder .rollout-board, or else in the user's cache. It
has tables [[evidence]] as causes.toml may have them, so that they can be copied there for other
runs. They are only ever appended; the newest that matches decides.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Final

from board.core.failures.causes import Cause
from board.errors import ChoiceError
from board.index.discovery.cause_patterns import CausePatterns, parse_patterns
from board.index.discovery.run_info import RunInfo
from board.index.shared_files import FileStates, append_lines, lines_of, places_for, states_of

FILE: Final = "causes.rules.toml"
_SPECIAL: Final = re.compile(r"([\\.+*?()|\[\]{}^$])")
_ESCAPED: Final = r"\\\1"
_NUMBER: Final = "(?:#|[0-9]+)"


def state_of(info: RunInfo) -> FileStates:
    """Another one when the rules of a run may be others."""
    return states_of(places_for(info.path, FILE))


def rules_text(info: RunInfo) -> str:
    """The rules of a run as TOML; empty where there are none."""
    return "\n".join(lines_of(places_for(info.path, FILE)))


def read_rules(info: RunInfo) -> CausePatterns:
    """The rules of a run, the newest first. Raises ChoiceError where the file can't be used."""
    rules = parse_patterns(rules_text(info))
    return CausePatterns(evidence=tuple(reversed(rules.evidence)))


def add_rule(info: RunInfo, cause: Cause, alike: str, author: str) -> None:
    """Says of failures that are alike what they are. alike: their evidence with # for each number.

    Raises ChoiceError where nothing can be written.
    """
    append_lines(places_for(info.path, FILE), rule_of(cause, alike, author).encode())


def rule_of(cause: Cause, alike: str, author: str) -> str:
    """The rule as a table of causes.toml, for failures with this evidence, whatever its numbers."""
    literal = _SPECIAL.sub(_ESCAPED, alike).replace("#", _NUMBER)
    source = f"{author}, {datetime.now(UTC).date().isoformat()}"
    values = {"cause": cause, "pattern": f"^{literal}$", "source": source}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    text = "\n".join(["[[evidence]]", *lines, ""])
    try:
        parse_patterns(text)
    except ChoiceError as error:
        raise ChoiceError(f"no rule can be made of this evidence: {error}") from None
    return text
