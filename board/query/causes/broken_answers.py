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
    ANSWERS,
    CALL_SHAPES,
    CALLS,
    LAST_OUTPUT,
    LAST_OUTPUT_KEY,
    PROMPT_KEY,
)
from board.query.causes.earned import Earned
from board.query.causes.same_endings import SPEAKS_OF_ERROR
from board.query.database import quoted

_NEEDS: Final = frozenset((PROMPT_KEY, CALLS, CALL_SHAPES, ANSWERS, LAST_OUTPUT, LAST_OUTPUT_KEY))
_LEAST: Final = 4
"""Calls that got it in one rollout and another answer in another, and prompts that end with it."""
_LEAST_ROLLOUTS: Final = 2
"""That end with it."""
_OF_THE_CALL: Final = (
    "FAILED |(?i:not found|no such|does ?n.t exist|does not exist|unknown|invalid|assert|denied"
    "|\\b40[04]\\b)"
)
"""What says what was wrong with a call, which may be another one of the same shape."""
_LEAST_COVERED: Final = 0.3
"""Of the rollouts that got it at first, the share whose call others got another answer to."""
_CHANCE: Final = math.log(0.001)
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
    calls, shapes, answers, ending = map(quoted, (CALLS, CALL_SHAPES, ANSWERS, LAST_OUTPUT_KEY))
    is_paid = f"coalesce({earned.is_paid}, false)"
    return f"""
        WITH endings AS (
            SELECT {ending} AS ending, count(*) AS ended, count(DISTINCT {PROMPT_KEY}) AS prompts,
                count(*) FILTER ({is_paid}) AS paid, min({quoted(LAST_OUTPUT)}) AS text
            FROM {view} WHERE {ending} IS NOT NULL GROUP BY ALL
            HAVING ended >= {_LEAST_ROLLOUTS}),
        asked AS (
            SELECT DISTINCT {PROMPT_KEY} FROM {view}
            WHERE {ending} IN (SELECT ending FROM endings WHERE paid = 0)),
        answers AS (
            SELECT prompt, call, shape, ending, count(*) AS rollouts, count(*) FILTER (is_paid) AS paid
            FROM (SELECT {PROMPT_KEY} AS prompt, {is_paid} AS is_paid, unnest({calls}) AS call,
                    unnest({shapes}) AS shape, unnest({answers}) AS ending
                FROM {view} WHERE {calls} IS NOT NULL AND {PROMPT_KEY} IN (FROM asked))
            GROUP BY ALL),
        by_call AS ({_differing("call")}),
        by_shape AS ({_differing("shape")}),
        first AS (SELECT ending, sum(rollouts) AS first FROM answers GROUP BY ending),
        tested AS (
            SELECT *, ended * ln(1 - others_paid / (others + 1)) AS chance,
                calls + prompts >= {_LEAST} AND prompts > 1 AS is_common
            FROM by_call JOIN endings USING (ending)),
        common AS (SELECT count(*) AS looked_at FROM endings WHERE prompts > 1),
        together AS (
            SELECT greatest(any_value(looked_at), count(*)) AS answers, count(*) AS unpaid,
                lgamma(answers + 1) - lgamma(unpaid + 1) - lgamma(answers - unpaid + 1)
                    + sum(chance) AS chance_together
            FROM tested CROSS JOIN common WHERE is_common AND paid = 0),
        found AS (
            SELECT ending, calls, prompts, ended, CASE WHEN prompts > 1
                    AND chance_together < {_CHANCE} AND chance < {_CHANCE_OF_ONE}
                    THEN 'tool_error' ELSE 'unknown' END AS cause
            FROM tested CROSS JOIN together
            WHERE paid = 0 AND (is_common
                OR (calls + prompts >= {_LEAST} AND chance < {_CHANCE_OF_ONE_PROMPT}))
            UNION ALL
            SELECT ending, calls, prompts, ended, 'tool_error'
            FROM by_shape JOIN endings USING (ending) JOIN first USING (ending)
            WHERE paid = 0 AND prompts > 1 AND calls > 1 AND rollouts >= {_LEAST_COVERED} * first
                AND regexp_matches(text, '{SPEAKS_OF_ERROR}')
                AND NOT regexp_matches(text, '{_OF_THE_CALL}'))
        SELECT ending, min(cause) AS cause, concat('no rewarded rollout ends with it, ', any_value(ended),
                ' of ', any_value(prompts), ' prompts do, and ', max(calls),
                ' calls got it and other answers: ') AS said
        FROM found GROUP BY ending"""


def _differing(call: str) -> str:
    """SQL for the answers that calls got beside others, of which some were paid. call: what is equal in
    them, besides the prompt.
    """
    return f"""
        WITH of_calls AS (
            SELECT prompt, {call}, sum(rollouts) AS of_call, sum(paid) AS paid_of_call
            FROM answers GROUP BY ALL HAVING count(DISTINCT ending) > 1)
        SELECT ending, count(DISTINCT (prompt, {call})) AS calls, sum(rollouts) AS rollouts,
            sum(of_call - rollouts) AS others, sum(paid_of_call - paid) AS others_paid
        FROM answers JOIN of_calls USING (prompt, {call})
        WHERE paid_of_call > paid GROUP BY ending"""


def broken_answer_case(table: str) -> tuple[str, str]:
    """SQL for the cause and the evidence of a rollout whose last output is in a table of these."""
    key = quoted(LAST_OUTPUT_KEY)
    cause, said = (
        f"(SELECT map(list(ending), list({name})) FROM {table})[{key}]"
        for name in ("cause", "said")
    )
    return cause, f"left({said} || {quoted(LAST_OUTPUT)}, {MOST_CHARACTERS})"
