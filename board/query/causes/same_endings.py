"""Endings that many unrelated prompts suddenly have in common: the last output of a tool, a note of the
judge, or a short response that speaks of an error, each without its numbers.

That prompts end alike is no sign by itself: a search finds nothing, tests fail. A failure begins at once,
where there was next to nothing of it before, or is on one rank alone; and nobody is paid for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Final

from board.core.failures.causes import MOST_CHARACTERS, NOTED
from board.index.segments import FAILURE, LAST_OUTPUT, LAST_OUTPUT_KEY, PROMPT_KEY
from board.query.causes.earned import Earned
from board.query.database import quoted

_LEAST_PROMPTS: Final = 3
_LEAST_ROLLOUTS: Final = 4
_LEAST_SHARE: Final = 0.1
"""Of the rollouts of the step at which it begins."""
_TIMES: Final = 10
"""As large a share as before, at least."""
_STEPS_BEFORE: Final = 3
_EXPECTED: Final = 10
"""Rollouts that would have ended so before, at the share of the step at which it begins; so that next to
none is no chance.
"""
_CHANCE: Final = math.log(1e-6)
"""That prompts lie on one rank alone by chance."""
SPEAKS_OF_ERROR: Final = (
    "(?i)err(?:or|eur|o\\b)|exception|fail|time.?d? ?out|unavailab|unreach|overload|refused|denied|crash"
    "|abort|killed|lost|gone|dead|cannot|could not|unable|not (?:respond|ready|running|found|start)"
    "|not (?:connect|checked)|no (?:space|route|license|response|longer)|exceeded|expired|reset"
    "|closed|broken|\\b5\\d\\d\\b"
    "|fehl|nicht (?:erreich|verf|gefunden|start)|abgebrochen|échou|échec|indispo|injoign|impossible"
    "|no disponible|fall[oó]|caíd|tiempo|falh|indispon|erro |tempo |não "
    "|ошибк|сбой|не отвеча|недоступ|не удал|错误|失败|超时|异常|不可用|无法|繁忙|失联"
    "|エラー|失敗|できません|停止|タイムアウト|오류|실패|없습니다|못했|시간 초과"
)
"""In several languages."""


def _sources(names: Collection[str]) -> Iterator[tuple[str, str, str, str]]:
    """Kind of ending, SQL for its key, which rows have one, and what is said of it."""
    if LAST_OUTPUT_KEY in names:
        key = quoted(LAST_OUTPUT_KEY)
        said = f"'suddenly many prompts end with: ' || {quoted(LAST_OUTPUT)}"
        yield "output", key, f"{key} IS NOT NULL", said
    if FAILURE in names:
        note = quoted(FAILURE)
        key = f"hash(regexp_replace({note}, '[0-9]+', '#', 'g'))::HUGEINT"
        said = f"'suddenly many prompts have: ' || substr({note}, {len(NOTED) + 3})"
        yield "note", key, f"starts_with({note}, '{NOTED}')", said
    if {"response", "response_chars"} <= {*names}:
        key = "hash(regexp_replace(response, '[0-9]+', '#', 'g'))::HUGEINT"
        is_one = (
            f"response_chars BETWEEN 1 AND 240 AND regexp_matches(response, '{SPEAKS_OF_ERROR}')"
        )
        yield "response", key, is_one, "'suddenly many prompts get: ' || response"


def conditions(names: Collection[str], table: str) -> Iterator[tuple[str, str]]:
    """SQL for the evidence and when it is one. table: of what same_endings gives; empty: none."""
    for kind, key, is_one, said in _sources(names) if table else ():
        own = f"SELECT (step, ending) FROM {table} WHERE kind = '{kind}'"
        yield f"left({said}, {MOST_CHARACTERS})", f"{is_one} AND (step, {key}) IN ({own})"


def same_endings(view: str, names: Collection[str], earned: Earned) -> str:
    """SQL for (kind, step, ending): an ending, by its key, at a step at which it is a sign of failure;
    empty where nothing of that kind is recorded. view, names: of the run's rows.
    """
    if PROMPT_KEY not in names:
        return ""
    own = [
        f"SELECT '{kind}' AS kind, * FROM ({_of_kind(view, names, key, is_one, earned)})"
        for kind, key, is_one, _ in _sources(names)
    ]
    return " UNION ALL ".join(own)


def _of_kind(view: str, names: Collection[str], key: str, is_one: str, earned: Earned) -> str:
    best = f"coalesce(max({earned.value}), {earned.floor!r})" if earned.value else "0"
    rank = "rank" if "rank" in names else "NULL"
    return f"""
        WITH endings AS (
            SELECT step, {key} AS ending, count(*) AS rollouts, {best} AS best, min({rank}) AS low,
                max({rank}) AS high, count(DISTINCT {PROMPT_KEY}) AS prompts
            FROM {view} WHERE {is_one} GROUP BY ALL),
        steps AS (
            SELECT step, count(*) AS of_step, coalesce(sum(count(*)) OVER earlier, 0) AS before,
                coalesce(count(*) OVER earlier, 0) AS steps_before
            FROM {view} GROUP BY step
            WINDOW earlier AS (ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
        common AS (
            SELECT *, coalesce(sum(rollouts) OVER (PARTITION BY ending ORDER BY step
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS own_before,
                max(best) OVER (PARTITION BY ending) AS best_ever
            FROM endings JOIN steps USING (step)
            WHERE ending IN (SELECT ending FROM endings WHERE rollouts > 1)),
        begun AS (
            SELECT ending, min(step) AS begins FROM common
            WHERE prompts >= {_LEAST_PROMPTS} AND rollouts >= {_LEAST_ROLLOUTS}
                AND steps_before >= {_STEPS_BEFORE} AND rollouts >= {_LEAST_SHARE} * of_step
                AND rollouts * before >= of_step * greatest({_TIMES} * own_before, {_EXPECTED})
            GROUP BY ending),
        on_one_rank AS (
            SELECT ending FROM common GROUP BY ending
            HAVING min(low) = max(high) AND sum(prompts) * ln({_share_of_rank(view, names, "min(low)")})
                < {_CHANCE})
        SELECT step, ending FROM common LEFT JOIN begun USING (ending)
        WHERE best_ever <= {earned.floor!r}
            AND (step >= begins OR ending IN (SELECT ending FROM on_one_rank))"""


def _share_of_rank(view: str, names: Collection[str], rank: str) -> str:
    """SQL for the share of the rollouts that a rank has; 1 where none is recorded."""
    if "rank" not in names:
        return "1"
    return f"(SELECT count(*) FILTER (rank = {rank}) / count(*) FROM {view})"
