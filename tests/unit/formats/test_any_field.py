"""Failures under keys that no reader knows: what is one in any spelling and depth, and what is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import run_of

from board.core.failures.causes import CAUSES, NOTED
from board.formats.failures.any_field import failure_in, failures_of_columns
from board.formats.failures.key_words import words_of

FAILED: list[tuple[dict[str, Any], str]] = [
    ({"error": "ConnectionResetError: x"}, "?"),
    ({"judge_error": "Timeout"}, "?judge"),
    ({"harness": {"exception": {"type": "E", "message": "m"}}}, "?"),
    ({"exit_code": 137}, "unknown"),
    ({"sandbox_exit_code": 139}, "sandbox"),
    ({"verifier": {"exit_code": "137"}}, "judge"),
    ({"mask_sample": True}, "~"),
    ({"reward_was_none": True}, "~"),
    ({"unscored": 1}, "~"),
    ({"finish_reason": "error"}, "?"),
    ({"finish_reason": "abort"}, "aborted"),
    ({"stop_reason": "engine_dead"}, "?server"),
    ({"state": "SANDBOX_FAILED"}, "?sandbox"),
    ({"sandbox_failed": True}, "?sandbox"),
    ({"judge_ok": False}, "judge"),
    ({"http_status": 503}, "server"),
    ({"meta": json.dumps({"errors": ["a", "RuntimeError: b"]})}, "?"),
    ({"is_crashed": True}, "?"),
    ({"worker_exception": "ActorDiedError"}, "?server"),
]
HONEST: list[dict[str, Any]] = [
    *({"error": value} for value in (None, "", "none", "no error", [], {}, 0, False, "0")),
    {"error_rate": 0.3},
    {"mean_squared_error": "0.3"},
    {"failed": True},
    {"max_errors": 3},
    {"raise_on_error": True},
    {"arguments": {"error_message": "x"}},
    {"question": {"error": "x"}},
    {"expected_error": "KeyError"},
    {"exit_code": 1},
    {"command_exit_code": 137},
    {"tool_calls": [{"error": "x"}]},
    {"attempts": [{"error": "x"}]},
    {"status": "wrong_answer"},
    {"verdict": "Runtime Error"},
    {"finish_reason": "tool_calls"},
    {"mask_sample": False},
    {"sample_loss_mask": 1},
    {"status_code": 200},
    {"verifier_success": False},
    {"outcome": "failure"},
]


def spelt(value: Any, spelling: str) -> Any:
    """The same with keys in another spelling."""
    if not isinstance(value, dict):
        return value
    return {respelt(key, spelling): spelt(inner, spelling) for key, inner in value.items()}


def respelt(key: str, spelling: str) -> str:
    words = key.split("_")
    if spelling == "camel":
        return words[0] + "".join(word.capitalize() for word in words[1:])
    return {"snake": key, "kebab": "-".join(words), "upper": key.upper()}[spelling]


@given(
    case=st.sampled_from(FAILED),
    spelling=st.sampled_from(("snake", "camel", "kebab", "upper")),
    outer=st.lists(st.sampled_from(("info", "meta", "rollout", "extra")), max_size=3),
)
def test_a_failure_is_one_in_any_spelling_and_at_any_depth(case, spelling, outer):
    fields, sign = case
    fields = spelt(fields, spelling)
    for key in outer:
        fields = {key: fields}
    assert str(failure_in(fields)).partition(": ")[0] == sign


TEXTS = st.sampled_from(
    (
        *(
            "",
            " ",
            "42",
            "judge timed out",
            "wrong answer",
            "a 503 from it",
            "No  Error",
            "ＥＲＲＯＲ in it",
        ),
        *(
            '{"exit_code": 137}',
            '{"a": {"error": "x y"}}',
            '{"a": 1}',
            "{",
            "could not\nreach",
            "x" * 400,
        ),
    )
)
VALUES = (
    st.none()
    | st.booleans()
    | st.sampled_from((0, 1, 137, 503, 0.5))
    | TEXTS
    | st.text(max_size=8)
    | st.dictionaries(st.sampled_from(("error", "exit_code", "n", "meta")), TEXTS, max_size=2)
)
KEYS = st.sampled_from(
    ("error", "finish_reason", "info", "pred", "judge_notes", "n", "question", "exit_code", "note")
)


@given(rows=st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=6))
def test_columns_tell_what_each_row_tells(rows):
    keys = [*dict.fromkeys(key for row in rows for key in row)]
    columns = {key: [row.get(key) for row in rows] for key in keys}
    found = failures_of_columns({}, columns) or [None] * len(rows)
    assert found == [failure_in({key: row.get(key) for key in keys}) for row in rows]


@given(case=st.sampled_from(HONEST), spelling=st.sampled_from(("snake", "camel", "kebab")))
def test_measures_settings_grades_and_content_are_no_failure(case, spelling):
    # A note is a failure only where a pattern says so.
    assert str(failure_in(spelt(case, spelling))).startswith(("None", NOTED))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    )
)
def test_whatever_a_log_holds_has_a_bounded_answer_or_none(value):
    found = failure_in({"error": value, "info": value})
    assert found is None or (
        len(found) <= 300 and found.partition(": ")[0].strip("?~!") in ("", *CAUSES)
    )


def test_words_of_keys_are_those_of_any_case():
    assert (
        words_of("sandboxExitCode") == words_of("sandbox_exit-code") == ("sandbox", "exit", "code")
    )


@pytest.mark.parametrize("rows", [1, 40])
def test_one_line_and_many_tell_the_same_causes(tmp_path: Path, rows):
    own = {"step": 1, "prompt": "p", "response": "r", "reward": 0.0, "judgeError": "timed out"}
    usual = [{"step": 1, "prompt": f"p{n}", "response": "r", "reward": 1.0} for n in range(rows)]
    frame = run_of(tmp_path, [*usual, own]).frame(["cause", "cause_basis"])
    assert frame.iloc[-1][["cause", "cause_basis"]].tolist() == ["judge", "recorded"]
    assert frame["cause"].iloc[:-1].isna().all()
