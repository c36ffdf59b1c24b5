"""A run in an object store: what is finished is uploaded, and a bad store costs no training."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import object_store
import pytest
from read_formats import run_at

import exporters.writing.sealing as sealing
from board.formats.io.locations import location_of
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run
from exporters import RolloutExporter
from exporters.writing.store import PROTOCOLS, Store, store_of

fsspec = pytest.importorskip("fsspec")

SMALLEST = 1 << 16
STEPS = 20


def export(url: str, steps: int = STEPS, **options: Any) -> RolloutExporter:
    with RolloutExporter(url, rotate_bytes=SMALLEST, run={"lr": 0.5}, **options) as exporter:
        for step in range(steps):
            experts = np.full((1, 4000, 1, 1), step)
            ids = np.arange(4000)[None]
            exporter.log(step, response_ids=ids, rewards=[step], routed_experts=experts)
            exporter.end_step(step)
    return exporter


def run_in(url: str) -> Run:
    (info,) = discover(location_of(url)).runs
    return open_run(info)


@pytest.fixture(scope="module")
def s3():
    with object_store.running() as store:
        yield store


@pytest.fixture(autouse=True)
def spool(tmp_path, monkeypatch):
    """Where files wait for the store."""
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spool"))
    monkeypatch.setattr(sealing, "_WAITS", (0.0, 0.01))
    (tmp_path / "spool").mkdir()
    return tmp_path / "spool"


def waiting(spool: Path) -> list[Path]:
    return sorted(path for path in spool.rglob("*") if path.is_file())


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_a_run_in_a_store_is_the_run_that_a_folder_would_have_got(tmp_path, spool, compress):
    url = f"memory://runs/{tmp_path.name}"
    stored, local = export(url, compress=compress), export(str(tmp_path / "local"))
    assert not waiting(spool), "nothing stays behind"
    assert stored.counts == local.counts
    run, expected = run_in(url), run_at(tmp_path / "local")
    assert run.steps.equals(expected.steps)
    assert run.steps["complete"].all()
    names = [Path(name).name for name in fsspec.filesystem("memory").ls(url, detail=False)]
    assert sum(".jsonl" in name for name in names) > 3, "in parts"
    assert sum(name.endswith(".arrays.npy") for name in names) == 2
    assert sum(name.startswith("run-") for name in names) == 1


def test_a_run_is_written_to_s3(tmp_path, s3, spool):
    exporter_url = f"s3://{s3.bucket}/{tmp_path.name}/run"
    exporter = export(exporter_url)
    assert exporter.counts["records"] == STEPS
    assert not {"errors:upload", "not_uploaded"} & set(exporter.counts)
    assert run_in(exporter_url).steps["step"].tolist() == [*range(STEPS)]
    assert not waiting(spool)


def test_full_parts_are_there_while_the_run_goes_on(tmp_path):
    url = f"memory://runs/{tmp_path.name}"
    with RolloutExporter(url, rotate_bytes=SMALLEST, mode="sync") as exporter:
        for step in range(STEPS):
            exporter.log(step, response_ids=np.arange(4000)[None])
        files, deadline = fsspec.filesystem("memory"), time.monotonic() + 30
        while time.monotonic() < deadline and len(files.glob(f"{url}/*.jsonl")) < 3:
            time.sleep(0.01)
        assert len(files.glob(f"{url}/*.jsonl")) >= 3


def test_a_store_that_fails_costs_no_training_and_what_it_did_not_take_is_counted_and_stays(
    tmp_path, spool, monkeypatch, caplog
):
    tries: list[str] = []

    def refused(self: Store, path: Path, **_: Any) -> None:
        tries.append(path.name)
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(Store, "put", refused)
    exporter = export(f"memory://runs/{tmp_path.name}")
    left = waiting(spool)
    assert len(tries) == 2 * len(left), "as many tries for each file"
    assert exporter.counts["records"] == exporter.counts["not_uploaded"] == STEPS
    assert exporter.counts["errors:upload"] == len(tries)
    assert f"{len(left)} files stay in" in caplog.text
    assert "AccessDenied" in caplog.text
    assert str(left[0].parent) in caplog.text
    assert run_at(left[0].parent).steps["step"].tolist() == [*range(STEPS)], "and can be read there"


def test_a_store_that_fails_once_is_asked_again(tmp_path, spool, monkeypatch):
    put, seen = Store.put, set[str]()

    def first_refused(self: Store, path: Path, **options: Any) -> None:
        if path.name not in seen:
            seen.add(path.name)
            raise TimeoutError("slow down")
        put(self, path, **options)

    monkeypatch.setattr(Store, "put", first_refused)
    exporter = export(f"memory://runs/{tmp_path.name}")
    assert not waiting(spool)
    assert "not_uploaded" not in exporter.counts


def test_a_store_that_never_answers_holds_up_neither_a_call_nor_the_end(
    tmp_path, spool, monkeypatch
):
    monkeypatch.setattr(Store, "put", lambda *_, **__: time.sleep(60))
    exporter = RolloutExporter(f"memory://runs/{tmp_path.name}", rotate_bytes=SMALLEST)
    began = time.monotonic()
    for step in range(STEPS):
        exporter.log(step, response_ids=np.arange(4000)[None])
    assert exporter.flush(30)
    exporter.close(timeout=0.5)
    assert time.monotonic() - began < 30
    assert exporter.counts["not_uploaded"] == exporter.counts["records"] == STEPS
    assert exporter.counts["errors:close"] == 1


def test_a_vocabulary_that_is_there_stays_as_it_is(tmp_path):
    files, url = fsspec.filesystem("memory"), f"memory://runs/{tmp_path.name}"
    files.pipe_file(f"{url}/vocab.json", b"{}")
    (tmp_path / "vocab.json").write_text("[1]")
    store = store_of(url)
    assert store
    store.put(tmp_path / "vocab.json", replaces=False)
    assert files.cat_file(f"{url}/vocab.json") == b"{}"
    store.put(tmp_path / "vocab.json")
    assert files.cat_file(f"{url}/vocab.json") == b"[1]"


@pytest.mark.parametrize(
    "target",
    [
        *(
            "hf://datasets/a/b",
            "https://host/run",
            "file:///run",
            "s3://",
            "s3:///run",
            "memory://",
        ),
        *("s3://bucket/../run", "s3://user:secret@bucket/run", "s3://bucket/run?key=secret"),
        Path("s3://bucket/run"),
    ],
)
def test_an_address_that_cannot_be_written_to_is_refused_and_no_folder_is_made_of_its_name(
    tmp_path, monkeypatch, target
):
    monkeypatch.chdir(tmp_path / "spool")
    with pytest.raises(ValueError, match="out_dir: expected") as refused:
        RolloutExporter(target)
    assert "secret" not in str(refused.value)
    assert not list(Path().iterdir())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_missing_package_is_named(protocol, monkeypatch):
    def missing(*_: Any) -> None:
        raise ImportError("no package")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(ImportError, match="needs a package: pip install"):
        store_of(f"{protocol}://bucket/run")


@pytest.mark.parametrize("path", ["/runs/a:/b", "runs", "C:/runs", "runs/s3:/x", ""])
def test_a_folder_of_this_machine_is_no_address(path):
    assert store_of(path) is None


def test_what_a_program_leaves_open_when_it_ends_is_uploaded(tmp_path, s3):
    program = (
        "import sys; from exporters import RolloutExporter\n"
        "exporter = RolloutExporter(sys.argv[1])\n"
        "exporter.log(1, response_ids=[[1, 2]])\n"
        "raise SystemExit(3)"
    )
    environment = os.environ | {
        "FSSPEC_S3_ENDPOINT_URL": s3.url.replace("127.0.0.1", "localhost"),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    url = f"s3://{s3.bucket}/{tmp_path.name}/run"
    command = (sys.executable, "-c", program, url)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert not list(tmp_path.rglob("*.jsonl")), done.stderr
    assert run_in(url).steps["step"].tolist() == [1]
