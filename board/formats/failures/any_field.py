"""Failures that a log records under keys of any name, told by the words of keys and the shape of values.

Readers say what their own formats record; this is for what anybody adds to a log: `judgeError`,
`harness.exception`, `exit_code`, `mask_sample`. A number is a measure (`error_rate`, `n_errors`), but for
exit codes and statuses. Keys about the answer itself (`parse_error`, `failed_tests`) and about tools are
no failures by themselves: what they say is a note, which only patterns can make one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import orjson
import pyarrow as pa

from board.core.failures.causes import FLAGGED, NOTED, Cause, recorded, undecided
from board.formats.columns import Values
from board.formats.failures import error_text
from board.formats.failures.key_words import WHO, WORDS_OF, is_word_of_failure, words_of
from board.formats.parse import as_list, is_object

_Says = Literal["failure", "health", "code", "status", "flag", "note", "nothing"]
_MOST_DEPTH: Final = 4
_MOST_KEYS: Final = 200
_MOST_JSON: Final = 20_000
_SHORT_NOTE: Final = 120
_LONGEST_NOTE: Final = 1_000
_LONGEST_TEXT: Final = 300
"""Under a key that says nothing."""
_FAILURE, _FAILED, _HEALTH = (WORDS_OF[name] for name in ("failure", "failed", "healthy"))
_MEASURE, _OF_THE_ANSWER, _SERVICES, _CONTENT = (
    WORDS_OF[name] for name in ("measure", "of_the_answer", "services", "content")
)
_STATUS, _HARNESS, _NOTES = (WORDS_OF[name] for name in ("status", "harness", "notes"))
_BAD_STATUS, _NO_FAILURE = WORDS_OF["bad_status"], WORDS_OF["no_failure"]
_JUDGES: Final = frozenset(word for word, cause in WHO.items() if cause == "judge")
_EMPTY: Final = frozenset(
    (
        *(
            "",
            "none",
            "none.",
            "null",
            "false",
            "no",
            "0",
            "ok",
            "nan",
            "success",
            "n/a",
            "na",
            "-",
        ),
        *("[]", "{}", "normal", "completed", "complete", "done", "passed", "undefined", "finished"),
        *("stop", "no error", "no errors"),
    )
)
_KINDS: Final = frozenset(("type", "kind", "mode", "category", "class", "label", "tag"))
_KILLED: Final = frozenset((137, 139, -9, -11))
"""Exit codes of a process that was killed, by whoever watches the memory, or that broke down."""
_NOT_RUN: Final = frozenset((126, 255, -1))
"""The same of one that could not run at all."""
_REFUSED: Final = frozenset((408, 429))
_ORDER: Final[Sequence[_Says]] = ("failure", "health", "code", "status", "flag", "note")
_MAY_HOLD: Final = re.compile(r'"\w*(?:error|exc|fail|abort|crash|exit|status|mask)', re.IGNORECASE)


@lru_cache(maxsize=4096)
def _says(key: str) -> _Says:
    """What a value under a key may say of a failure."""
    words = {*words_of(key)}
    is_exit = words & {"exitcode", "returncode"} or ("code" in words and words & {"exit", "return"})
    is_exit = is_exit or (words_of(key)[-1:] == ("exit",) and words & WHO.keys())
    if is_exit or ("status" in words and words & {"code", "http"}):
        return "nothing" if words & (_OF_THE_ANSWER - {"code"}) else "code"
    if _is_flag(words):
        return "flag"
    if words & (_FAILURE | _FAILED):
        return _of_failure_key(words)
    if words & _HEALTH and words & WHO.keys() and not words & (_JUDGES - {"judge", "verifier"}):
        return "health"
    if words & _JUDGES and words & _NOTES:
        return "note"
    last = words_of(key)[-1:]
    return "status" if {*last} & _STATUS else "nothing"


def _of_failure_key(words: set[str]) -> _Says:
    if words & _MEASURE:
        return "nothing"
    # A kind of error (error_type) may be of the answer too: "calculation".
    if (words & _OF_THE_ANSWER and not words & _SERVICES) or words & _KINDS:
        return "note"
    if words & _FAILURE:
        return "failure"
    return "failure" if words & (WHO.keys() | _HARNESS) else "nothing"


def _is_flag(words: set[str]) -> bool:
    """Whether true means that a rollout has no score of its own, whatever the reason."""
    return not words & {"loss", "token", "tokens"} and bool(
        words & {"unscored", "ungraded"}
        or (
            words & {"mask", "masked", "remove", "drop", "dropped"}
            and words & {"sample", "rollout"}
        )
        or (words & {"reward", "score"} and words & {"none", "null", "missing", "nan"})
    )


def failure_of_fields(texts: Mapping[str, str], extras: Mapping[str, Any]) -> str | None:
    """What a reader says of a failure, else what failure_in says of why it ended and of extras."""
    known = texts.get(_KNOWN)
    if known and not _SAYS_THAT_ALONE.match(known):
        return known
    return _surer(known, failure_in(_asked_fields(texts, extras)))


def _surer(known: str | None, other: str | None) -> str | None:
    """What another field says where what is known is a word: aborted with an exception has a reason.
    Beside such a word a note says why, in whatever words.
    """
    if not known or not other or not (word := _SAYS_THAT_ALONE.match(known)):
        return known or other
    if _SAYS_WHY.match(other):
        return other
    if not other.startswith(NOTED):
        return known
    evidence = f"{known[word.end(1) + 2 :]}, {other[len(NOTED) + 2 :]}"
    return undecided(evidence, "aborted" if word[1] == "aborted" else None)


def failures_of_columns(texts: Mapping[str, Values], extras: Mapping[str, Values]) -> Values:
    """The same of columns of many rollouts."""
    fields, known = _asked_fields(texts, extras), texts.get(_KNOWN)
    asked = {
        key: asked_values
        for key, values in fields.items()
        if (asked_values := _asked_values(key, values)) is not None
    }
    if not asked:
        return known or []
    rows = [_failure_of_row((*asked,), row) for row in zip(*asked.values(), strict=True)]
    return rows if known is None else [*map(_surer, known, rows)]


def _asked_values(key: str, values: Values) -> Values | None:
    """Values under a key, None in the place of those that say nothing of a failure; None where all do."""
    if _says(key) != "nothing":
        return values
    kinds = {*map(type, values)}
    if kinds.isdisjoint((str, dict)) or not _CONTENT.isdisjoint(words_of(key)):
        return None
    may_speak = _may_speak(values) if str in kinds else None
    if may_speak is None:
        return values if dict in kinds else None
    return [
        value
        if type(value) is dict
        or (
            may and (_is_json(value) or _speaks_of_failure(value) or is_word_of_failure(key, value))
        )
        else None
        for value, may in zip(values, may_speak, strict=True)
    ]


def _may_speak(values: Values) -> Sequence[bool | None] | None:
    """Which of the values may be such texts as _is_json or _speaks_of_failure tells; None where none may.
    Arrow looks through all in a fortieth of the time that Python takes for one after the other.
    """
    is_text = {*map(type, values)} == {str}
    joined = _LINE.join(values if is_text else [text for text in values if type(text) is str])
    if "{" not in joined and " " not in joined and not _MAY_BE_WORD.search(joined):
        return None
    texts = [
        value if type(value) is str and (len(value) <= _LONGEST_TEXT or value[0] == "{") else None
        for value in values
    ]
    import pyarrow.compute as pc

    may_speak = pc.match_substring_regex(pa.array(texts, pa.string()), _MAY_SAY).to_pylist()
    return may_speak if True in may_speak else None


def _failure_of_row(keys: tuple[str, ...], row: tuple[Any, ...]) -> str | None:
    try:
        return _failure_of_values(keys, row, (*map(type, row),))
    except TypeError:  # an object, which can't be remembered
        return failure_in(dict(zip(keys, row, strict=True)))


@lru_cache(maxsize=1024)
def _failure_of_values(
    keys: tuple[str, ...], row: tuple[Any, ...], types: tuple[type, ...]
) -> str | None:
    """Of most rows the values are the same few. types: tell True and 1 apart."""
    return failure_in(dict(zip(keys, row, strict=True)))


def _asked_fields(texts: Mapping[str, Any], extras: Mapping[str, Any]) -> Mapping[str, Any]:
    return {_REASON: texts[_REASON], **extras} if _REASON in texts else extras


def failure_in(fields: Mapping[str, Any]) -> str | None:
    """What fields of a log say of a failure, the surest of them; None where nothing says so.

    The result is as causes.recorded and its like write it: a cause; UNDECIDED; FLAGGED, which says that
    the reward is none; or NOTED, which is a failure only where a pattern says so.
    """
    hits = sorted(_hits(fields, (), 0), key=lambda hit: _ORDER.index(hit[0]))
    if not hits:
        return None
    note = next((text for says, text in hits[1:] if says == "note"), None)
    return _surer(hits[0][1], note)


def _hits(
    fields: Mapping[str, Any], path: tuple[str, ...], depth: int
) -> Iterator[tuple[_Says, str]]:
    for name, value in [*fields.items()][:_MOST_KEYS]:
        key = str(name)  # of a pickled object it may be a number
        if value is None:
            continue
        says, here = _says(key), (*path, key)
        hit = None if says == "nothing" else _HITS[says](here, value)
        if hit is not None:
            yield says, hit
        elif depth < _MOST_DEPTH and _CONTENT.isdisjoint(words_of(key)):
            inner = _object_of(value)
            if inner is not None:
                yield from _hits(inner, here, depth + 1)
            elif says == "nothing" and (
                _speaks_of_failure(value) or is_word_of_failure(key, value)
            ):
                yield "note", recorded(NOTED, _written(here, value))


def _object_of(value: object) -> Mapping[str, Any] | None:
    if is_object(value):
        return value
    if not isinstance(value, str) or not _is_json(value):
        return None
    try:
        parsed: object = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return parsed if is_object(parsed) else None


def _is_json(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.startswith("{")
        and len(value) <= _MOST_JSON
        and _MAY_HOLD.search(value) is not None
    )


def _speaks_of_failure(value: object) -> bool:
    """Whether it is a short text of several words, one of which may be of a failure."""
    is_text = isinstance(value, str) and len(value) <= _LONGEST_TEXT and " " in value.strip()
    return is_text and _MAY_FAIL.search(str(value)) is not None


def _written(path: Sequence[str], text: object) -> str:
    return f"{'.'.join(path)}={' '.join(str(text).split())}"


def _who(path: Sequence[str], text: str = "") -> Cause | None:
    """Of whom the nearest key speaks, or a text of a few words."""
    for name in (text, *reversed(path)):
        for word in words_of(name):
            if (cause := WHO.get(word)) is not None:
                return cause
    return None


def _text_of(value: object) -> str | None:
    """The text of an error, as failures.error_text has it; of several errors the last one. A traceback
    with a frame of the model's program says so first.
    """
    entries = as_list(value)
    value = entries[-1] if entries else value
    text = error_text(value)
    if text is not None and isinstance(value, str) and _OWN_PROGRAM.search(value):
        text = f"own program: {text.strip().rpartition(_LINE)[2]}"
    return None if text is None or text.strip().lower() in _EMPTY or _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _failure(path: Sequence[str], value: object) -> str | None:
    if (text := _text_of(value)) is None:
        return None
    evidence = _written(path, text)
    return undecided(evidence, _who(path))


def _health(path: Sequence[str], value: object) -> str | None:
    who = _who(path)
    is_bad = value is False or (isinstance(value, str) and value.lower() == "false")
    return recorded(who, _written(path, "false")) if is_bad and who else None


def _code(path: Sequence[str], value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        code = int(float(value))
    except (ValueError, OverflowError):
        return None
    words = {*words_of(path[-1])}
    is_status = "status" in words and "exit" not in words
    who = _who(path)
    killed = _KILLED | _NOT_RUN if who == "judge" else _KILLED
    is_bad = (500 <= code < 600 or code in _REFUSED) if is_status else code in killed
    if not is_bad:
        return None
    if is_status:
        return recorded(who or "server", _written(path, code))
    return recorded(who or "unknown", _written(path, code))


def _status(path: Sequence[str], value: object) -> str | None:
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_NOTE:
        return None
    words = {*words_of(value)}
    evidence = _written(path, value)
    if len(words) > 6 or " " in value.strip():
        return recorded(NOTED, evidence)
    who = _who(path, value)
    is_bad = words & _BAD_STATUS or (words & (_FAILED | {"failure", "failures"}) and who)
    if not is_bad or words & _NO_FAILURE:
        return None
    if words & {"preempted", "preemption", "evicted"} and "user" not in words:
        return recorded(who or "server", evidence)  # the machine was taken away
    if words <= {"abort", "aborted", "cancelled", "canceled", "interrupted", "user"}:
        return recorded("aborted", evidence)
    return undecided(evidence, who)


def _flag(path: Sequence[str], value: object) -> str | None:
    return recorded(FLAGGED, _written(path, "true")) if value is True or value == 1 else None


def _note(path: Sequence[str], value: object) -> str | None:
    if (text := _text_of(value)) is None or len(text) > _LONGEST_NOTE:
        return None
    if len(text) > _SHORT_NOTE and not _MAY_FAIL.search(text[:_SHORT_NOTE]):
        return None
    return recorded(NOTED, _written(path, text))


_KNOWN, _REASON = "failure", "finish_reason"
_SAYS_THAT_ALONE: Final = re.compile(r"(aborted|unknown|\?): [\w.]+=[\w-]*$")
"""A failure of which a reader knows one word, such as a status."""
_SAYS_WHY: Final = re.compile(r"[a-z?][a-z_]*: [^=]*=.*[^\w-]", re.DOTALL)
"""One of which a field has a text."""
_LINE: Final = "\n"
_OWN_PROGRAM: Final = re.compile(
    r'File "(?:<(?:string|stdin|ipython[^"]*|unknown)>|/tmp/[^"]*|[^"]*(?:solution|submission)\w*\.py)"'
)
_MAY_FAIL: Final = re.compile(
    r"(?i)error|exception|fail|time.?out|timed|unavail|unreach|refus|reset|clos|denied|rate.?limit|quota|"
    r"overload|\b[45]\d\d\b|crash|kill|memory|abort|traceback|empty|could|can.?not|unable|evict|lost|gone|"
    r"dead|died|dark|down|preempt|not ready|notready|missing|mount|no such|reboot|erreur|répond|indispo|"
    r"fehl|nicht|abgebro|ошиб|сбой|错误|失败|超时|异常|エラー|失敗|오류|실패|falha|erro\b|caíd|fall[oó]"
)
_MAY_BE_WORD: Final = re.compile(r"(?i)[a-z][_-]?(?:error|fail|timeout|lost|dead|died|crash)")
_MAY_SAY: Final = f"{_MAY_FAIL.pattern}|exc|exit|status|mask"
"""_MAY_FAIL and _MAY_HOLD, in the syntax that Arrow and Python share."""
_HITS: Final = {
    "failure": _failure,
    "health": _health,
    "code": _code,
    "status": _status,
    "flag": _flag,
    "note": _note,
}
