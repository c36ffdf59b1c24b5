import json
import pickle
import re
import tracemalloc
from importlib.metadata import EntryPoint
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from board.formats import is_worth_a_look, loaded, source_of
from board.formats.base import LineContext
from board.formats.field_values import split_of
from board.formats.io.parquet_files import PARQUET
from board.formats.io.torch_files import TORCH
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, DamagedError, Row


def test_the_name_says_what_kind_a_file_is():
    for source, names in {
        JSON_LINES: ("a.jsonl", "a.JSONL.gz", "a.ndjson", "a"),
        JSON_DOCUMENT: ("a.json",),
        PARQUET: ("a.parquet",),
        TORCH: ("a.pt",),
    }.items():
        assert {source_of(PurePath(name)) for name in names} == {source}


@pytest.mark.parametrize("name", ["config.json", "checkpoint/optimizer.pt", "tokenizer.json"])
def test_what_most_folders_are_full_of_is_not_looked_into(name):
    assert not is_worth_a_look(PurePath("run") / name)


@pytest.mark.parametrize("groups", [1, 7, 1000])
def test_each_row_of_a_table_is_had_again_by_its_number(tmp_path, groups):
    path = tmp_path / "x.parquet"
    rows = [{"a": i, "t": f"text {i}"} for i in range(700)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=max(700 // groups, 1))
    result = list(PARQUET.lines(path))
    assert [row.record for row in result if isinstance(row, Row)] == rows
    for number in (0, 255, 256, 699):
        again = PARQUET.fetch(path, result[number].offset, result[number].size)
        assert isinstance(again, Row)
        assert again.record == rows[number]


def test_many_rows_of_a_table_are_read_a_row_group_once(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    rows = [{"a": i} for i in range(700)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
    read: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def counted(file, *args, row_groups, **options):
        read.extend(row_groups)
        return iter_batches(file, *args, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    wanted = [3, 4, 99, 100, 512, 699]
    result = list(PARQUET.fetch_many(path, [(number, 1) for number in wanted]))
    assert [row.record["a"] for row in result if isinstance(row, Row)] == wanted
    assert read == [0, 1, 5, 6]


def test_a_row_that_is_gone_is_said_to_be(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(DamagedError, match="fewer rows"):
        PARQUET.fetch(path, 1, 1)


@pytest.mark.parametrize("source", [PARQUET, TORCH])
def test_a_git_lfs_pointer_is_named(tmp_path, source):
    path = tmp_path / "x"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(DamagedError, match="git lfs pull"):
        list(source.head(path))


def test_a_document_is_one_line_whatever_line_breaks_it_has(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"a": 1}, indent=2))
    (line,) = JSON_DOCUMENT.lines(path)
    assert json.loads(line.text or b"") == {"a": 1}
    assert JSON_DOCUMENT.fetch(path, line.offset, line.size) == line


def test_a_torch_file_is_read_as_plain_data_and_recognised_unloaded(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "3.pt"
    sample = {"tokens": [1, 2], "log_probs": torch.tensor([0.5, 0.25]), "reward": {"acc": 1.0}}
    torch.save({"rollout_id": 3, "samples": [sample]}, path)
    (head,) = TORCH.head(path)
    assert isinstance(head, Row)
    assert {"rollout_id", "samples", "tokens"} <= set(head.record)
    (row,) = TORCH.lines(path)
    assert isinstance(row, Row)
    plain = {"tokens": [1, 2], "log_probs": [0.5, 0.25], "reward": {"acc": 1.0}}
    assert row.record == {"rollout_id": 3, "samples": [plain]}


class Trap:
    def __reduce__(self):
        return (open, ("ran", "w"))


def test_nothing_in_a_torch_file_is_ever_run(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    torch.save({"samples": [Trap()]}, tmp_path / "1.pt")
    (tmp_path / "2.pt").write_bytes(pickle.dumps({"samples": [Trap()]}))
    for name in ("1.pt", "2.pt"):
        with pytest.raises(DamagedError):
            list(TORCH.lines(tmp_path / name))
    with pytest.raises(DamagedError, match=r"not a torch\.save"):
        list(TORCH.head(tmp_path / "2.pt"))
    assert not (tmp_path / "ran").exists()


SAFE = ("2.13.0+cpu", "2.10.0", "2.10.1rc1", "3.0.0a0")
UNSAFE = ("2.10.0a0+git1234", "2.9.1+cu128", "2.5.1", "1.13.1", "unknown")


@pytest.mark.parametrize("version", SAFE + UNSAFE)
def test_no_file_is_opened_with_a_torch_that_it_could_get_round(tmp_path, monkeypatch, version):
    torch = pytest.importorskip("torch")
    torch.save({"samples": []}, tmp_path / "1.pt")
    monkeypatch.setattr(torch, "__version__", version)
    if version in SAFE:
        assert len(list(TORCH.lines(tmp_path / "1.pt"))) == 1
        return
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(
        DamagedError, match=r"can't be opened safely with torch .*pip install 'torch>=2\.10'"
    ):
        list(TORCH.lines(tmp_path / "1.pt"))


LAYOUT = re.compile(r"(?P<split>rollout|eval-rollout)/(?P<step>[0-9]+)/(?P<task>[^/]+)\.jsonl")


@pytest.mark.parametrize(
    ("path", "step", "split", "task"),
    [
        ("logs/rollout/00012/a.jsonl", 12, "train", "a"),
        ("eval-rollout/3/b.jsonl", 3, "eval", "b"),
        ("xrollout/3/b.jsonl", None, None, None),
        ("rollout/3/b.jsonl.bak", None, None, None),
    ],
)
def test_a_place_says_what_its_path_says(path, step, split, task):
    place = LineContext(PurePath(path), layout=LAYOUT)
    assert (place.step, place.split, place.named("task")) == (step, split, task)


def test_evaluations_have_many_names():
    for text in ("eval", "val", "Validation", "test", "eval_rollout", "x-test-y"):
        assert split_of(text) == "eval"
    for text in ("train", "rollout", "latest", "value", "contest"):
        assert split_of(text) == "train"


def test_a_reader_of_another_package_is_found_and_a_broken_one_is_a_warning():
    good = EntryPoint("v", "board.formats.frameworks.verl:VerlReader", "rollout_board.readers")
    assert [reader.name for reader in loaded([good])] == ["verl"]
    for value in (
        "board.formats.frameworks.verl:Nothing",
        "no.such.module:X",
        "json:loads",
        "json:JSONDecoder",
    ):
        with pytest.warns(UserWarning, match="reader"):
            assert list(loaded([EntryPoint("v", value, "rollout_board.readers")])) == []


def test_a_text_that_stands_in_a_parquet_file_once_is_not_unpacked_for_every_row(tmp_path):
    once = pa.array(["p" * 4_000_000])
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), once)
    pq.write_table(pa.table({"prompt": texts}), tmp_path / "x.parquet", compression="zstd")
    assert (tmp_path / "x.parquet").stat().st_size < 10_000
    tracemalloc.start()
    try:
        next(PARQUET.lines(tmp_path / "x.parquet"))
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
