"""Answers of tools that are no answers: what the same first call of the same prompt got in one rollout
and not in others, what several calls got alike, and what nobody who ended with it was paid for.

At its first call a rollout has changed nothing yet, so that the policy can't be what differs. A policy's
mistake is answered alike in every rollout that makes it: no file of that name, no such tool, a loop that
runs out of time. What a search finds may vary, but then it is not alike over calls and prompts, or
somebody is paid for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from board.core.failures.causes import MOST_CHARACTERS
from board.index.segments import (
    FIRST_CALL,
    FIRST_OUTPUT_KEY,
    FIRST_SHAPE,
    LAST_OUTPUT,
    LAST_OUTPUT_KEY,
    PROMPT_KEY,
)
from board.query.causes.earned import Earned
from board.query.causes.same_endings import SPEAKS_OF_ERROR
from board.query.database import quoted

_NEEDS: Final = frozenset(
    (PROMPT_KEY, FIRST_SHAPE, FIRST_OUTPUT_KEY, LAST_OUTPUT, LAST_OUTPUT_KEY)
)
_LEAST: Final = 4
"""Calls that got it in one rollout and another answer in another, and prompts that end with it."""
_LEAST_ROLLOUTS: Final = 2
"""That end with it."""
_CHANCE: Final = math.log(0.01)
"""That nobody who ends with these answers was paid, had they been paid as often as the others that made
the same calls, times the ways to choose as many of all the answers that are looked at.
"""
_CHANCE_OF_ONE: Final = math.log(0.3)
"""The same of one of them."""
_CHANCE_OF_ONE_PROMPT: Final = math.log(1e-6)
"""The same of one that only one prompt ends with, which is not clear then: what a search finds is of its
prompt, and may mislead.
"""


def broken_answers(view: str, names: Collection[str], earned: Earned) -> str:
    """SQL for (ending, said, cause): the key of such an answer, what is said of it, and "tool_error"
    where it is one beyond chance or speaks of an error, else "unknown"; empty where the log does not
    have what it takes.
    """
    if not earned.value or not _NEEDS.issubset(names):
        return ""
    call, answer, ending = map(quoted, (FIRST_SHAPE, FIRST_OUTPUT_KEY, LAST_OUTPUT_KEY))
    is_paid = f"coalesce({earned.is_paid}, false)"
    return f"""
        WITH answers AS (
            SELECT {PROMPT_KEY} AS prompt, {call} AS call, {answer} AS answer, count(*) AS rollouts,
                count(*) FILTER ({is_paid}) AS paid
            FROM {view} WHERE {call} IS NOT NULL AND {answer} IS NOT NULL GROUP BY ALL),
        calls AS (
            SELECT prompt, call, sum(rollouts) AS of_call, sum(paid) AS paid_of_call
            FROM answers GROUP BY ALL HAVING count(*) > 1),
        differing AS (
            SELECT answer AS ending, count(*) AS calls, sum(rollouts) AS rollouts,
                sum(of_call - rollouts) AS others, sum(paid_of_call - paid) AS others_paid
            FROM answers JOIN calls USING (prompt, call) WHERE paid_of_call > paid GROUP BY answer),
        endings AS (
            SELECT {ending} AS ending, count(*) AS ended, count(DISTINCT {PROMPT_KEY}) AS prompts,
                count(*) FILTER ({is_paid}) AS paid, min({quoted(LAST_OUTPUT)}) AS text
            FROM {view} WHERE {ending} IN (SELECT ending FROM differing) GROUP BY ALL
            HAVING ended >= {_LEAST_ROLLOUTS}),
        tested AS (
            SELECT *, regexp_matches(text, '{SPEAKS_OF_ERROR}') AS speaks_of_error,
                ended * ln(1 - others_paid / (others + 1)) AS chance,
                calls + prompts >= {_LEAST} AND prompts > 1 AS is_common
            FROM differing JOIN endings USING (ending)),
        together AS (
            SELECT count(*) AS answers, count(*) FILTER (paid = 0) AS unpaid,
                lgamma(answers + 1) - lgamma(unpaid + 1) - lgamma(answers - unpaid + 1)
                    + sum(chance) FILTER (paid = 0) AS chance_together
            FROM tested WHERE is_common)
        SELECT ending, concat('no rewarded rollout ends with it, ', ended, ' of ', prompts,
                ' prompts do, and ', calls, ' first calls got it and other answers: ') AS said,
            CASE WHEN prompts > 1 AND (speaks_of_error
                OR (chance_together < {_CHANCE} AND chance < {_CHANCE_OF_ONE}))
                THEN 'tool_error' ELSE 'unknown' END AS cause
        FROM tested CROSS JOIN together
        WHERE paid = 0 AND (is_common OR (speaks_of_error AND prompts > 1)
            OR (calls + prompts >= {_LEAST} AND chance < {_CHANCE_OF_ONE_PROMPT}))"""


def broken_answer_case(table: str) -> tuple[str, str]:
    """SQL for the cause and the evidence of a rollout whose last output is in a table of these."""
    key = quoted(LAST_OUTPUT_KEY)
    cause, said = (
        f"(SELECT map(list(ending), list({name})) FROM {table})[{key}]"
        for name in ("cause", "said")
    )
    return cause, f"left({said} || {quoted(LAST_OUTPUT)}, {MOST_CHARACTERS})"
