"""The database of a server reads indexes below its root, and nothing else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from board.index.discovery.discovered_runs import discover
from board.query.database import database_of
from board.query.open_run import Follower, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    root = tmp_path / "root"
    root.mkdir()
    (root / "log.jsonl").write_text('{"step": 1, "response": "a", "reward": 1.0}\n')
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    (tmp_path / "out").mkdir()
    return Follower(persist=True).run(discover(root).runs[0])


@pytest.mark.parametrize(
    "statement",
    [
        "from read_csv('{folder}/secret.csv')",
        "from read_text('{folder}/root/../secret.csv')",
        "from glob('{folder}/*')",
        "from '{folder}/secret.csv'",
        "copy (select 1) to '{folder}/out/file.csv'",
        "export database '{folder}/out'",
        "attach '{folder}/out/other.db'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
        "set memory_limit = '1TB'",
        "from run",  # a variable of this process
    ],
)
def test_what_is_outside_the_root_is_neither_read_nor_written(
    run: Run, tmp_path: Path, statement: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with (
        database_of(run.info.root, run.index_folder).cursor() as cursor,
        pytest.raises(duckdb.Error),
    ):
        cursor.execute(statement.format(folder=tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


def test_runs_of_one_root_share_a_database_and_its_limit_of_memory(
    run: Run, tmp_path: Path
) -> None:
    database = database_of(run.info.root)
    assert database_of(run.info.root, run.index_folder) is database
    assert database_of(tmp_path) is not database


def test_an_index_that_a_link_leads_to_is_read(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "links"
    other.mkdir()
    (other / "run").symlink_to(tmp_path / "root", target_is_directory=True)
    folder = other / "run" / ".rollout-board" / "index"
    link = database_of(other, folder).link("link", folder)
    (path,) = link.glob("rows-*.parquet")
    with database_of(other, folder).cursor() as cursor:
        assert cursor.sql(f"from '{link / path.name}'").fetchall()


def test_a_narrowed_run_is_read_from_the_index(run: Run) -> None:
    assert run.where("reward > 0").counts == {1: 1}


def test_a_run_has_another_version_when_a_text_alone_changed(run: Run) -> None:
    (log,) = run.info.path.glob("*.jsonl")
    log.write_text('{"step": 1, "response": "b", "reward": 1.0}\n')
    other = Follower(persist=True).run(discover(run.info.path).runs[0])
    assert other.steps.equals(run.steps)
    assert other.version != run.version
