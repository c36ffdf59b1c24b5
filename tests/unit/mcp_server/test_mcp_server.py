"""The MCP server, asked by the official client: bounded, confined, and text of a log marked as data."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from read_formats import run_at
from written_logs import HOSTILE, hostile_run, native_run, native_sample, write_lines

pytest.importorskip("mcp")
from faults.plant import FAULTS
from faults.scene import TUNED, clean
from mcp import Client, StdioServerParameters

import board
from board import cli
from board.analysis.report_check import ReportCheck
from board.charts.curve_data import CurveOptions, Series, prepared
from board.core.citations import citations_in
from board.mcp_server.answers import MOST_BYTES
from board.mcp_server.server import server_of
from board.views.shared.state import CHOICES

PROJECT = Path(__file__).parents[3]
COMMAND = ["-c", "import sys; from board import cli; sys.exit(cli.main(sys.argv[1:]))", "mcp"]
Ask = Callable[..., Awaitable[Any]]


def conversation(server: Any, talk: Callable[[Ask], Awaitable[Any]], mode: str = "auto") -> Any:
    """What `talk` gives, which asks by `await ask("steps", run=...)`: the parsed answer; a refusal is its
    text. mode: of the protocol; legacy is that of 2025 and before.
    """

    async def run() -> Any:
        async with Client(server, mode=mode) as client:

            async def ask(tool: str, **arguments: Any) -> Any:
                result = await client.call_tool(tool, arguments)
                (content,) = result.content
                return content.text if result.is_error else json.loads(content.text)

            return await talk(ask)

    return in_own_loop(run())


def in_own_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """In a thread: after browser tests of the same worker, Playwright's loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def asked(root: Path, tool: str, **arguments: Any) -> Any:
    return conversation(server_of(root), lambda ask: ask(tool, **arguments))


def over_stdio(root: Path) -> StdioServerParameters:
    cache = os.environ["ROLLOUT_BOARD_CACHE"]
    environment = {"PYTHONPATH": str(PROJECT), "ROLLOUT_BOARD_CACHE": cache}
    return StdioServerParameters(
        command=sys.executable, args=[*COMMAND, str(root)], env=environment
    )


@pytest.mark.parametrize(
    ("name", "mode"), [("one token", "auto"), ("KL of one token type", "legacy")]
)
def test_a_client_goes_from_the_finding_to_the_planted_token(name, mode, tmp_path):
    fault, log = next(one for one in FAULTS if one.name == name), clean(TUNED)
    planted = fault.plant(log)
    log.write(tmp_path / "run")

    async def talk(ask: Ask) -> tuple[Any, Any]:
        (run,) = [row["run"] for row in (await ask("runs"))["rows"]]
        findings = (await ask("findings", run=run))["rows"]
        lead = next(
            one["spike"] for one in findings if one["rule"] == fault.rule and "spike" in one
        )
        spike = await ask("spike", run=run, **lead, limit=1)
        (token,) = spike["rows"]
        place = {"step": spike["step"], "index": token["index"], "token": token["token"]}
        shown = await ask("show", run=run, **place, metrics=[spike["token_metric"]], around=1)
        return spike, next(row for row in shown["tokens"] if row["token"] == place["token"]) | place

    spike, token = conversation(over_stdio(tmp_path), talk, mode)
    assert (token["step"], token["index"], token["token"]) in planted.tokens
    assert token[spike["token_metric"]] == spike["rows"][0]["value"]
    assert token["piece"] == spike["rows"][0]["piece"]


def test_nothing_but_the_protocol_is_written_to_stdout(tmp_path):
    native_run(tmp_path / "run")
    given = [sys.executable, *COMMAND, str(tmp_path)]
    done = subprocess.run(
        given, input=b"", capture_output=True, check=False, cwd=PROJECT, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, b"")


def every_answer(root: Path, run: str, step: int) -> dict[str, Any]:
    """An answer of each tool."""

    async def talk(ask: Ask) -> dict[str, Any]:
        place = {"run": run, "step": step, "index": 0}
        calls: dict[str, dict[str, Any]] = {
            "runs": {},
            **{name: {"run": run} for name in ("steps", "metrics", "findings", "failures")},
            **{name: {"run": run} for name in ("prompts", "rollouts")},
            "spike": {"run": run, "step": step},
            "groups": {"run": run, "step": step},
            "show": place,
            "diff": {**place, "other_index": 1},
            "sql": {"run": run, "statement": "select * from rollouts"},
        }
        return {tool: await ask(tool, **arguments) for tool, arguments in calls.items()}

    return conversation(server_of(root), talk)


def strings(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Every text of an answer with the field that it is in."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from strings(entry, name)
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry, field)
    elif isinstance(value, str):
        yield field, value


def test_text_of_a_log_is_in_fields_that_are_marked_as_data(tmp_path):
    folder = hostile_run(tmp_path)
    answers = every_answer(tmp_path, folder.name, 1)
    signs = re.compile("|".join(re.escape(one.partition("{")[0]) for one in HOSTILE))
    names = re.compile("run|link|cite_.*")  # what the client said itself, and what is made of it
    assert {tool for tool, answer in answers.items() if isinstance(answer, str)} == set()
    unmarked = {
        (tool, field, text)
        for tool, answer in answers.items()
        for field, text in strings(answer)
        if signs.search(text) and field != "untrusted_text" and not names.fullmatch(field)
    }
    assert unmarked == set()
    marked = [text for field, text in strings(answers["show"]) if field == "untrusted_text"]
    assert any(signs.search(text) for text in marked)


def test_the_server_says_that_marked_text_is_data(tmp_path):
    native_run(tmp_path / "run")

    async def instructions() -> str:
        async with Client(server_of(tmp_path)) as client:
            return client.instructions or ""

    assert "untrusted_text" in in_own_loop(instructions())


def links(value: Any) -> Iterator[str]:
    yield from (text for field, text in strings(value) if field == "link")


def test_every_link_is_of_choices_that_the_dashboard_reads(tmp_path):
    native_run(tmp_path / "run")
    answers = every_answer(tmp_path, "run", 0)
    addresses = [urlsplit(link) for answer in answers.values() for link in links(answer)]
    assert {address.path for address in addresses} >= {"/", "/step", "/rollouts", "/findings"}
    for address in addresses:
        for name, (text,) in parse_qs(address.query).items():
            CHOICES[name].parse(text)
    (shown,) = links(answers["show"])
    assert shown == "/rollouts?run=run&step=0&index=0"


def test_a_long_answer_is_bounded_and_its_pages_are_the_whole(tmp_path):
    rows = [
        {"step": 1, "prompt": "p", "response": f"{n} " + "word " * 2000, "reward": n}
        for n in range(300)
    ]
    write_lines(tmp_path / "run" / "log.jsonl", rows)

    async def talk(ask: Ask) -> list[Any]:
        pages, offset = [], 0
        while True:
            page = await ask("rollouts", run="run", offset=offset, limit=200)
            pages.append(page)
            offset += len(page["rows"])
            if "more" not in page:
                return pages
            assert page["more"].endswith(f"offset={offset}")

    pages = conversation(server_of(tmp_path), talk)
    sizes = [len(json.dumps(page, separators=(",", ":"))) for page in pages]
    assert max(sizes) <= MOST_BYTES
    assert len(pages) > 2
    assert [row["index"] for page in pages for row in page["rows"]] == [*range(300)]
    text = asked(tmp_path, "show", run="run", step=1, index=7, text="response", text_from=2)
    assert text["untrusted_text"] == ("word " * 2000)[:2000]
    assert (text["from_character"], text["of_characters"]) == (2, 10_002)
    assert text["more"] == "go on with text_from=2002"


@pytest.mark.parametrize("name", ["../secret", "{outside}/secret", "linked", "run/../../secret"])
def test_nothing_outside_of_the_folder_is_reached(name, tmp_path):
    outside = tmp_path / "outside"
    write_lines(outside / "secret" / "log.jsonl", [{"step": 1, "response": "hidden", "reward": 1}])
    native_run(tmp_path / "root" / "run")
    (tmp_path / "root" / "linked").symlink_to(outside / "secret", target_is_directory=True)
    refused = asked(tmp_path / "root", "steps", run=name.format(outside=outside))
    assert "there is no run" in refused
    listed = asked(tmp_path / "root", "runs")
    assert [row["run"] for row in listed["rows"]] == ["run"]


def test_a_run_is_followed_as_it_grows(tmp_path):
    path = tmp_path / "run" / "log.jsonl"
    write_lines(path, [native_sample(1, 0, n) for n in range(4)])

    async def talk(ask: Ask) -> tuple[Any, Any]:
        before = await ask("steps", run="run")
        with path.open("a") as file:
            file.writelines(f"{json.dumps(native_sample(2, 0, n))}\n" for n in range(3))
        await ask("runs")  # lists anew
        return before, await ask("steps", run="run")

    before, after = conversation(server_of(tmp_path), talk)
    assert [(row["step"], row["rollouts"]) for row in before["rows"]] == [(1, 4)]
    assert [(row["step"], row["rollouts"]) for row in after["rows"]] == [(1, 4), (2, 3)]


def test_what_is_not_recorded_is_named_and_no_number(tmp_path):
    rows = [{"step": 1, "prompt": "p", "response": "r", "reward": r} for r in (1.0, None)]
    write_lines(tmp_path / "run" / "log.jsonl", rows)
    steps = asked(tmp_path, "steps", run="run")
    assert "k3_mean" in steps["not_recorded"]
    assert (steps["rows"][0]["reward_mean"], steps["rows"][0]["reward_n"]) == (1.0, 1)
    shown = asked(tmp_path, "show", run="run", step=1, index=1)
    assert shown["not_recorded"] == ["tokens"]
    assert "reward" not in shown["facts"]
    assert asked(tmp_path, "rollouts", run="run")["rows"][1]["reward"] is None
    assert asked(tmp_path, "metrics", run="run")["not_recorded"] == ["metrics of the trainer"]
    assert asked(tmp_path, "groups", run="run", step=1)["not_recorded"] == ["group_id"]


def test_a_mistake_is_a_tool_error_that_says_what_there_is(tmp_path):
    native_run(tmp_path / "run")
    assert "did you mean reward" in asked(tmp_path, "rollouts", run="run", where="rewrd > 1")
    assert "rollouts 0 to 7" in asked(tmp_path, "show", run="run", step=0, index=99)
    assert "tokens 0 to 7" in asked(tmp_path, "show", run="run", step=0, index=0, token=8)
    assert "one SELECT" in asked(tmp_path, "sql", run="run", statement="drop view rollouts")
    assert "did you mean" in asked(tmp_path, "spike", run="run", step=0, metric="k3_men")


def test_sql_gives_as_many_rows_as_are_asked_for_in_their_order(tmp_path):
    native_run(tmp_path / "run")
    statement = "select i from range(1000000000) t(i) where i % 7 = 0 order by i limit 1000"
    answer = asked(tmp_path, "sql", run="run", statement=statement, limit=3)
    assert answer["rows"] == [{"i": 0}, {"i": 7}, {"i": 14}]
    assert "more than 3" in answer["more"]


def test_a_row_that_is_too_large_is_refused_and_not_asked_for_again(tmp_path):
    row = {f"text{n:03}": f"{n} " + "words " * 60 for n in range(200)}
    write_lines(tmp_path / "run" / "log.jsonl", [{"step": 1, "response": "r", **row}])
    columns = [*row]
    refused = asked(tmp_path, "rollouts", run="run", columns=columns)
    assert "ask for fewer columns" in refused
    (answer,) = asked(tmp_path, "rollouts", run="run", columns=columns[:3])["rows"]
    assert answer["text000"]["untrusted_text"].startswith("0 words")


def test_without_the_extra_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "board.mcp_server.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    native_run(tmp_path / "run")
    assert cli.main(["mcp", str(tmp_path)]) == 2
    assert "rollout-board[board,mcp]" in capsys.readouterr().err


def test_steps_have_the_interval_that_charts_draw(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {
            "step": step,
            "group_id": f"{group}",
            "response": "r",
            "reward": reward,
            "correct": bool(right),
        }
        for step in range(20)
        for group in range(4)
        for reward, right in zip(rng.lognormal(size=4), rng.random(4) < 0.5, strict=True)
    ]
    write_lines(tmp_path / "run" / "log.jsonl", rows)
    table = board.open_run(tmp_path / "run").run.steps
    answer = asked(tmp_path, "steps", run="run", metrics=["reward"])["rows"]
    drawn = prepared(table, Series.of("reward"), CurveOptions(band="mean"))
    assert drawn is not None
    ((low, high, _),) = drawn.edges
    assert [row["reward_low"] for row in answer] == pytest.approx(low.tolist(), rel=1e-5)
    assert [row["reward_high"] for row in answer] == pytest.approx(high.tolist(), rel=1e-5)
    upper, lower = high - drawn.values, drawn.values - low
    assert upper.sum() > lower.sum()  # of skewed rewards


def test_an_argument_that_there_is_not_is_refused_by_every_tool(tmp_path):
    native_run(tmp_path / "run")

    async def talk(ask: Ask) -> list[str]:
        async with Client(server_of(tmp_path)) as client:
            tools = (await client.list_tools()).tools
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
        return [await ask(tool.name, sorted_by="reward") for tool in tools]

    for answer in conversation(server_of(tmp_path), talk):
        assert "has no argument 'sorted_by'; " in answer
        assert "\n" not in answer


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("steps", {"run": "run", "step": 21}, "did you mean first and last?"),
        ("rollouts", {"run": "run", "sort_by": "reward"}, "did you mean sort?"),
        ("stepz", {}, "did you mean steps?"),
        ("steps", {"run": "run", "limit": 500}, "limit=500 can't be used: it should be less than"),
        ("steps", {}, "run is missing"),
        ("show", {"run": "run", "step": "x", "index": 0}, "step='x' can't be used"),
    ],
)
def test_a_refusal_is_one_sentence_of_ours(tool, arguments, words, tmp_path):
    native_run(tmp_path / "run")
    answer = asked(tmp_path, tool, **arguments)
    assert words in answer
    assert "http" not in answer
    assert "Error executing" not in answer
    assert "\n" not in answer


def test_answers_of_a_tool_have_one_shape_whatever_is_recorded(tmp_path):
    native_run(tmp_path / "full")
    rows = [{"step": 0, "prompt": "p", "response": f"r{n}"} for n in range(2)]
    write_lines(tmp_path / "bare" / "log.jsonl", rows)
    full, bare = (every_answer(tmp_path, name, 0) for name in ("full", "bare"))
    varying = {"more", "cite_value_as"}  # of a page that was cut, of tokens
    for tool, answer in full.items():
        assert answer.keys() - varying == bare[tool].keys() - varying


def test_every_citation_that_is_given_holds_whatever_the_run_is_called(tmp_path):
    name = 'a "run" [x]'
    fault, log = next(one for one in FAULTS if one.name == "one token"), clean(TUNED)
    fault.plant(log)
    log.write(tmp_path / name)
    run = run_at(tmp_path / name)
    check = ReportCheck(lambda cited: run if cited == name else pytest.fail(cited))

    async def talk(ask: Ask) -> list[tuple[Any, str]]:
        cited = []
        found = (await ask("findings", run=name))["rows"]
        for one in (one for row in found for one in (row, *row["evidence"])):
            cited += [(one["value"], one["cite_value_as"])] if one["cite_value_as"] else []
        lead = next(row["spike"] for row in found if row["spike"])
        spike = await ask("spike", run=name, **lead)
        cited += [(row["value"], row["cite_as"]) for row in spike["rows"]]
        cited.append((spike["mean"], spike["cite_mean_as"]))
        steps = await ask("steps", run=name, metrics=["reward"])
        for row in steps["rows"]:
            keys = (
                steps["cite_as"].replace("COLUMN", "reward_mean").replace("STEP", str(row["step"]))
            )
            cited.append((row["reward_mean"], keys))
        return cited

    cited = conversation(server_of(tmp_path), talk)
    assert len(cited) > 20
    for value, citation in cited:
        (claim,) = citations_in(f"{value} {citation}").citations
        assert check.check(claim).holds, (value, citation)
