"""Labels as columns of a run: matched by content, written by several at once, kept over a new index."""

import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
import written_logs
from opened_logs import run_at
from read_formats import info_at

from board.core.labels.entries import Entry
from board.errors import ChoiceError, ExpressionError
from board.index import label_files, shared_files
from board.index.discovery.discovered_runs import RunInfo
from board.query.labels.matching import labels_at, set_label, undo_last, with_labels
from board.query.labels.samples import (
    agreements,
    draw_sample,
    label_counts,
    labelled_rows,
    next_sample_name,
    samples_of,
    shares_over_steps,
)
from board.query.rollouts import Sorting, frame
from board.query.sql.user_sql import select

BY_ORDER = Sorting("label_order")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_logs.native_run(tmp_path_factory.mktemp("labels") / "native")


@pytest.fixture
def folder(log: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(log, tmp_path / "native"))


def opened(folder: Path):
    return with_labels(run_at(folder))


def addresses(run) -> list[tuple[int, int]]:
    rows = run.frame(["step"])
    return list(zip(rows["step"].tolist(), rows["index"].tolist(), strict=True))


def test_labels_are_columns_of_filters_frames_and_sql(folder):
    run = run_at(folder)
    assert with_labels(run) is run  # without a file nothing changes
    step = max(run.counts)
    set_label(run, "ann", step, 1, "label", "cheat")
    set_label(run, "ann", step, 1, "note", "says why")
    set_label(run, "ann", step, 2, "span", "odd", tokens=(1, 3))
    run = with_labels(run)
    assert addresses(run.where("label = 'cheat'")) == [(step, 1)]
    assert addresses(run.where("label != 'good'")) == [(step, 1)]  # what has no label is not known
    assert addresses(run.where("label_spans contains 'odd'")) == [(step, 2)]
    assert addresses(run.where('label_note contains "why" and reward >= -1e9')) == [(step, 1)]
    assert run.row(step, 1)["label_author"] == "ann"
    table = select(
        run, "select label, count(*) as n from rollouts where label is not null group by 1"
    )
    assert table.to_pylist() == [{"label": "cheat", "n": 1}]


def test_what_is_listed_as_labelled_and_is_no_label_is_counted_apart(folder):
    run = run_at(folder)
    (first, second, third), step = range(3), max(run.counts)
    set_label(run, "ann", step, first, "label", "cheat")
    set_label(run, "ann", step, second, "note", "says why")
    set_label(run, "ann", step, third, "span", "odd", tokens=(1, 3))
    run = with_labels(run)
    listed = labelled_rows(run, 500)
    assert sorted(listed.rows["index"]) == [first, second, third]
    assert (listed.count, listed.unlabelled) == (3, 3 - sum(label_counts(run).values()))
    assert listed.words == "3, 2 with no label but a note or labelled tokens"
    assert labelled_rows(run, 2).words.startswith("the newest 2 of 3, 2 with no label")


def test_a_run_without_labels_has_no_such_column(folder):
    with pytest.raises(ExpressionError, match="label"):
        opened(folder).where("label = 'cheat'")


def test_only_a_run_that_labels_choose_is_another_when_they_change(folder):
    run = run_at(folder)
    step = max(run.counts)
    set_label(run, "ann", step, 0, "label", "good")
    before = with_labels(run)
    set_label(run, "ann", step, 1, "label", "good")
    after = with_labels(before)
    assert before.version == after.version
    assert before.where("reward >= 0").version == after.where("reward >= 0").version
    assert before.where("label = 'good'").version != after.where("label = 'good'").version
    assert after.where("label = 'good'").rollout_count == 2


def test_labels_are_of_the_same_rollouts_after_the_log_moved_and_was_read_again(folder, tmp_path):
    run = run_at(folder)
    step = max(run.counts)
    set_label(run, "ann", step, 1, "label", "cheat")
    set_label(run, "bob", min(run.counts), 0, "label", "good")
    response = run.row(step, 1)["response"]
    moved = Path(shutil.move(folder, tmp_path / "elsewhere"))
    for path in moved.glob("*.jsonl"):  # lines in another order, and another line before them
        head, *lines = path.read_text().splitlines()
        path.write_text("\n".join([head, *reversed(lines)]) + "\n")
    again = opened(moved)
    cheats = again.where("label = 'cheat'").rollouts
    assert cheats["response"].tolist() == [response]
    assert again.labels.missing == 0


def test_a_label_does_not_go_to_the_rollout_that_a_resume_wrote_in_its_place(tmp_path):
    def write(text: str) -> Path:
        rows = [{"step": 1, "response": f"{text} {i}", "reward": 0.5} for i in range(4)]
        return written_logs.write_lines(tmp_path / "run" / "rank_0.jsonl", rows).parent

    run = run_at(write("before"))
    set_label(run, "ann", 1, 2, "label", "cheat")
    assert label_counts(opened(write("before"))) == {"cheat": 1}
    after = opened(write("after"))
    assert label_counts(after) == {}
    assert after.labels.missing == 1


def test_equal_rollouts_of_a_step_have_labels_of_their_own(tmp_path):
    rows = [{"step": 1, "response": "4", "reward": 1.0}] * 3
    folder = written_logs.write_lines(tmp_path / "run" / "rank_0.jsonl", rows).parent
    set_label(run_at(folder), "ann", 1, 1, "label", "good")
    run = opened(folder)
    assert [bool(labels_at(run, 1, index).authors) for index in range(3)] == [False, True, False]


def _write_many(info: RunInfo, author: str, count: int) -> None:
    # Without opening the run: a forked process cannot use a database that its parent has threads of.
    for number in range(count):
        label_files.append(
            info, [Entry(f"{author}{number}", float(number), author, "note", value="x" * 500)]
        )


def test_writers_at_once_lose_nothing(folder):
    context = multiprocessing.get_context("fork")
    info = info_at(folder)
    several = [
        context.Process(target=_write_many, args=(info, name, 60)) for name in ("ann", "bob", "cy")
    ]
    for process in several:
        process.start()
    for process in several:
        process.join()
        assert process.exitcode == 0
    entries, unreadable = label_files.read_entries(info)
    assert (len({one.id for one in entries}), unreadable) == (180, 0)


def test_a_torn_line_is_counted_and_the_next_entry_stands_alone(folder):
    run = run_at(folder)
    step = max(run.counts)
    set_label(run, "ann", step, 0, "label", "good")
    (path,) = folder.rglob("labels.jsonl")
    path.write_bytes(path.read_bytes() + b'{"id": "torn", "ti')
    set_label(run, "ann", step, 1, "label", "good")
    run = opened(folder)
    assert label_counts(run) == {"good": 2}
    assert run.labels.unreadable == 1
    assert path.read_bytes().endswith(b"\n")


def test_undo_is_an_entry_too(folder):
    run = run_at(folder)
    set_label(run, "ann", max(run.counts), 0, "label", "good")
    undo_last(run, "ann")
    assert label_counts(opened(folder)) == {}
    assert len(label_files.read_entries(run.info)[0]) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_labels_of_a_folder_that_cannot_be_written_are_in_the_cache(folder):
    folder.chmod(0o555)
    run = run_at(folder)
    set_label(run, "ann", max(run.counts), 0, "label", "good")
    assert label_counts(opened(folder)) == {"good": 1}
    folder.chmod(0o755)


def test_a_link_in_the_runs_folder_is_not_followed(folder, tmp_path):
    (folder / ".rollout-board").mkdir()
    (folder / ".rollout-board" / "labels.jsonl").symlink_to(tmp_path / "victim")
    run = run_at(folder)
    set_label(run, "ann", max(run.counts), 0, "label", "good")
    assert not (tmp_path / "victim").exists()
    assert label_counts(opened(folder)) == {"good": 1}


@pytest.mark.parametrize("kind", ["pipe", "folder", "too large"])
def test_a_run_opens_without_labels_that_cannot_be_read_and_names_them(folder, kind):
    path = folder / ".rollout-board" / "labels.jsonl"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(shared_files.MOST_BYTES + 1)
    run = opened(folder)
    assert label_counts(run) == {}
    assert run.labels.refused
    assert len([problem for problem in run.problems if problem.path == "labels.jsonl"]) == 1
    with pytest.raises(ChoiceError, match=r"can't be read"):
        set_label(run, "ann", max(run.counts), 0, "label", "good")
    assert with_labels(run) is run
    if kind == "folder":
        path.rmdir()
    else:
        path.unlink()
    mended = with_labels(run)
    assert mended.labels.refused == ""
    assert mended.problems == run_at(folder).problems


def test_a_named_file_has_the_labels_of_several_runs_apart(log, tmp_path, monkeypatch):
    monkeypatch.setenv(label_files.NAMED_BY, str(tmp_path / "all.jsonl"))
    one, other = (Path(shutil.copytree(log, tmp_path / name)) for name in ("one", "other"))
    set_label(run_at(one), "ann", max(run_at(one).counts), 0, "label", "good")
    assert label_counts(opened(one)) == {"good": 1}
    assert label_counts(opened(other)) == {}
    assert json.loads((tmp_path / "all.jsonl").read_text())["run"] == "one"


def test_a_sample_gives_shares_of_what_it_was_drawn_from(folder):
    run = run_at(folder)
    drawn = draw_sample(run, "ann", 10, "s1", seed=1)
    run = with_labels(run)
    assert run.where("label_sample contains 's1'").rollout_count == drawn >= 10
    with pytest.raises(ChoiceError, match="s1"):
        draw_sample(run, "ann", 10, "S", seed=2)  # `contains "S"` would have both
    for step, index in addresses(run.where("label_sample contains 's1'")):
        set_label(run, "ann", step, index, "label", "cheat" if index % 2 else "good")
        set_label(run, "bob", step, index, "label", "good")
    run = with_labels(run)
    (sample,) = samples_of(run, "ann")
    assert (sample.size, sample.labelled, sample.population) == (drawn, drawn, run.rollout_count)
    assert sum(one.share for one in sample.shares) == pytest.approx(1)
    (of_bob,) = samples_of(run, "bob")
    assert [one.label for one in of_bob.shares] == ["good"]
    (both,) = agreements(run)
    assert (both.first, both.second, both.n) == ("ann", "bob", drawn)


def test_labels_toml_of_the_run_is_used_and_a_wrong_one_is_said(folder):
    info = run_at(folder).info
    (folder / "labels.toml").write_text('[labels]\nmine = "of this run"\n')
    assert [one.name for one in label_files.label_names(info)] == ["mine"]
    (folder / "labels.toml").write_text("[labels\n")
    with pytest.raises(ChoiceError, match="TOML"):
        label_files.label_names(info)


def test_unchanged_labels_give_the_same_run(folder):
    run = run_at(folder)
    set_label(run, "ann", max(run.counts), 0, "label", "good")
    labelled = with_labels(run)
    assert with_labels(labelled) is labelled


def test_a_label_stays_when_later_lines_bring_another_column(tmp_path):
    rows = [{"step": 1, "response": f"r {i}", "reward": 0.5} for i in range(3)]
    folder = written_logs.write_lines(tmp_path / "run" / "rank_0.jsonl", rows).parent
    set_label(run_at(folder), "ann", 1, 1, "label", "good")
    more = [{"step": 2, "response": "x", "reward": 0.5, "rollout_id": "a"}]
    written_logs.write_lines(folder / "rank_0.jsonl", [*rows, *more])
    assert addresses(opened(folder).where("label = 'good'")) == [(1, 1)]


def test_the_next_sample_has_a_name_of_its_own(folder):
    draw_sample(run_at(folder), "ann", 4, "sample02", 0)
    name = next_sample_name(opened(folder))
    draw_sample(opened(folder), "ann", 4, name, 0)
    assert next_sample_name(opened(folder)) == "sample03"


def test_every_range_of_steps_has_the_share_of_every_label_of_its_sample(folder):
    run = run_at(folder)
    draw_sample(run, "ann", 24, "one", 0)
    rows = opened(folder).where('label_sample contains "one"').frame(["step"])
    for place, (step, index) in enumerate(zip(rows["step"], rows["index"], strict=True)):
        set_label(run, "ann", int(step), int(index), "label", "good" if place else "cheat")
    run = opened(folder)
    (sample,) = samples_of(run)
    ranges = shares_over_steps(run, sample, "")
    assert len(ranges) > 1
    for own in ranges:
        assert {one.label for one in own.shares} == {"good", "cheat"}
        assert all(one.high > 0 or one.n == one.population for one in own.shares)


def test_a_sample_is_listed_in_its_random_order_which_is_not_that_of_steps(folder):
    run = run_at(folder)
    draw_sample(run, "ann", 12, "first", seed=1)
    alone = run_at(folder)
    before = frame(
        with_labels(alone).where("label_sample contains 'first'"), ["step", "index"], BY_ORDER
    )
    draw_sample(run, "ann", 12, "other", seed=2)
    run = opened(folder)
    rows = frame(run.where("label_sample contains 'first'"), ["step", "index"], BY_ORDER)
    pd.testing.assert_frame_equal(rows, before)
    steps = rows["step"].tolist()
    assert steps not in (sorted(steps), sorted(steps, reverse=True))
    first = run.where("label_sample contains 'first'")
    assert sorted(first.frame(["label_order"])["label_order"]) == [*range(1, len(rows) + 1)]
    assert first.where("label_order <= 3").rollout_count == 3
