"""Notes that stand where a verdict would: some of their rollouts have no reward at all, and none a good
one.

Who scores an answer as wrong gives it a reward; who fails to score it leaves it out, or takes a zero for
it. A note that goes with both is no verdict, in whatever words.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from board.core.failures.causes import MOST_CHARACTERS, NOTED
from board.index.segments import FAILURE, PROMPT_KEY
from board.query.causes.earned import Earned
from board.query.database import quoted

_LEAST_ROLLOUTS: Final = 2
_LEAST_MISSING: Final = 0.1
"""Of the rollouts with a note, the share without a reward."""
_MASKED: Final = r"""''[^'']*''|"[^"]*"|[\w.:/@-]*[0-9][\w.:/@-]*"""
"""What is quoted, numbers, ids and hosts, as an expression within a text of SQL."""
_LEAST_UNSCORED: Final = 4
"""Rollouts without a reward, of several prompts: of fewer nobody knows why."""
_MOST_MISSING: Final = 0.3
"""Of all rollouts, the share without a reward: where more have none it is meant so."""
_OFTEN: Final = 2
"""Times as large a share as of the other rollouts: where many are missing that says nothing of a note."""


def masked_note() -> str:
    """SQL for a note without its numbers, ids and what it quotes."""
    return f"regexp_replace({quoted(FAILURE)}, '{_MASKED}', '#', 'g')"


def unscored_prompts(view: str, names: Collection[str], earned: Earned) -> str:
    """SQL for (prompt): those of which some rollouts have no reward and more have one; empty where none
    is recorded.
    """
    if not earned.value or PROMPT_KEY not in names:
        return ""
    return f"""
        WITH prompts AS (
            SELECT {PROMPT_KEY} AS prompt, count(*) - count({earned.value}) AS missing
            FROM {view} WHERE {PROMPT_KEY} IS NOT NULL GROUP BY ALL
            HAVING missing > 0 AND missing <= count(*) / 2)
        SELECT prompt FROM prompts
        WHERE (SELECT count(*) > 1 AND sum(missing) >= {_LEAST_UNSCORED} FROM prompts)
            AND (SELECT count({earned.value}) >= {1 - _MOST_MISSING} * count(*) FROM {view})"""


def failed_scoring(view: str, names: Collection[str], earned: Earned) -> str:
    """SQL for (note, said): such notes, masked, and what is said of them; empty where nothing of the kind
    is recorded.
    """
    if not earned.value or not {FAILURE, PROMPT_KEY} <= {*names}:
        return ""
    reward = earned.value
    return f"""
        WITH rewards AS (
            SELECT count(*) AS rollouts, count(*) - count({reward}) AS missing FROM {view}),
        noted AS (
            SELECT {masked_note()} AS note, {reward} AS reward, {PROMPT_KEY} AS prompt
            FROM {view} WHERE starts_with({quoted(FAILURE)}, '{NOTED}')
                AND (SELECT missing FROM rewards) > 0),
        notes AS (
            SELECT note, count(*) AS own, count(*) - count(reward) AS own_missing,
                count(DISTINCT prompt) AS prompts
            FROM noted GROUP BY note
            HAVING own >= {_LEAST_ROLLOUTS} AND coalesce(max(reward) <= {earned.floor!r}, true))
        SELECT note, concat('no rewarded rollout has it, of ', own, ' of ', prompts, ' prompts ',
                own_missing, ' have no reward at all: ') AS said
        FROM notes CROSS JOIN rewards
        WHERE own_missing >= greatest({_LEAST_MISSING} * own,
            {_OFTEN} * own * (missing - own_missing) / greatest(rollouts - own, 1))
            AND own_missing > 0"""


def failed_scoring_case(table: str) -> tuple[str, str]:
    """SQL for the cause and the evidence of a rollout whose note is in a table of these."""
    said = f"(SELECT map(list(note), list(said)) FROM {table})[{masked_note()}]"
    cause = f"CASE WHEN starts_with({quoted(FAILURE)}, '{NOTED}') AND {said} IS NOT NULL THEN 'judge' END"
    note = f"substr({quoted(FAILURE)}, {len(NOTED) + 3})"
    return cause, f"left({said} || {note}, {MOST_CHARACTERS})"
