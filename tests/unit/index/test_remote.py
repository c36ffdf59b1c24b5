"""A run in an object store is the run on disk, at the price of the bytes that are needed."""

import gzip
import json
import pickle
import shutil
from pathlib import Path
from unittest.mock import Mock

import object_store
import pandas as pd
import pytest
import written_logs
from object_store import Store
from read_formats import DATA

from board import cli
from board.analysis.findings import own_thresholds
from board.analysis.rollout import open_rollout
from board.errors import BoardError, ChoiceError, NotFoundError, OutsideRootError, UnreadableError
from board.formats.io import locations, remote
from board.formats.io.locations import location_of
from board.index import build
from board.index.discovery import format_detection, mappings
from board.index.discovery.discovered_runs import (
    Discovery,
    discover,
    location_below,
    resolve_inside,
)
from board.index.reading import ray_engine, scan
from board.index.reading.shard import END_BYTES, Shard
from board.query.open_run import Follower, Run, open_run


@pytest.fixture(scope="module")
def running():
    with object_store.running() as store:
        yield store


@pytest.fixture
def store(running: Store, tmp_path, monkeypatch) -> Store:
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    for path in running.files.find(Store.bucket):
        running.files.rm_file(path)
    format_detection._seen.clear()
    mappings._cache.clear()
    running.asked.requests.clear()
    return running


def opened(url: str, name: str | None = None) -> Run:
    result = discover(location_of(url))
    return open_run(result.runs[0] if name is None else result.run(name))


def rows(*steps: int, **more: object) -> bytes:
    lines = [{"step": s, "prompt": "p", "response": f"r{s}", "reward": 0.5, **more} for s in steps]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def tracked(follower: Follower, url: str) -> Run:
    """The first run at a URL, as its objects are now."""
    return follower.run(discover(location_of(url)).runs[0])


def assert_same(store: Store, folder: Path, name: str) -> Discovery:
    """Puts a folder into the store, where its runs are what they are on disk. What was found there."""
    local, there = discover(folder), discover(location_of(store.put_folder(folder, name)))
    assert there.left_out == local.left_out
    if len(local.runs) > 1:  # the only run of a folder is called by that
        assert sorted(run.name for run in there.runs) == sorted(run.name for run in local.runs)
    for info in local.runs:
        away = there.runs[0] if len(local.runs) == 1 else there.run(info.name)
        assert (away.formats, away.family) == (info.formats, info.family)
        assert away.left_out == info.left_out
        assert_same_run(open_run(info), open_run(away))
    return there


def assert_same_run(here: Run, away: Run) -> None:
    pd.testing.assert_frame_equal(here.rollouts, away.rollouts)
    pd.testing.assert_frame_equal(here.steps, away.steps)
    assert here.problems == away.problems
    assert here.settings == away.settings
    assert here.missing_ranks == away.missing_ranks
    step = min(here.counts)
    ours, theirs = open_rollout(here, step, 0), open_rollout(away, step, 0)
    assert ours.record.texts == theirs.record.texts
    assert (ours.line, ours.tokens) == (theirs.line, theirs.tokens)


def test_the_run_in_a_store_is_the_run_on_disk(store, tmp_path, monkeypatch):
    written_logs.native_run(tmp_path / "runs" / "native", per_rank=2)
    written_logs.rllb_run(tmp_path / "runs" / "deep" / "rllb")
    monkeypatch.setattr(build, "SHARD_BYTES", 3000)
    assert len(assert_same(store, tmp_path / "runs", "runs").runs) == 2


def test_formats_known_by_their_paths_and_tables_are_in_a_store_what_they_are_on_disk(
    store, tmp_path
):
    copied = tmp_path / "runs"
    for name in ("trl/chat", "verl/v0"):
        shutil.copytree(DATA / name, copied / name)
    tables = copied / "trl" / "chat" / "completions"
    whole = (tables / "completions_00001.parquet").read_bytes()
    (tables / "completions_00009.parquet").write_bytes(whole[:-9])
    (copied / "verl" / "v0" / "notes.jsonl").write_bytes(rows(5))  # of another family
    there = assert_same(store, copied, "formats")
    assert "verl/v0 (verl)" in {run.name for run in there.runs}


@pytest.mark.parametrize(
    "name",
    [
        *("tinker/texts", "prime_rl/stream", "verifiers/id"),  # files beside others
        *("rllm/run", "slime/details/rollout_data"),  # documents, and files of torch
    ],
)
def test_every_kind_of_file_is_read_in_a_store_as_on_disk(store, name):
    assert assert_same(store, DATA / name, name).runs


def test_a_file_of_a_stream_costs_one_listing_of_its_annotations(store):
    url = store.put_folder(DATA / "prime_rl/stream", "listed")  # not what a test before has read
    info = discover(location_of(url)).runs[0]
    store.asked.requests.clear()
    open_run(info)
    asked = [path for _, path, _ in store.asked.of("GET") if "annotations" in path]
    assert len([path for path in asked if "list-type" in path]) == len(info.files) == 2
    # Of the packed chunk its end, its table and its frames; else each index and chunk once.
    whole = [path for path in asked if "list-type" not in path and ".zst" not in path]
    assert len(whole) == len(set(whole)) == 4


def test_an_annotation_that_comes_later_is_read_in_a_store_too(store):
    url = store.put_folder(DATA / "prime_rl/stream", "beside")
    follower = Follower()
    before = tracked(follower, url)
    folder = next(path for path in (DATA / "prime_rl/stream").rglob("annotations"))
    update = json.dumps({"trace_id": "st0", "branches": [{"index": 0, "entropies": [2.0] * 17}]})
    row = json.dumps({"trace_id": "st0", "chunk": 0, "offset": 0})
    place = f"beside/{folder.relative_to(DATA / 'prime_rl/stream').as_posix()}"
    store.put(f"{place}/zz/00000.jsonl", update.encode() + b"\n")
    store.put(f"{place}/zz.index.jsonl", row.encode() + b"\n")
    after = tracked(follower, url)
    own = after.rollouts["rollout_id"] == "st0"
    assert after.rollouts[own]["entropy_mean"].tolist() == [2.0]
    assert before.rollouts[own]["entropy_mean"].tolist() != [2.0]


def test_an_index_is_built_of_ranges_and_an_object_is_fetched_once(store, monkeypatch):
    monkeypatch.setattr(build, "SHARD_BYTES", 40_000)
    monkeypatch.setattr(scan, "PART_ROWS", 100)
    monkeypatch.setattr(locations, "_PAST_THE_END_BYTES", 200)
    content = rows(*(step for step in range(300) for _ in range(4)), note="x" * 100)
    url = store.put("runs/a.jsonl", content)
    (info,) = discover(location_of(url)).runs
    store.asked.requests.clear()
    run = open_run(info)
    assert run.rollout_count == 1200
    assert run.rollouts["line"].tolist() == list(range(1, 1201))
    assert all(size <= 40_000 for _, _, size in store.asked.requests)
    assert store.asked.bytes < len(content) * 1.05


def test_a_rollout_is_opened_by_one_request_for_its_range(store):
    url = store.put("runs/a.jsonl", rows(*range(200)))
    run = opened(url)
    run.rollouts  # noqa: B018
    store.asked.requests.clear()
    assert open_rollout(run, 100, 0).record.texts["response"] == "r100"
    size = int(run.row(100, 0)["size"])
    assert [(m, n) for m, _, n in store.asked.requests] == [("GET", size)]


def test_an_indexed_run_is_opened_again_without_its_log(store):
    url = store.put("runs/a.jsonl", rows(*range(300)))
    opened(url)
    store.asked.requests.clear()
    assert opened(url).rollout_count == 300
    assert store.asked.bytes == 0


def test_of_an_object_that_grew_only_what_is_new_is_read(store):
    content = rows(*range(2000))
    url = store.put("runs/a.jsonl", content)
    follower = Follower()
    tracked(follower, url)
    store.put("runs/a.jsonl", content + rows(2000, 2001))
    store.asked.requests.clear()
    run = tracked(follower, url)
    assert run.rollout_count == 2002
    assert run.rollouts["line"].tolist() == list(range(1, 2003))
    assert store.asked.bytes < len(rows(2000, 2001)) + 3 * END_BYTES + 1


def test_new_replaced_and_deleted_objects_are_noticed(store):
    store.put("runs/a.jsonl", rows(1, 2))
    url = store.put("runs/b.jsonl", rows(3)).rpartition("/")[0]
    follower = Follower()

    def steps() -> list[int]:
        return sorted(tracked(follower, url).counts)

    assert steps() == [1, 2, 3]
    store.put("runs/b.jsonl", rows(7))  # as long as before, within the same second
    assert steps() == [1, 2, 7]
    store.put("runs/c.jsonl", rows(9))
    store.delete("runs/a.jsonl")
    assert steps() == [7, 9]


def test_a_line_that_is_not_ended_is_there_once_when_it_is(store):
    content = rows(1, 2)
    url = store.put("runs/a.jsonl", content[:-20])
    follower = Follower()
    assert sorted(tracked(follower, url).counts) == [1]
    store.put("runs/a.jsonl", content)
    assert tracked(follower, url).counts == {1: 1, 2: 1}


def test_compressed_objects_are_unpacked_into_the_cache(store):
    url = store.put("runs/a.jsonl.gz", gzip.compress(rows(*range(50))))
    run = opened(url)
    assert run.rollout_count == 50
    assert open_rollout(run, 30, 0).record.texts["response"] == "r30"


def test_settings_and_vocabulary_are_fetched_when_they_changed(store):
    store.put("runs/run-a.json", b'{"config": {"lr": 1}}')
    url = store.put("runs/a.jsonl", rows(1)).rpartition("/")[0]
    follower = Follower()
    assert tracked(follower, url).settings == {"run-a.json": {"config": {"lr": 1}}}
    store.asked.requests.clear()
    tracked(follower, url)
    assert store.asked.of("GET", "run-a.json") == []


def test_odd_names_are_named_or_left_out_and_nothing_else_is_listed(store):
    store.put("runs/.hidden/a.jsonl", rows(1))
    store.put("runs/x//a.jsonl", rows(1))
    store.put("runs2/a.jsonl", rows(1))
    store.put("runs/notes.txt", b"text")
    store.put("runs/<b>/a b.jsonl", rows(1))
    result = discover(location_of(f"s3://{store.bucket}/runs"))
    assert [run.name for run in result.runs] == ["<b>"]
    assert [problem.count for problem in result.left_out] == [1]


@pytest.mark.parametrize("url", ["s3://no-such-bucket/runs", "s3://bucket/nothing"])
def test_what_does_not_exist_is_said_with_its_url(store, capsys, url):
    with pytest.raises(NotFoundError, match=url):
        discover(location_of(url))
    assert cli.main(["steps", url]) == 2
    assert url in capsys.readouterr().err


def test_a_store_that_can_not_be_reached_or_has_no_credentials_is_an_error_that_says_what_to_do(
    store, capsys, monkeypatch
):
    class NoCredentialsError(Exception):
        pass

    for error, hint in (
        (NoCredentialsError("Unable to locate credentials"), "credentials in the environment"),
        (PermissionError("Forbidden"), "what they allow"),
        (ConnectionError("http://u:secret@127.0.0.1:9/b?sig=secret"), "check the network"),
    ):
        filesystem = Mock()
        filesystem.find.side_effect = error
        monkeypatch.setattr(remote, "_filesystem", lambda *_, result=filesystem: result)
        with pytest.raises(UnreadableError, match=hint) as raised:
            discover(location_of("s3://bucket/runs"))
        assert "s3://bucket/runs" in str(raised.value)
        assert "secret" not in str(raised.value)
        assert cli.main(["runs", "s3://bucket/runs"]) == 2
        assert "secret" not in capsys.readouterr().err


def test_a_log_that_is_gone_when_a_rollout_is_opened_is_an_error_and_no_traceback(store):
    url = store.put("runs/a.jsonl", rows(1, 2))
    run = opened(url)
    store.delete("runs/a.jsonl")
    with pytest.raises(UnreadableError, match=r"a\.jsonl:1 can't be read"):
        open_rollout(run, 1, 0)


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/runs",
        "s3://secret@bucket/runs",
        "s3://bucket/runs?signature=secret",
        "abfs://c:secret@account/runs",
        "http://user:secret@host/runs?x=secret",
        "simplecache::s3://u:secret@bucket/x",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url, capsys):
    with pytest.raises(ChoiceError) as raised:
        location_of(url)
    assert "secret" not in str(raised.value)
    assert cli.main(["runs", url]) == 2
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize("url", ["s3://", "s3://b/../c", "s3://b//c", "memory://a::file:///etc"])
def test_urls_that_are_no_plain_place_are_refused(url):
    with pytest.raises(ChoiceError):
        location_of(url)


_OUTSIDE = (
    *("..", "../other", "a/../../other", "/etc", "s3://bucket", "s3://bucket/runs2"),
    *("s3://other/runs", "s3a://bucket/runs", "memory://runs", "file:///etc", "x::file:///etc/x"),
)


@pytest.mark.parametrize("wanted", _OUTSIDE)
def test_the_path_box_can_not_leave_a_store_s_folder(wanted):
    with pytest.raises(BoardError):
        resolve_inside(location_of("s3://bucket/runs"), wanted)


def test_the_path_box_goes_down_and_elsewhere_only_where_any_path_is_allowed(tmp_path):
    root = location_of("s3://bucket/runs")
    assert str(resolve_inside(root, "deep/run")) == "s3://bucket/runs/deep/run"
    assert resolve_inside(root, "s3://bucket/runs/deep") == root / "deep"
    for outside in ("s3://bucket/runs", "file:///etc"):
        with pytest.raises(OutsideRootError):
            resolve_inside(tmp_path, outside)
    assert resolve_inside(tmp_path, f"file://{tmp_path}") == tmp_path.resolve()
    assert location_below(tmp_path, "s3://bucket/runs") == root
    assert location_below(root, str(tmp_path)) == tmp_path
    assert location_below(root, "file:///etc") == Path("/etc")


def test_a_location_survives_the_way_to_another_process():
    location = location_of("s3://bucket/runs") / "a.jsonl"
    assert pickle.loads(pickle.dumps(location)) == location
    # A worker of a cluster does not look for an object on its disk.
    shard = Shard(location, "a.jsonl", "native", 0, 10)
    assert ray_engine._is_seen(pickle.loads(pickle.dumps(shard)))
    assert location.parent == location_of("s3://bucket/runs")


MAPPING = b'[keys]\nresponse = "out"\nreward = "score"\nstep = "it"\n'


def mapped(*steps: int) -> bytes:
    return b"".join(
        json.dumps({"it": s, "out": f"r{s}", "score": s}).encode() + b"\n" for s in steps
    )


def test_a_mapping_file_in_a_store_is_that_of_the_folders_below_it(store, tmp_path):
    by_layout = b'files = "x_(?P<step>[0-9]+)\\\\.json"\n[keys]\nresponse = "out"\n'
    for name, content in {
        "runs/one/log.jsonl": mapped(1, 2),
        "runs/one/deep/more.jsonl": mapped(3),
        "runs/other/log.jsonl": rows(4),
        "runs/documents/x_7.json": b'{"out": "seven"}',
        "runs/documents/rollout-board.toml": by_layout,
        "runs/one/rollout-board.toml": MAPPING,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert len(assert_same(store, tmp_path, "mapped").runs) == 4


def test_a_mapping_file_in_a_store_is_fetched_once_and_again_when_it_changes(store):
    url = store.put("one/log.jsonl", mapped(1))
    store.put("one/rollout-board.toml", MAPPING)
    assert opened(url.rpartition("/")[0]).rollouts["response"].tolist() == ["r1"]
    store.asked.requests.clear()
    discover(location_of("s3://bucket/one"))
    assert store.asked.of("GET", "rollout-board.toml") == []
    store.put("one/rollout-board.toml", b'[keys]\nresponse = "score"\nfoo = 1\n')
    (problem,) = [p for p in discover(location_of("s3://bucket/one")).left_out if "toml" in p.path]
    assert "foo" in problem.reason
    store.put("one/rollout-board.toml", MAPPING.replace(b'"it"', b'"score"'))
    assert opened("s3://bucket/one").steps["step"].tolist() == [1]
    assert opened(url).rollouts["response"].tolist() == [
        "r1"
    ]  # one object, with what lies beside it


def test_sniff_explains_what_lies_in_a_store_as_what_lies_on_disk(store, tmp_path, capsys):
    for name in ("trl/chat", "verl/v0"):
        shutil.copytree(DATA / name, tmp_path / name)
    (tmp_path / "verl" / "v0" / "notes.jsonl").write_bytes(b'{"loss": 1.0}\n')
    (tmp_path / "verl" / "v0" / "long.jsonl").write_bytes(mapped(*range(9)))
    (tmp_path / "verl" / "rollout-board.toml").write_bytes(MAPPING)
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(rows(1)))
    url = store.put_folder(tmp_path, "sniffed")
    text = {}
    for path in (str(tmp_path), url):
        assert cli.main(["sniff", path, "--json"]) == 0
        text[path] = json.loads(capsys.readouterr().out.replace(path, "ROOT"))
    assert text[url]["rows"] == text[str(tmp_path)]["rows"]
    assert text[url]["problems"] == text[str(tmp_path)]["problems"]
    assert len(text[url]["rows"]) == 7
    assert cli.main(["sniff", f"{url}/verl/v0/notes.jsonl"]) == 1
    assert "its records hold only numbers (loss)" in capsys.readouterr().out
    store.put("sniffed/notes.md", b"# Notes\n")
    capsys.readouterr()
    assert cli.main(["sniff", f"{url}/notes.md"]) == 1
    assert "kind: .md, tried as JSON lines" in capsys.readouterr().out
    assert cli.main(["sniff", f"{url}/nothing"]) == 2


def test_thresholds_in_a_runs_folder_in_a_store_change_what_they_name(store):
    url = store.put("runs/one/log.jsonl", rows(1))
    store.put("runs/two/log.jsonl", rows(1))
    store.put("runs/one/thresholds.toml", b"[truncation]\nwarning = 0.1\n")
    result = discover(location_of("s3://bucket/runs"))
    store.asked.requests.clear()
    for info in (result.run("one"), discover(location_of(url)).runs[0]):
        limits = own_thresholds(info)
        assert limits.thresholds["truncation"]["warning"] == 0.1
        assert str(limits.path) == "s3://bucket/runs/one/thresholds.toml"
    assert len([r for r in store.asked.of("GET", "thresholds.toml") if "?" not in r[1]]) == 1
    assert own_thresholds(result.run("two")).path is None
    store.put("runs/two/thresholds.toml", b"[truncated]\nwarning = 0.1\n")
    wrong = own_thresholds(discover(location_of("s3://bucket/runs")).run("two"))
    assert "truncated" in wrong.error
