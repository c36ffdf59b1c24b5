"""The cause of each rollout's failure, as SQL over what the index has of it.

In this order: what the log records, a limit that cut the rollout, a reward that is missing; then, of
rollouts whose reward is 0 or less, the last output of a tool, a response that was never generated, and an
output that many prompts ended with. What is left is the policy's: a wrong answer is never called a
failure of infrastructure, and a rollout with a positive reward has no cause but a recorded one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from board.core.failures.causes import MOST_CHARACTERS, UNDECIDED
from board.index.discovery.cause_patterns import CausePatterns, Pattern
from board.index.segments import (
    FAILURE,
    LAST_OUTPUT,
    LAST_OUTPUT_KEY,
    LAST_TOOL,
    PROMPT_KEY,
    Column,
)
from board.query.database import quoted

CAUSE: Final = "cause"
CAUSE_EVIDENCE: Final = "cause_evidence"
CAUSE_PATTERN: Final = "cause_pattern"
"""The evidence with # for each of its numbers: equal for failures that are alike."""
COLUMNS: Final = tuple(
    Column(name, texts=True, words=True) for name in (CAUSE, CAUSE_EVIDENCE, CAUSE_PATTERN)
)
_LEAST_PROMPTS: Final = 3
_LEAST_SHARE: Final = 0.2
_NOTHING: Final = "CAST(NULL AS VARCHAR)"


def cause_sql(name: str, names: Collection[str], patterns: CausePatterns, table: str) -> str:
    """SQL for one of COLUMNS, NULL where a rollout has no reason to be asked.

    names: columns of its rows. table: of what same_outputs gives; empty where there is none.
    """
    cases = _cases(names, patterns, table)
    place = 0 if name == CAUSE else 1
    whens = "\n".join(f"WHEN {case[2]} THEN {case[place]}" for case in cases)
    if not cases:
        return _NOTHING
    value = f"(CASE {whens} END)"
    return f"regexp_replace({value}, '[0-9]+', '#', 'g')" if name == CAUSE_PATTERN else value


def _cases(
    names: Collection[str], patterns: CausePatterns, table: str
) -> list[tuple[str, str, str]]:
    """Cause, evidence and condition, all SQL, in the order in which they are tried."""
    cases: list[tuple[str, str, str]] = []
    reward = "nullif(reward, 'nan'::DOUBLE)" if "reward" in names else "NULL"
    if FAILURE in names:
        failure = quoted(FAILURE)
        cause = f"split_part({failure}, ': ', 1)"
        evidence = f"substr({failure}, length({cause}) + 3)"
        decided = _first_match(evidence, patterns.recorded)
        cases += [
            (f"coalesce({decided}, 'unknown')", evidence, f"{cause} = '{UNDECIDED}'"),
            (
                cause,
                evidence,
                f"{failure} IS NOT NULL AND ({cause} <> 'policy' OR coalesce({reward}, 0) <= 0)",
            ),
        ]
    if "is_truncated" in names:
        evidence = "'is_truncated'"
        if "finish_reason" in names:
            evidence = "coalesce('finish_reason=' || finish_reason, 'is_truncated')"
        cases.append(("'truncated'", evidence, "is_truncated > 0"))
    if "reward" in names:
        cases.append(("'unscored'", "'no reward is recorded'", f"{reward} IS NULL"))
        cases.append((_NOTHING, _NOTHING, f"{reward} > 0"))
    if LAST_OUTPUT in names:
        text, tool = quoted(LAST_OUTPUT), quoted(LAST_TOOL) if LAST_TOOL in names else "NULL"
        by = f"coalesce(' of ' || {tool}, '')"
        said = f"left('last output' || {by} || ': ' || {text}, {MOST_CHARACTERS})"
        cases += [
            (
                f"'{one.cause}'",
                said,
                f"{_guard(one, tool)}regexp_matches({text}, {_literal(one.pattern)})",
            )
            for one in patterns.output
        ]
    if empty := _no_response(names):
        cases.append(("'server'", "'the response has no token'", empty))
    if LAST_OUTPUT in names and table:
        key = f"(step, {quoted(LAST_OUTPUT_KEY)}) IN (SELECT (step, output) FROM {table})"
        said = f"left('many prompts end with: ' || {quoted(LAST_OUTPUT)}, {MOST_CHARACTERS})"
        cases.append(("'unknown'", said, key))
    if "reward" in names:
        cases.append(("'policy'", "'reward ' || round(reward, 4)", f"{reward} <= 0"))
    return cases


def _first_match(text: str, patterns: Sequence[Pattern]) -> str:
    whens = " ".join(
        f"WHEN regexp_matches({text}, {_literal(one.pattern)}) THEN '{one.cause}'"
        for one in patterns
    )
    return f"CASE {whens} END" if whens else "NULL"


def _guard(pattern: Pattern, tool: str) -> str:
    terms = [f"{tool} IS NOT NULL"] if pattern.needs_tool else []
    if pattern.unless_tool:
        terms.append(f"NOT regexp_matches(coalesce({tool}, ''), {_literal(pattern.unless_tool)})")
    return "".join(f"{term} AND " for term in terms)


def _no_response(names: Collection[str]) -> str:
    """SQL for whether the log says that nothing was generated: an end of text alone is a token."""
    return "response_tokens = 0" if "response_tokens" in names else ""


def same_outputs(view: str, names: Collection[str]) -> str:
    """SQL for (step, output): an output, by its hash, with which three prompts or more end at a step, and
    a fifth of the rollouts that end with any, of which none has a positive reward; empty where no output
    is recorded. view, names: of the run's rows.
    """
    if not {LAST_OUTPUT_KEY, PROMPT_KEY} <= {*names}:
        return ""
    best = "coalesce(max(reward), 0)" if "reward" in names else "0"
    return f"""
        SELECT step, output FROM (
            SELECT *, sum(rollouts) OVER (PARTITION BY step) AS of_step FROM (
                SELECT step, {quoted(LAST_OUTPUT_KEY)} AS output, count(*) AS rollouts, {best} AS best,
                    count(DISTINCT {PROMPT_KEY}) AS prompts
                FROM {view} WHERE {quoted(LAST_OUTPUT_KEY)} IS NOT NULL GROUP BY ALL))
        WHERE prompts >= {_LEAST_PROMPTS} AND rollouts >= {_LEAST_SHARE} * of_step AND best <= 0"""


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
