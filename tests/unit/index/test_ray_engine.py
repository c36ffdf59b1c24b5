"""An index that workers of a Ray cluster make is the one that this machine makes."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from live_writer import LiveWriter
from read_formats import info_at
from test_following import same

from board.cli import main
from board.core.records import ReadOptions
from board.errors import ClusterError
from board.index import build
from board.index.discovery.discovered_runs import RunInfo
from board.index.discovery.run_info import LogFile
from board.index.manifest import Manifest
from board.index.reading import ray_engine
from board.index.reading.workers import Job
from board.index.storage import FolderStorage
from board.query.open_run import Follower, indexed_run, open_run, refreshed_rows

pytestmark = [
    pytest.mark.ray,
    # Of Ray's own making: sockets and pipes to its processes that are left to the collector.
    pytest.mark.filterwarnings("default::ResourceWarning"),
]


@pytest.fixture(scope="module")
def ray() -> Iterator[ModuleType]:
    """A cluster of two workers on this machine."""
    ray = pytest.importorskip("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers lack this file
    yield ray
    ray.shutdown()


@pytest.fixture
def info(tmp_path, monkeypatch) -> RunInfo:
    """A run of three ranks, in shards of a few kilobytes: with faults, and a last line left open."""
    monkeypatch.setattr(build, "SHARD_BYTES", 20_000)
    folder = LiveWriter(tmp_path / "run", seed=2).fill(3, 30, 10, end=b"{]\n")
    path = folder / "rank_1.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 29, "response": "r"}')
    return info_at(folder)


@pytest.mark.usefixtures("ray")
def test_workers_make_the_index_that_this_machine_makes(info):
    with ray_engine.connected() as engine:
        run = Follower(persist=True, engine=engine).run(info)
    assert len(run.rollouts) == 901
    same(run, open_run(info))


@pytest.mark.usefixtures("ray")
def test_the_command_reads_what_is_new_on_the_cluster(info, capsys):
    command = ["index", str(info.path), "--engine", "ray", "--json"]
    assert main(command) == 0
    (first,) = json.loads(capsys.readouterr().out)["rows"]
    path = info.path / "rank_3.jsonl"
    # The same rollouts would be a copy, which counts once.
    content = (info.path / "rank_0.jsonl").read_bytes()
    path.write_bytes(content.replace(b'{"', b'{"note": "of another rank", "'))
    assert main(command) == 0
    (then,) = json.loads(capsys.readouterr().out)["rows"]
    assert (first["rollouts"], then["rollouts"]) == (901, 1201)
    assert then["bytes_read"] == then["bytes"] == first["bytes"] + path.stat().st_size


@pytest.mark.usefixtures("ray")
def test_workers_that_do_not_see_the_index_end_the_command(info, tmp_path):
    job = Job(FolderStorage(tmp_path / "not there"), ReadOptions(), None)
    with ray_engine.connected() as engine, pytest.raises(ClusterError, match="not there on"):
        build.extend(job, "key", info, without_steps, engine=engine)


@pytest.mark.usefixtures("ray")
def test_workers_that_do_not_see_the_log_end_the_command(info, tmp_path):
    (tmp_path / "index").mkdir()
    job = Job(FolderStorage(tmp_path / "index"), ReadOptions(), None)
    with ExitStack() as stack:
        real = info.files[0]
        opened = stack.enter_context(real.path.open("rb"))
        ours = Path(f"/proc/self/fd/{os.dup2(opened.fileno(), 700)}")  # to be seen here alone
        stack.callback(os.close, 700)
        file = LogFile(ours, real.reader, real.size, real.mtime_ns, real.inode)
        seen = RunInfo("seen here", ours.parent, (file,), (), ours.parent)
        engine = stack.enter_context(ray_engine.connected())
        with pytest.raises(ClusterError, match="not by a worker"):
            build.extend(job, "key", seen, without_steps, engine=engine)


class Deadly(FolderStorage):
    """Kills the process that writes into it, once a segment is written, as long as it has lives."""

    lives = 1

    def put(self, kind, table):
        name = super().put(kind, table)
        deaths = [*self.folder.glob("died-*")]
        if os.getpid() != int((self.folder / "driver").read_text()) and len(deaths) < self.lives:
            (self.folder / f"died-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return name


def deadly(folder: Path, lives: int) -> Job:
    folder.mkdir()
    (folder / "driver").write_text(str(os.getpid()))
    storage = Deadly(folder)
    storage.lives = lives
    return Job(storage, ReadOptions(), None)


def without_steps(manifest: Manifest) -> Manifest:
    return manifest


@pytest.mark.usefixtures("ray")
def test_what_a_killed_worker_was_reading_is_read_again(info, tmp_path):
    job = deadly(tmp_path / "index", lives=1)
    with ray_engine.connected() as engine:
        result = build.extend(
            job, "key", info, lambda m: refreshed_rows(job.storage, m, info).manifest, engine=engine
        )
    assert [*(tmp_path / "index").glob("died-*")]  # two, where both workers began at once
    written = [*(tmp_path / "index").glob("rows-*")]
    assert len(written) > len(result.manifest.all_segments)  # theirs lie there, in no manifest
    visible, whole = indexed_run(job.storage, info).frame(), open_run(info).rollouts
    pd.testing.assert_frame_equal(visible[whole.columns], whole)


@pytest.mark.usefixtures("ray")
def test_lines_that_kill_every_worker_end_the_command_and_are_named(info, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "RETRIES", 0)
    with ray_engine.connected() as engine, pytest.raises(ClusterError, match=r"rank_\d\.jsonl"):
        build.extend(deadly(tmp_path / "index", lives=9), "key", info, without_steps, engine=engine)


def test_an_address_where_nobody_listens_ends_the_command(info, capsys):
    pytest.importorskip("ray")
    command = ["index", str(info.path), "--engine", "ray", "--address", "127.0.0.1:1"]
    assert main(command) == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err


def test_without_ray_the_command_says_what_to_install(info, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["index", str(info.path), "--engine", "ray"]) == 2
    assert 'pip install "rollout-board[board,ray]"' in capsys.readouterr().err


def test_an_address_without_the_engine_is_refused(info, capsys):
    assert main(["index", str(info.path), "--address", "127.0.0.1:6379"]) == 2
    assert "--engine ray" in capsys.readouterr().err
