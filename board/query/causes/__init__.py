"""The cause of each rollout's failure, as SQL over what the index has of it.

In this order: what the log records; a limit that cut the rollout; a note of the judge or the harness that
a pattern matches; a reward that is missing. Then, of rollouts whose reward is at the floor: the last
output of a tool, a response that was never generated, a response that an error took the place of, a mark
that the reward is none, and an ending that suddenly many prompts have. What is left is the policy's: a
wrong answer is never called a failure of infrastructure, and a rollout that was paid has no cause but a
recorded one. Patterns over the evidence overrule all this: somebody looked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from board.core.failures.causes import FLAGGED, MOST_CHARACTERS, NOTED, PLUMBING, UNDECIDED
from board.index.discovery.cause_patterns import CausePatterns, Pattern
from board.index.segments import (
    CAUSE_COLUMNS,
    FAILURE,
    LAST_OUTPUT,
    LAST_TOOL,
    MESSAGES,
    Column,
)
from board.query.causes import same_endings
from board.query.database import quoted

CAUSE, CAUSE_EVIDENCE, CAUSE_PATTERN, CAUSE_BASIS = CAUSE_COLUMNS
"""cause_pattern is the evidence with # for each of its numbers: equal for failures that are alike."""
COLUMNS: Final = tuple(Column(name, texts=True, words=True) for name in CAUSE_COLUMNS)
_SHORT_RESPONSE: Final = 300
"""Characters; what takes the place of a response is short."""
_NOTHING: Final = "CAST(NULL AS VARCHAR)"


@dataclass(frozen=True, slots=True)
class _Case:
    """SQL for a cause, its evidence and when it is one; empty: where the cause is not NULL. basis: one of
    causes.BASES, empty for none.
    """

    cause: str
    evidence: str
    basis: str
    when: str = ""


def cause_sql(
    name: str, names: Collection[str], patterns: CausePatterns, endings: str, floor: float
) -> str:
    """SQL for one of COLUMNS, NULL where a rollout has no reason to be asked.

    names: columns of its rows. endings: the table of same_endings; empty where there is none. floor: the
    lowest reward that says nothing good of a rollout.
    """
    cases = [*_cases(names, patterns, endings, floor)]
    if not cases:
        return _NOTHING
    evidence = _value_of(cases, CAUSE_EVIDENCE)
    if name == CAUSE_EVIDENCE:
        return evidence
    if name == CAUSE_PATTERN:
        return without_numbers(evidence)
    value = _value_of(cases, name)
    if patterns.evidence:
        whens = " ".join(
            f"WHEN {_matches(evidence, one)} THEN '{one.cause if name == CAUSE else 'confirmed'}'"
            for one in patterns.evidence
        )
        return f"(CASE {whens} ELSE {value} END)"
    return value


def without_numbers(evidence: str) -> str:
    """SQL for CAUSE_PATTERN of SQL for CAUSE_EVIDENCE."""
    return f"regexp_replace({evidence}, '[0-9]+', '#', 'g')"


def _value_of(cases: Sequence[_Case], name: str) -> str:
    """SQL for the cause, evidence or basis of the first case that holds. Each expression is in it once:
    they take longer to compile than to run.
    """
    value = _NOTHING
    for case in reversed(cases):
        basis = f"'{case.basis}'" if case.basis else _NOTHING
        own = {CAUSE: case.cause, CAUSE_EVIDENCE: case.evidence}.get(name, basis)
        if not case.when and name == CAUSE:
            value = f"coalesce({own}, {value})"
        else:
            when = case.when or f"{case.cause} IS NOT NULL"
            value = f"CASE WHEN {when} THEN {own} ELSE {value} END"
    return f"({value})"


def _cases(
    names: Collection[str], patterns: CausePatterns, endings: str, floor: float
) -> Sequence[_Case]:
    """In the order in which they are tried."""
    has_reward = "reward" in names
    reward = "nullif(reward, 'nan'::DOUBLE)" if has_reward else "NULL"
    cases = [*_recorded_cases(names, patterns, reward)]
    if "is_truncated" in names:
        evidence = "'is_truncated'"
        if "finish_reason" in names:
            evidence = "coalesce('finish_reason=' || finish_reason, 'is_truncated')"
        cases.append(_Case("'truncated'", evidence, "recorded", "is_truncated > 0"))
    if has_reward:
        is_paid = f"{reward} > {floor!r}"
        cases.append(_Case(_NOTHING, _NOTHING, "", is_paid))
    if FAILURE in names and patterns.note:
        decided = _first_match(_evidence_of_log(), patterns.note)
        noted = f"CASE WHEN {_begins(NOTED)} THEN {decided} END"
        cases.append(_Case(noted, _evidence_of_log(), "lexical"))
    if has_reward:
        unscored = _Case("'unscored'", "'no reward is recorded'", "recorded", f"{reward} IS NULL")
        cases.append(unscored)
    if LAST_OUTPUT in names:
        cases += _output_cases(names, patterns.output)
    if empty := _no_output(names):
        cases.append(_Case("'server'", "'the response is empty'", "structural", empty))
    if "response" in names and patterns.response:
        decided = _first_match("response", patterns.response)
        is_short = f"length(response) < {_SHORT_RESPONSE}"
        said = f"left('response: ' || response, {MOST_CHARACTERS})"
        cases.append(_Case(f"CASE WHEN {is_short} THEN {decided} END", said, "lexical"))
    if FAILURE in names:
        cases.append(_Case("'unknown'", _evidence_of_log(), "recorded", _begins(FLAGGED)))
    cases += [
        _Case("'unknown'", said, "structural", when)
        for said, when in same_endings.conditions(names, endings)
    ]
    if has_reward:
        earned = "'reward ' || round(reward, 4)"
        cases.append(_Case("'policy'", earned, "", f"{reward} <= 0"))
    return cases


def _evidence_of_log() -> str:
    failure = quoted(FAILURE)
    return f"substr({failure}, instr({failure}, ': ') + 2)"


def _begins(sign: str) -> str:
    return f"starts_with({quoted(FAILURE)}, '{sign}')"


def _recorded_cases(
    names: Collection[str], patterns: CausePatterns, reward: str
) -> Sequence[_Case]:
    """What the log says by a cause, and what patterns make of an error that it records."""
    if FAILURE not in names:
        return ()
    code, evidence = f"split_part({quoted(FAILURE)}, ': ', 1)", _evidence_of_log()
    # Whose record it is goes before words of infrastructure in it: a judge has connections too.
    likely = f"nullif(substr({code}, 2), '')"
    said = f"regexp_replace({evidence}, '[A-Za-z0-9_.]+=', '', 'g')"
    whens = " ".join(
        f"WHEN {_whose(one, likely)}{_matches(said, one)} THEN '{one.cause}'"
        for one in patterns.recorded
    )
    # Who generated nothing failed by its server, if nobody says more.
    unsaid = f"CASE WHEN {empty} THEN 'server' END" if (empty := _no_output(names)) else "NULL"
    decided = f"coalesce(CASE {whens} END, {likely}, {unsaid}, 'unknown')"
    paid_for = f"CASE WHEN {reward} > 0 THEN 'policy' ELSE '' END"
    is_open = _begins(UNDECIDED)
    return (
        _Case(f"CASE WHEN {is_open} THEN nullif({decided}, {paid_for}) END", evidence, "recorded"),
        _Case(
            code,
            evidence,
            "recorded",
            f"NOT {is_open} AND {code} NOT IN ('{NOTED}', '{FLAGGED}', {paid_for})",
        ),
    )


def _whose(pattern: Pattern, likely: str) -> str:
    """SQL for whether a pattern is tried on the record of somebody, and AND; a judge runs programs."""
    if pattern.cause in PLUMBING:
        return f"{likely} IS NULL AND "
    return f"coalesce({likely}, 'judge') = 'judge' AND " if pattern.only_unsaid else ""


def _output_cases(names: Collection[str], patterns: Sequence[Pattern]) -> Sequence[_Case]:
    text, tool = quoted(LAST_OUTPUT), quoted(LAST_TOOL) if LAST_TOOL in names else "NULL"
    by = f"coalesce(' of ' || {tool}, '')"
    said = f"left('last output' || {by} || ': ' || {text}, {MOST_CHARACTERS})"
    decided = _first_match(text, patterns, tool)
    return [_Case(decided, said, "lexical")]


def _first_match(text: str, patterns: Sequence[Pattern], tool: str = "NULL") -> str:
    """SQL for the cause of the first of the patterns that a text matches, NULL without one."""
    groups = [
        (only, " ".join(f"WHEN {_guard(p, tool)}{_matches(text, p)} THEN '{p.cause}'" for p in own))
        for only, own in groupby(patterns, attrgetter("only"))
    ]
    decisions = [
        f"CASE WHEN regexp_matches({text}, {_literal(only)}) THEN CASE {whens} END END"
        if only
        else f"CASE {whens} END"
        for only, whens in groups
    ]
    return f"coalesce({', '.join(decisions)}, NULL)" if decisions else "NULL"


def _matches(text: str, pattern: Pattern) -> str:
    matches = f"regexp_matches({text}, {_literal(pattern.pattern)})"
    if not pattern.unless:
        return matches
    return f"({matches} AND NOT regexp_matches({text}, {_literal(pattern.unless)}))"


def _guard(pattern: Pattern, tool: str) -> str:
    terms = [f"{tool} IS NOT NULL"] if pattern.needs_tool else []
    if pattern.unless_tool:
        terms.append(f"NOT regexp_matches(coalesce({tool}, ''), {_literal(pattern.unless_tool)})")
    return "".join(f"{term} AND " for term in terms)


def _no_output(names: Collection[str]) -> str:
    """SQL for whether the log says that nothing was generated, in text or tokens; empty where it can't.
    An end of text alone is a token. A prompt without a response is none where others have one.
    """
    tokens = "response_tokens" if "response_tokens" in names else "CAST(NULL AS BIGINT)"
    signs: list[str] = []
    if "response_tokens" in names:
        signs.append("response_tokens = 0")
    if "response_chars" in names:
        signs.append(f"({tokens} IS NULL AND response_chars = 0)")
        if "prompt" in names:
            unsaid = f"{tokens} IS NULL AND response_chars IS NULL AND response IS NULL"
            signs.append(f"({unsaid} AND prompt IS NOT NULL)" if "response" in names else "false")
    elif MESSAGES in names and "turns" in names:
        signs.append(f"({tokens} IS NULL AND turns IS NULL AND {quoted(MESSAGES)} IS NOT NULL)")
    return f"({' OR '.join(signs)})" if signs else ""


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
