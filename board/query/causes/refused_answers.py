"""Notes that go with answers which others of the prompt were paid for.

A verdict depends on the answer. Where a note goes with right answers as with wrong ones, and the run's
other unpaid rollouts gave answers that nobody was paid for, who should have judged did not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from board.core.failures.causes import NOTED
from board.index.segments import FAILURE, PROMPT_KEY
from board.query.causes.earned import Earned
from board.query.causes.failed_scoring import masked_note
from board.query.database import quoted

_LEAST: Final = 3
"""Rollouts with the note whose answer others were paid for, and other unpaid ones to compare with."""
_LEAST_SHARE: Final = 0.3
"""Of the rollouts with the note, whose answer others were paid for."""
_MOST_OF_OTHERS: Final = 0.1
"""The same share of the other unpaid rollouts, at most: else an answer does not say what was paid for."""
_ENDING: Final = 80
"""Characters at the end of a response that are its answer, back to the end of a sentence."""


def refused_answers(view: str, names: Collection[str], earned: Earned) -> str:
    """SQL for (note, said): such notes, masked, and what is said of them; empty where nothing of the kind
    is recorded.
    """
    if not earned.value or not {FAILURE, PROMPT_KEY, "response"} <= {*names}:
        return ""
    text = (
        f"coalesce({quoted('whole:response')}, response)"
        if "whole:response" in names
        else "response"
    )
    answer = (
        f"hash(lower(regexp_extract(right(rtrim({text}, ' .!\\n'), {_ENDING}), '[^.!?\\n]*$')))"
    )
    return f"""
        WITH noted AS (
            SELECT {masked_note()} AS note, count(*) AS rollouts, count(DISTINCT {PROMPT_KEY}) AS prompts
            FROM {view} WHERE starts_with({quoted(FAILURE)}, '{NOTED}') GROUP BY ALL
            HAVING count(*) >= {_LEAST} AND count(*) FILTER ({earned.is_paid}) = 0 AND prompts > 1),
        answers AS (
            SELECT {PROMPT_KEY} AS prompt, {answer} AS answer, {masked_note()} AS note,
                coalesce({earned.is_paid}, false) AS is_paid
            FROM {view} WHERE {text} <> '' AND (SELECT count(*) FROM noted) > 0),
        paid AS (SELECT DISTINCT prompt, answer FROM answers WHERE is_paid),
        unpaid AS (
            SELECT note, count(*) AS rollouts, count(p.prompt) AS right_ones
            FROM answers AS a LEFT JOIN paid AS p USING (prompt, answer) WHERE NOT is_paid GROUP BY note),
        totals AS (SELECT sum(rollouts) AS rollouts, sum(right_ones) AS right_ones FROM unpaid)
        SELECT note, concat(u.right_ones, ' of ', u.rollouts,
            ' rollouts with it gave an answer that others of their prompt were paid for: ') AS said
        FROM unpaid AS u JOIN noted USING (note) CROSS JOIN totals AS t
        WHERE u.right_ones >= greatest({_LEAST}, {_LEAST_SHARE} * u.rollouts)
            AND t.rollouts - u.rollouts >= {_LEAST}
            AND t.right_ones - u.right_ones <= {_MOST_OF_OTHERS} * (t.rollouts - u.rollouts)"""
