"""What is never called a failure of infrastructure: answers that are the model's own, and whole logs."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from read_formats import DATA, REAL_RUNS, SAMPLES, real_run, run_of

from board.analysis.findings import diagnose
from board.core.failures.causes import PLUMBING
from board.query.failures import has_causes

Answer = dict[str, Any]
_OWN_PROGRAMS = (
    '"<string>"',
    '"/tmp/tmp{n}.py"',
    '"/app/prog{n}.py"',
    '"/mnt/data/fetch.py"',
    '"/sandbox/{n}/a.py"',
)
_CODE_TOOLS = (
    "python",
    "code_interpreter",
    "bash",
    "run_program",
    "ipython",
    "execute",
    "terminal",
)


def _says(text: str) -> Answer:
    return {"response": text}


def _calls(tool: str | None, output: str, after: str = "I give up.") -> Answer:
    call = {"id": "c", "type": "function", "function": {"name": tool or "f", "arguments": "{}"}}
    calls = {} if tool is None else {"tool_calls": [call]}
    answer = {"role": "tool", "content": output} | ({} if tool is None else {"tool_call_id": "c"})
    turns = [{"role": "assistant", "content": "let me see", **calls}, answer]
    return {"messages": [*turns, {"role": "assistant", "content": after}], "response": after}


def _raised(n: int, dice: random.Random) -> str:
    """A traceback of the model's own program, which ends in a library."""
    own = dice.choice(_OWN_PROGRAMS).format(n=n)
    library, error = dice.choice(
        [
            ("requests/adapters.py", "requests.exceptions.ConnectionError: Connection refused"),
            ("urllib3/connection.py", "urllib3.exceptions.NewConnectionError: [Errno -2]"),
            ("openai/_base_client.py", "openai.RateLimitError: Error code: 429 - quota"),
            ("numpy/core/shape.py", "ValueError: shapes do not fit"),
        ]
    )
    return (
        "Traceback (most recent call last):\n"
        f"  File {own}, line 3, in <module>\n    main()\n"
        f'  File "/usr/lib/python3.11/site-packages/{library}", line {n}, in get\n'
        f"    raise error\n{error}"
    )


def _printed(n: int, dice: random.Random) -> str:
    """What a model's own program printed."""
    return dice.choice(
        [
            f"curl: (7) Failed to connect to localhost port {n}: Connection refused",
            "Connection refused",
            "Connection error: could not reach api.example.com",
            "HTTP error: 503",
            "502 Bad Gateway",
            "Error code: 429 - too many requests",
            "openai.APIConnectionError: Connection error.",
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock",
            "Error response from daemon: no such image",
            "Command timed out after 30s",
            "Killed",
            "Permission denied",
            "bash: /app/run.sh: No module named app",
            "TimeoutError",
            "API Request Error: 404 for api.example.com",
            "Search error: list index out of range",
            f"Error: Process exited with code {n % 100}",
            "Error: Code execution timed out after 10 seconds",
        ]
    )


def _quotes(n: int, dice: random.Random) -> str:
    lines = 80 * "line of a log\n"
    return f"$ cat server.log\n{lines}{_raised(n, dice)}\n{lines}"


_KINDS: dict[str, Callable[[int, random.Random], Answer]] = {
    "a wrong number": lambda n, dice: _says(f"The answer is {n}."),
    "a refusal": lambda n, dice: _says("I am sorry, but I can't help with that."),
    "an empty box": lambda n, dice: _says("So we get \\boxed{}"),
    "raised in a code tool": lambda n, dice: _calls(dice.choice(_CODE_TOOLS), _raised(n, dice)),
    "raised in a tool without a name": lambda n, dice: _calls(None, _raised(n, dice)),
    "raised in a text": lambda n, dice: _says(
        f"<tool_call>run</tool_call>\n<tool_response>\n{_raised(n, dice)}\n</tool_response>\nHm."
    ),
    "printed in a code tool": lambda n, dice: _calls(dice.choice(_CODE_TOOLS), _printed(n, dice)),
    "printed in a text": lambda n, dice: _says(
        f"```python\nrun()\n```\n```output\n{_printed(n, dice)}\n```\nI stop here."
    ),
    "a dead address in a browser": lambda n, dice: _calls(
        dice.choice(["browse", "fetch_url", "open_page", "visit"]), _printed(n, dice)
    ),
    "nothing to search for": lambda n, dice: _calls(
        dice.choice(["search", "lookup", "retrieve"]),
        dice.choice(["no results found", "[]", f"Unknown action {n}", "Error: bad arguments"]),
    ),
    "tests that fail": lambda n, dice: _calls(
        dice.choice(["submit", "run_tests", "bash"]), f"{n} failed, 3 passed: AssertionError"
    ),
    "a long log that quotes errors": lambda n, dice: _calls(
        dice.choice(["bash", "read_file", "search"]), _quotes(n, dice)
    ),
    "an explanation of errors": lambda n, dice: _says(
        "The server said Error code: 429, SandboxError and UnknownError; so did the judge: JUDGE_ERROR."
    ),
    "raised, and went on": lambda n, dice: {
        "messages": [
            *_calls("search", "UnknownError")["messages"],
            *({"role": "assistant", "content": f"then {i}"} for i in range(3)),
        ]
    },
}


def _answers(kinds: list[str], count: int, seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    return [
        {
            "type": "sample",
            "step": n // 140,
            "group_id": f"g{n}",
            "prompt": f"What is {n}?",
            "reward": 0.0,
            "finish_reason": "stop",
            "response_tokens": 20,
            **_KINDS[kinds[n % len(kinds)]](n, dice),
        }
        for n in range(count)
    ]


def test_of_1400_honest_wrong_answers_none_is_called_anything_but_the_policy_s(tmp_path):
    kinds = [*_KINDS]
    frame = run_of(tmp_path, _answers(kinds, 1400, 0)).frame(["cause", "cause_evidence"])
    named = {
        (kinds[n % len(kinds)], cause, evidence)
        for n, (cause, evidence) in enumerate(
            zip(frame["cause"], frame["cause_evidence"], strict=True)
        )
        if cause != "policy"
    }
    assert not named


@pytest.mark.parametrize("kind", _KINDS)
def test_wrong_answers_of_one_kind_in_the_whole_run_are_no_plumbing(kind, tmp_path):
    run = run_of(tmp_path, _answers([kind], 280, 1))
    assert set(run.frame(["cause"])["cause"]).isdisjoint(PLUMBING)
    rules = {one.rule for one in diagnose(run, tokens=False).findings}
    assert rules.isdisjoint({"plumbing", "burst", "placeholder_reward"})


def test_a_right_answer_after_any_error_has_no_cause(tmp_path):
    rows = [row | {"reward": 1.0} for row in _answers([*_KINDS], 280, 2)]
    rows += [rows[0] | _calls("search", "UnknownError")]
    frame = run_of(tmp_path, rows).frame(["cause"])
    assert "cause" not in frame or frame["cause"].isna().all()


RECORDED = {
    *("harbor/2026-11-01__09-59-50", "nemo_gym", "prime_rl/stream", "xtuner/exp", "xtuner/spread"),
    *("inspect", "inspect/older"),  # nothing was generated
    "verifiers/traces/adder-v1--tiny--bash/7b1f",
    "verifiers/example_id/outputs/evals/two-digits--tiny/5f2c9a10",
    "tinker/texts",
}


def _plumbing_of_real_logs() -> set[str]:
    return {
        info.path.relative_to(DATA).as_posix()
        for info in REAL_RUNS
        if not info.path.is_relative_to(SAMPLES) and has_causes(real_run(info))
        if not set(real_run(info).frame(["cause"])["cause"]).isdisjoint(PLUMBING)
    }


def test_only_logs_that_record_failures_have_plumbing():
    assert _plumbing_of_real_logs() == RECORDED


@pytest.mark.parametrize(
    "info", [one for one in REAL_RUNS if one.path.is_relative_to(SAMPLES)], ids=lambda one: one.name
)
def test_bundled_runs_have_no_failure_that_is_not_the_policy_s(info):
    run = real_run(info)
    if has_causes(run):
        assert set(run.frame(["cause"])["cause"].fillna("")) <= {"policy", "truncated", ""}
    rules = {one.rule for one in diagnose(run, tokens=False).findings}
    assert rules.isdisjoint({"plumbing", "burst", "placeholder_reward"})
