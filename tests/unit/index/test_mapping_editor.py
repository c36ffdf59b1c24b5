"""What a home-made log was taken for, changed and saved as a mapping file."""

import json

import pytest
from read_formats import records, run_at

from board.errors import ChoiceError
from board.index.discovery.mapping_editor import draft_of, is_generic, save

LINES = [
    {"question": "2 + 2?", "output": "4", "notes": "right", "score": 1, "marks": {"style": 0.5}},
    {"question": "2 + 2?", "output": "5", "notes": "wrong", "score": 0, "marks": {"style": 0.1}},
]


@pytest.fixture
def run(tmp_path):
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in LINES))
    return run_at(tmp_path)


def test_a_draft_says_what_was_taken_for_what_and_what_else_there_is(run):
    assert is_generic(run.info)
    draft = draft_of(run.info)
    assert draft.keys == {"prompt": "question", "response": "output", "reward": "score"}
    assert {"notes", "marks.style"} <= {*draft.paths}
    assert [rollout["response"] for rollout in draft.preview] == ["4", "5"]


def test_a_changed_draft_is_saved_read_and_can_be_changed_again(run):
    draft = draft_of(run.info, {"response": "notes", "reward": "marks.style", "prompt": None})
    assert [(r["response"], r["reward"]) for r in draft.preview] == [("right", 0.5), ("wrong", 0.1)]
    save(run.info, draft.text)
    again = run_at(run.info.path)
    assert [r.texts.get("response") for r in records(again)] == ["right", "wrong"]
    assert "prompt" not in again.columns
    assert is_generic(again.info)
    save(again.info, draft_of(again.info, {"response": "output"}).text)
    assert [r.texts["response"] for r in records(run_at(run.info.path))] == ["4", "5"]


def test_a_mapping_file_of_somebody_else_is_not_written_over(run):
    path = run.info.path / "rollout-board.toml"
    path.write_text("# mine\n")
    with pytest.raises(ChoiceError, match="already exists"):
        save(run.info, draft_of(run.info).text)
    assert path.read_text() == "# mine\n"


def test_a_choice_by_which_nothing_is_read_says_so(run):
    with pytest.raises(ChoiceError, match="no record has 'nothing'"):
        draft_of(run.info, {"response": "nothing", "prompt": None, "reward": None})


def test_a_mapping_that_is_saved_for_one_document_leaves_the_others_as_they_are(tmp_path):
    for name, line in (("results_a.json", LINES[0]), ("results_b.json", LINES[1])):
        (tmp_path / name).write_text(json.dumps([line]))
    run = run_at(tmp_path)
    save(run.info, draft_of(run.info, {"response": "notes"}).text)
    assert [r.texts["response"] for r in records(run_at(tmp_path))] == ["right", "5"]
