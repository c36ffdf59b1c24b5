"""The cause of each rollout's failure, as SQL over what the index has of it.

In this order: what the log records, where that says whose failure it is; a limit that cut the rollout.
Then, of rollouts whose reward is missing or at the floor: a note of the judge or the harness that a
pattern matches; the last output of a tool, by patterns; an answer that tells of a broken tool; a note of
a scorer that failed; a response that was never generated; a response that an error took the place of;
what the log records and not whose it is; a reward that is missing; a mark that the reward is none; and
an ending that suddenly many prompts have. What is left is the policy's: a wrong answer is never called a
failure of infrastructure, and a rollout that was paid has no cause but a recorded one. Patterns over the
evidence overrule all this: somebody looked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

import duckdb
import pyarrow as pa

from board.core.failures.causes import FLAGGED, MOST_CHARACTERS, NOTED, PLUMBING, UNDECIDED
from board.index.discovery.cause_patterns import CausePatterns, Pattern
from board.index.segments import (
    CAUSE_COLUMNS,
    FAILURE,
    LAST_OUTPUT,
    LAST_TOOL,
    MESSAGES,
    PROMPT_KEY,
    Column,
)
from board.query.causes.broken_answers import broken_answer_case, broken_answers
from board.query.causes.early_ends import EarlyEnds, early_end_cases, early_ends
from board.query.causes.earned import Earned, earned_in
from board.query.causes.failed_scoring import failed_scoring, failed_scoring_case, unscored_prompts
from board.query.causes.refused_answers import refused_answers
from board.query.causes.same_endings import conditions, same_endings
from board.query.database import quoted

CAUSE, CAUSE_EVIDENCE, CAUSE_PATTERN, CAUSE_BASIS = CAUSE_COLUMNS
"""cause_pattern is the evidence with # for each of its numbers: equal for failures that are alike."""
COLUMNS: Final = tuple(Column(name, texts=True, words=True) for name in CAUSE_COLUMNS)
_SHORT_RESPONSE: Final = 300
"""Characters; what takes the place of a response is short."""
_ANSWERS: Final = r"(?i)\\boxed|</?answer>|\n#### |final answer|the answer is|\n\n[A-Z]|…$"
"""What a response has that goes on after an error that it quotes; a long one is cut."""
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


@dataclass(frozen=True, slots=True)
class Signs:
    """What a run's rollouts show together.

    earned: what rollouts earned, and from where on they were paid.
    endings, broken, notes: tables of what same_endings, broken_answers and failed_scoring find; empty
    where they find nothing.
    """

    earned: Earned
    early: EarlyEnds | None = None
    unscored: str = ""
    endings: str = ""
    broken: str = ""
    notes: str = ""
    refused: str = ""


_TABLES: Final = (
    unscored_prompts,
    same_endings,
    broken_answers,
    failed_scoring,
    refused_answers,
)


def create_signs(
    cursor: duckdb.DuckDBPyConnection,
    read: Callable[[str], pa.Table],
    tables: Sequence[str],
    view: str,
    names: Collection[str],
) -> Signs:
    """Creates the tables of Signs. tables: their names; view, names: of the run's rows and columns."""
    earned = earned_in(read, view, names)
    created: list[str] = []
    for table, sql_of in zip(tables, _TABLES, strict=True):
        rows = None
        if sql := sql_of(view, names, earned):
            cursor.execute(f"CREATE TABLE {table} AS {sql}")
            rows = cursor.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
        created.append(table if rows else "")
    early = early_ends(read, view, names, earned)
    return Signs(earned, early, *created)


def cause_sql(name: str, names: Collection[str], patterns: CausePatterns, signs: Signs) -> str:
    """SQL for one of COLUMNS, NULL where a rollout has no reason to be asked.

    names: columns of its rows.
    """
    cases = [*_cases(names, patterns, signs)]
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


def _cases(names: Collection[str], patterns: CausePatterns, signs: Signs) -> Sequence[_Case]:
    """In the order in which they are tried."""
    has_reward = bool(signs.earned.value)
    reward, is_paid = signs.earned.or_nothing, signs.earned.is_paid
    cases = [*_recorded_cases(names, patterns, reward)]
    unclear = _is_unclear() if FAILURE in names else "false"
    if FAILURE in names and has_reward:
        by_policy = " OR ".join(_is_by_policy(one) for one in patterns.recorded) or "false"
        cases.append(_unclear_case(f"{unclear} AND {is_paid} AND NOT ({by_policy})"))
    if "is_truncated" in names:
        evidence = "'is_truncated'"
        if "finish_reason" in names:
            evidence = "coalesce('finish_reason=' || finish_reason, 'is_truncated')"
        is_cut = f"is_truncated > 0 AND NOT {unclear}"
        cases.append(_Case("'truncated'", evidence, "recorded", is_cut))
    if has_reward:
        cases.append(_Case(_NOTHING, _NOTHING, "", is_paid))
    cases += _told_by_texts(names, patterns, signs, reward if has_reward else "0")
    if FAILURE in names:
        cases.append(_unclear_case(unclear))
    if has_reward:
        is_unscored, said = f"{reward} IS NULL", "'no reward is recorded'"
        if signs.unscored:
            when = f"{is_unscored} AND {PROMPT_KEY} IN (SELECT prompt FROM {signs.unscored})"
            cases.append(
                _Case(
                    "'judge'",
                    f"{said[:-1]}, and others of its prompt have one'",
                    "structural",
                    when,
                )
            )
        cases.append(_Case("'unscored'", said, "recorded", is_unscored))
    if FAILURE in names:
        cases.append(_Case("'unknown'", _evidence_of_log(), "recorded", _begins(FLAGGED)))
    cases += [
        _Case("'unknown'", said, "structural", when)
        for said, when in conditions(names, signs.endings)
    ]
    if has_reward:
        said = f"'{signs.earned.said} ' || round({reward}, 4)"
        cases.append(_Case("'policy'", said, "", f"NOT {is_paid}"))
    return cases


def _told_by_texts(
    names: Collection[str], patterns: CausePatterns, signs: Signs, reward: str
) -> Iterator[_Case]:
    """What texts of a rollout say that was not paid. reward: SQL for it, NULL where it is missing."""
    if FAILURE in names and patterns.note:
        decided = _first_match(_evidence_of_log(), patterns.note)
        noted = f"CASE WHEN {_begins(NOTED)} THEN {decided} END"
        yield _Case(noted, _evidence_of_log(), "lexical")
    if LAST_OUTPUT in names:
        yield _output_case(names, patterns.output)
    if signs.broken:
        yield _Case(*broken_answer_case(signs.broken), "structural")
    for table in filter(None, (signs.notes, signs.refused)):
        yield _Case(*failed_scoring_case(table), "structural")
    if signs.early is not None:
        for said in early_end_cases(signs.early):
            yield _Case(said[0], said[1], "structural", said[2])
    if empty := _no_output(names):
        is_scored = f"{reward} IS NOT NULL AND {empty}"
        yield _Case("'server'", "'the response is empty'", "structural", is_scored)
    if "response" in names and patterns.response:
        decided = _first_match("response", patterns.response)
        is_short = (
            f"length(response) < {_SHORT_RESPONSE} AND NOT regexp_matches(response, '{_ANSWERS}')"
        )
        said = f"left('response: ' || response, {MOST_CHARACTERS})"
        yield _Case(f"CASE WHEN {is_short} THEN {decided} END", said, "lexical")


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
    code, evidence = _code(), _evidence_of_log()
    whens = " ".join(f"WHEN {_is_of(one)} THEN '{one.cause}'" for one in patterns.recorded)
    # Who generated nothing failed by its server, if nobody says more.
    unsaid = f"CASE WHEN {empty} THEN 'server' END" if (empty := _no_output(names)) else "NULL"
    decided = f"coalesce(CASE {whens} END, {_likely()}, {unsaid})"
    paid_for = f"CASE WHEN {reward} > 0 THEN 'policy' ELSE '' END"
    is_open = _begins(UNDECIDED)
    signs = f"'{NOTED}', '{FLAGGED}', 'aborted', 'unknown', {paid_for}"
    return (
        _Case(f"CASE WHEN {is_open} THEN nullif({decided}, {paid_for}) END", evidence, "recorded"),
        _Case(code, evidence, "recorded", f"NOT {is_open} AND {code} NOT IN ({signs})"),
    )


def _code() -> str:
    return f"split_part({quoted(FAILURE)}, ': ', 1)"


def _likely() -> str:
    """SQL for whose record it is, which goes before words of infrastructure in it: a judge has
    connections too.
    """
    return f"nullif(substr({_code()}, 2), '')"


def _is_unclear() -> str:
    """SQL for whether the log records a failure and not whose it is."""
    is_unclear = f"{_begins(UNDECIDED)} OR {_code()} IN ('aborted', 'unknown')"
    return f"coalesce({is_unclear}, false)"


def _unclear_case(when: str) -> _Case:
    cause = f"CASE WHEN {_code()} = 'aborted' THEN 'aborted' ELSE 'unknown' END"
    return _Case(cause, _evidence_of_log(), "recorded", when)


def _is_of(pattern: Pattern) -> str:
    """SQL for whether what the log records is of a pattern's cause."""
    said = f"regexp_replace({_evidence_of_log()}, '[A-Za-z0-9_.]+=', '', 'g')"
    return f"{_whose(pattern, _likely())}{_matches(said, pattern)}"


def _is_by_policy(pattern: Pattern) -> str:
    return f"({_is_of(pattern)})" if pattern.cause == "policy" else "false"


def _whose(pattern: Pattern, likely: str) -> str:
    """SQL for whether a pattern is tried on the record of somebody, and AND; a judge runs programs."""
    if pattern.cause in PLUMBING:
        return f"coalesce({likely}, 'aborted') = 'aborted' AND "
    return f"coalesce({likely}, 'judge') = 'judge' AND " if pattern.only_unsaid else ""


def _output_case(names: Collection[str], patterns: Sequence[Pattern]) -> _Case:
    text, tool = quoted(LAST_OUTPUT), quoted(LAST_TOOL) if LAST_TOOL in names else "NULL"
    by = f"coalesce(' of ' || {tool}, '')"
    said = f"left('last output' || {by} || ': ' || {text}, {MOST_CHARACTERS})"
    decided = _first_match(text, patterns, tool)
    return _Case(decided, said, "lexical")


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
