"""What stands beside the messages of a line (settings, tools, attachments, edited steps) is shown."""

import json
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import run_of
from written_logs import write_lines

from board.analysis.audit import audit_all
from board.formats import reader_named
from board.formats.base import LineContext
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=12, max_size=30
)
NUMBER = st.floats(0, 1000).map(lambda x: round(x, 3))
SETTINGS = st.dictionaries(
    st.sampled_from(
        ["top_p", "max_output_tokens", "reasoning", "text", "truncation", "env_id", "store"]
    ),
    NUMBER | TEXT | st.dictionaries(st.sampled_from(["effort", "format"]), TEXT, max_size=2),
)
TOOLS = st.lists(
    st.fixed_dictionaries({"type": st.just("function"), "name": TEXT, "description": TEXT})
)


def lost(folder: Any, rows: list[dict[str, Any]]) -> list[str]:
    run = run_of(folder, rows)
    return [problem.reason for problem in audit_all(run, lambda done, total: None).problems]


@settings(max_examples=12)
@given(SETTINGS, SETTINGS, TOOLS, TOOLS)
def test_settings_and_tools_of_a_request_and_its_response(
    tmp_path_factory, asked, answered, given_tools, had
):
    request = {**asked, "input": "How much is it?", "tools": given_tools}
    output = [{"type": "message", "role": "assistant", "content": "It is nothing at all."}]
    response = {**answered, "tools": given_tools if given_tools else had, "output": output}
    row = {"responses_create_params": request, "response": response, "reward": 1.0}
    assert lost(tmp_path_factory.mktemp("gym"), [row]) == []


@pytest.mark.parametrize("holder", ["messages", "scores"])
@given(text=TEXT)
def test_attachments_of_inspect_are_the_texts_that_they_stand_for(holder, text):
    said = {"role": "user", "content": "attachment://a1" if holder == "messages" else "What is it?"}
    score = {"value": "C", "metadata": {"grading": [{"content": "attachment://a1"}]}}
    sample = {
        "id": 1,
        "epoch": 1,
        "messages": [said, {"role": "assistant", "content": "That is what it is."}],
        "scores": {"graded": score if holder == "scores" else {"value": "C"}},
        "attachments": {"a1": text},
        "header": {},
    }
    reader = reader_named("inspect")
    shown = json.dumps(reader.read(sample, LineContext(PurePath("x.json"))), default=str)
    assert "attachment://" not in shown
    assert json.dumps(text) in shown


@settings(max_examples=12)
@given(st.lists(TEXT, min_size=1, max_size=4), st.data())
def test_every_answer_of_a_step_is_shown_though_the_history_was_edited(
    tmp_path_factory, answers, data
):
    history = [{"role": "user", "content": "Please mend the function."}]
    for answer in answers:
        kept = data.draw(st.booleans())
        history += [{"role": "assistant", "content": answer if kept else "What was said instead."}]
        history += [{"role": "user", "content": "The file has been edited."}]
    steps = [{"response": answer, "thought": answer, "action": "ls"} for answer in answers]
    folder = tmp_path_factory.mktemp("edited")
    document = {"trajectory": steps, "history": history, "info": {"exit_status": "submitted"}}
    write_lines(folder / "t1" / "t1.traj", [document])
    (info,) = discover(folder).runs
    audit = audit_all(Follower().run(info), lambda done, total: None)
    assert [problem.reason for problem in audit.problems] == []


def event(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "source": "environment", **fields}


@settings(max_examples=12)
@given(TEXT, TEXT, TEXT)
def test_what_openhands_looks_up_and_edits_is_shown(tmp_path_factory, knowledge, diff, repository):
    history = [
        event(action="message", args={"content": "Please mend the function."}, message="asked"),
        event(
            observation="recall",
            content="Added knowledge",
            extras={"microagent_knowledge": [{"content": knowledge}], "recall_type": "knowledge"},
        ),
        event(observation="edit", content="The file was edited.", extras={"diff": diff}),
    ]
    row = {"instance_id": "i1", "instruction": "Please mend it.", "history": history}
    assert (
        lost(tmp_path_factory.mktemp("openhands"), [row | {"instance": {"repo": repository}}]) == []
    )
