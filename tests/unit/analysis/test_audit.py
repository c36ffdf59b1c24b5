"""Nothing that a log holds vanishes: every line of every real file, and of the handed cases."""

import shutil
from pathlib import Path

import pytest
from read_formats import REAL_RUNS, collection, real_run, run_at
from written_logs import write_lines

from board.analysis.audit import SAMPLE_LINES, audit_all, audit_sample
from board.analysis.rollout import open_rollout
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

CASES = next(
    (
        folder
        for above in Path(__file__).resolve().parents
        if (folder := above.parent / "shared" / "cases").is_dir()
    ),
    Path("shared/cases"),
)


def missing_of(run):
    return [(one.field, one.reason) for one in audit_all(run, lambda done, total: None).problems]


@pytest.mark.parametrize("info", REAL_RUNS, ids=lambda info: info.name)
def test_every_text_and_number_of_a_real_log_is_shown_or_left_out_for_a_stated_reason(info):
    assert missing_of(real_run(info)) == []


@pytest.mark.skipif(not collection().is_dir(), reason="logs of others are not beside the checkout")
def test_every_text_and_number_of_other_peoples_logs_is_shown(tmp_path):
    shutil.copytree(collection(), tmp_path / "logs")
    for info in discover(tmp_path / "logs").runs:
        assert missing_of(Follower().run(info)) == [], info.name


@pytest.mark.skipif(not CASES.is_dir(), reason="cases are not beside the checkout")
@pytest.mark.parametrize("case", sorted(CASES.glob("*/*")), ids=lambda case: case.name)
def test_every_text_and_number_of_the_handed_cases_is_shown(case, tmp_path):
    """Of attacks, whose logs are hostile, and cases that a script makes, there is nothing to read."""
    shutil.copytree(case, tmp_path / "case")
    for info in discover(tmp_path / "case").runs:
        run = Follower().run(info)
        assert missing_of(run) == [], info.name
        assert audit_sample(run).problems == (), info.name


def lossy(tmp_path, count):
    """A log of which the reader drops a text: null beside a message's content."""
    rows = [
        {
            "step": 1,
            "index": i,
            "messages": [
                {"role": "user", "content": f"question number {i}"},
                {
                    "role": "assistant",
                    "content": f"answer number {i}",
                    "aside": f"an aside no. {i}",
                },
            ],
        }
        for i in range(count)
    ]
    write_lines(tmp_path / "log.jsonl", rows)
    return run_at(tmp_path)


def test_what_a_message_holds_beside_its_text_is_named_with_the_number_of_lines(tmp_path):
    audit = audit_all(lossy(tmp_path, 30), lambda done, total: None)
    (problem,) = audit.problems
    assert (problem.severity, problem.field, problem.count) == ("partial", "messages[].aside", 30)
    assert audit.lines == 30


def test_a_sample_is_bounded_the_same_each_time_and_begins_with_the_first_line(tmp_path):
    run = lossy(tmp_path, 3 * SAMPLE_LINES + 7)
    first, second = audit_sample(run), audit_sample(run)
    assert first == second
    assert first.lines == SAMPLE_LINES
    assert first.problems[0].line == 1


def test_opening_a_rollout_says_what_of_its_line_is_not_shown(tmp_path):
    from board.analysis.rollout import open_rollout

    opened = open_rollout(lossy(tmp_path, 2), 1, 1)
    assert "messages[].aside" in [remark.field for remark in opened.remarks]


def test_a_key_that_is_written_twice_is_named_beside_its_rollout(tmp_path):
    line = (
        '{"step": 1, "prompt": "p", "response": "the first", "response": "the last", "reward": 1}'
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text(f"{line}\n" * 3)
    run = run_at(tmp_path / "run")
    assert missing_of(run) == [("response", "the key 'response' is written twice")]
    assert "is written twice" in str(open_rollout(run, 1, 0).remarks)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ids_too_large_for_a_float_keep_their_digits(tmp_path, count):
    ids = [2**53 + 1 + 2 * number for number in range(count)]
    row = {"step": 1, "prompt": "p", "response_ids": [5, 6], "logprobs": [-1.0, -2.0], "seeds": ids}
    write_lines(tmp_path / "run" / "log.jsonl", [row | {"seed": ids[0], "response": "some text"}])
    run = run_at(tmp_path / "run")
    assert run.rollouts["seed"].tolist() == ids[:1]
    assert run.rollouts["seeds"].tolist() == [str(ids)]
    assert open_rollout(run, 1, 0).record.extras["seeds"] == ids


@pytest.mark.parametrize("count", [200, 201, 450])
def test_a_sample_of_many_files_is_of_some_of_them(count, tmp_path):
    for number in range(count):
        row = {"step": number, "prompt": f"question {number}", "response": "yes", "reward": 1.0}
        write_lines(tmp_path / "run" / f"{number}.jsonl", [row])
    run = run_at(tmp_path / "run")
    audit = audit_sample(run)
    assert count / 5 <= audit.files <= 200
    assert audit_all(run, lambda done, total: None).files == count
